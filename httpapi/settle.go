package httpapi

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// holder are the members of every call that a token's holder makes.
type holder struct {
	common
	Token           jsontext.Value `json:"token"`
	ExpectedVersion *uint64        `json:"expectedVersion"`
}

// beginHolder starts the command of a call that must carry a token.
func (it *item) beginHolder(c *call, in *input, op fsmpb.Op, m *holder) *idem.Error {
	if err := it.begin(c, in, op, &m.common, true); err != nil {
		return err
	}
	if err := it.takeToken(m.Token); err != nil {
		return err
	}
	return it.takeVersion(in, m.ExpectedVersion)
}

type commitBody struct {
	holder
	Response        jsontext.Value `json:"response"`        // null is a response, absence is none
	ResponseOmitted bool           `json:"responseOmitted"` // there was one, too large to send
}

type commitItem struct {
	opMember
	commitBody
}

func decodeCommit(c *call, in *input, it *item) *idem.Error {
	s := getScratch()
	defer s.free()
	b := &s.commit.commitBody
	if err := s.decode(in, &s.commit, b); err != nil {
		return err
	}
	if err := it.beginHolder(c, in, fsmpb.Op_OP_COMMIT, &b.holder); err != nil {
		return err
	}
	return it.takeOutcome(c, kindCommitted, b.Response, b.ResponseOmitted)
}

type failBody struct {
	holder
	ErrorCode       *string        `json:"errorCode"`
	Response        jsontext.Value `json:"response"`
	ResponseOmitted bool           `json:"responseOmitted"`
}

type failItem struct {
	opMember
	failBody
}

func decodeFail(c *call, in *input, it *item) *idem.Error {
	s := getScratch()
	defer s.free()
	b := &s.fail.failBody
	if err := s.decode(in, &s.fail, b); err != nil {
		return err
	}
	if err := it.beginHolder(c, in, fsmpb.Op_OP_FAIL, &b.holder); err != nil {
		return err
	}
	if b.ErrorCode == nil {
		return invalid("errorCode is missing: name why it failed")
	}
	if err := idem.CheckErrorCode(*b.ErrorCode); err != nil {
		return err
	}
	it.cmd.ErrorCode = *b.ErrorCode
	return it.takeOutcome(c, kindFailed, b.Response, b.ResponseOmitted)
}

type releaseBody struct {
	holder
	Reason *string `json:"reason"`
}

type releaseItem struct {
	opMember
	releaseBody
}

func decodeRelease(c *call, in *input, it *item) *idem.Error {
	s := getScratch()
	defer s.free()
	b := &s.release.releaseBody
	if err := s.decode(in, &s.release, b); err != nil {
		return err
	}
	if err := it.beginHolder(c, in, fsmpb.Op_OP_RELEASE, &b.holder); err != nil {
		return err
	}
	if b.Reason != nil {
		if err := idem.CheckReason(*b.Reason); err != nil {
			return err
		}
		it.cmd.Reason = *b.Reason
	}
	return nil
}

type extendBody struct {
	holder
	Lease *string `json:"lease"`
}

type extendItem struct {
	opMember
	extendBody
}

func decodeExtend(c *call, in *input, it *item) *idem.Error {
	s := getScratch()
	defer s.free()
	b := &s.extend.extendBody
	if err := s.decode(in, &s.extend, b); err != nil {
		return err
	}
	if err := it.beginHolder(c, in, fsmpb.Op_OP_EXTEND, &b.holder); err != nil {
		return err
	}
	if b.Lease == nil {
		return nil // the namespace's own, as on reserve
	}
	var err *idem.Error
	it.cmd.LeaseUs, err = leaseMicros(*b.Lease)
	return err
}

// The kinds of an outcome, as its digest takes them.
const (
	kindCommitted = "committed"
	kindFailed    = "failed"
)
