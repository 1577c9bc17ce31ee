package httpapi

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

type reserveBody struct {
	common
	Fingerprint *idem.Fingerprint `json:"fingerprint"`
	Operation   *string           `json:"operation"`
	Request     jsontext.Value    `json:"request"`
	RequestHash *string           `json:"requestHash"`
	AttemptID   *string           `json:"attemptId"`
	TTL         *string           `json:"ttl"`
	Lease       *string           `json:"lease"`
	Wait        *string           `json:"wait"`
}

type reserveItem struct {
	opMember
	reserveBody
}

func decodeReserve(c *call, in *input, it *item) *idem.Error {
	s := getScratch()
	defer s.free()
	b := &s.reserve.reserveBody
	if err := s.decode(in, &s.reserve, b); err != nil {
		return err
	}
	if err := it.begin(c, in, fsmpb.Op_OP_RESERVE, &b.common, false); err != nil {
		return err
	}
	cmd := it.cmd
	var err *idem.Error
	if it.key == "" {
		// Only a call that names no key at all is named by what it does.
		if b.Fingerprint == nil {
			return &idem.Error{Code: idem.CodeKeyMissing}
		}
		if cmd.Fingerprint, err = b.Fingerprint.Form(); err != nil {
			return err
		}
	}
	if b.Operation != nil {
		if err := idem.CheckOperation(*b.Operation); err != nil {
			return err
		}
		cmd.Operation = *b.Operation
	}
	switch {
	case b.Request != nil && b.RequestHash != nil:
		return invalid("request and requestHash are both there: send one of them")
	case b.RequestHash != nil:
		if err := idem.CheckRequestHash(*b.RequestHash); err != nil {
			return err
		}
		cmd.RequestDigest = *b.RequestHash
	case b.Request == nil:
		cmd.RequestDigest = c.srv.nullHash
	default:
		if cmd.RequestDigest, err = idem.Digest(b.Request); err != nil {
			return err
		}
	}
	if b.TTL != nil {
		d, err := idem.ParseDuration("ttl", *b.TTL, fsm.MinTTL, fsm.MaxTTL)
		if err != nil {
			return err
		}
		cmd.TtlUs = fsm.Micros(d)
	}
	if b.Lease != nil {
		if cmd.LeaseUs, err = leaseMicros(*b.Lease); err != nil {
			return err
		}
	}
	if b.Wait != nil {
		if in.batch {
			return invalid("wait is not taken inside a batch")
		}
		if it.wait, err = idem.ParseDuration("wait", *b.Wait, 0, MaxWait); err != nil {
			return err
		}
	}
	if b.AttemptID == nil {
		it.made = c.srv.newID()
		cmd.AttemptId = it.made
		return nil
	}
	if err := idem.CheckAttemptID(*b.AttemptID); err != nil {
		return err
	}
	cmd.AttemptId = *b.AttemptID
	return nil
}

// leaseMicros reads a lease; the machine cuts it to the namespace's maxLease.
func leaseMicros(s string) (int64, *idem.Error) {
	d, err := idem.ParseDuration("lease", s, fsm.MinTTL, fsm.MaxTTL)
	return fsm.Micros(d), err
}

// unmarshal decodes strictly: an item of a batch with its op, a body without.
func unmarshal(in *input, withOp, without any) *idem.Error {
	if in.batch {
		return idem.Unmarshal(in.data, withOp)
	}
	return idem.Unmarshal(in.data, without)
}

func digestOfNothing() string {
	d, _ := idem.Digest(nil) // null is always well-formed
	return d
}
