package httpapi

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

type cancelBody struct {
	common
	Reason *string `json:"reason"`
}

type cancelItem struct {
	opMember
	cancelBody
}

func decodeCancel(c *call, in *input, it *item) *idem.Error {
	var b cancelItem
	if err := unmarshal(in, &b, &b.cancelBody); err != nil {
		return err
	}
	if err := it.begin(c, in, fsmpb.Op_OP_CANCEL, &b.common, true); err != nil {
		return err
	}
	var err *idem.Error
	it.cmd.Reason, err = required("reason", b.Reason, idem.CheckReason)
	return err
}

type resolveBody struct {
	holder
	Verdict   *string        `json:"verdict"`
	Response  jsontext.Value `json:"response"`
	ErrorCode *string        `json:"errorCode"`
	Reason    *string        `json:"reason"`
	Actor     *string        `json:"actor"`
}

type resolveItem struct {
	opMember
	resolveBody
}

func decodeResolve(c *call, in *input, it *item) *idem.Error {
	var b resolveItem
	if err := unmarshal(in, &b, &b.resolveBody); err != nil {
		return err
	}
	if err := it.beginHolder(c, in, fsmpb.Op_OP_RESOLVE, &b.holder); err != nil {
		return err
	}
	var err *idem.Error
	if it.cmd.Reason, err = required("reason", b.Reason, idem.CheckReason); err != nil {
		return err
	}
	if it.cmd.Actor, err = required("actor", b.Actor, idem.CheckActor); err != nil {
		return err
	}
	verdict := ""
	if b.Verdict != nil {
		verdict = *b.Verdict
	}
	switch verdict {
	case "committed":
		it.cmd.Verdict = fsmpb.Verdict_VERDICT_COMMITTED
		if b.ErrorCode != nil {
			return invalid("errorCode is not taken with verdict committed")
		}
		return it.takeResponse(c, kindCommitted, b.Response)
	case "failed":
		it.cmd.Verdict = fsmpb.Verdict_VERDICT_FAILED
		if b.ErrorCode != nil {
			if err := idem.CheckErrorCode(*b.ErrorCode); err != nil {
				return err
			}
			it.cmd.ErrorCode = *b.ErrorCode
		}
		return it.takeResponse(c, kindFailed, b.Response)
	case "not_applied":
		it.cmd.Verdict = fsmpb.Verdict_VERDICT_NOT_APPLIED
		if b.Response != nil || b.ErrorCode != nil {
			return invalid("response and errorCode are not taken with verdict not_applied: there was no outcome")
		}
		return nil
	}
	return invalid("verdict must be committed, failed or not_applied")
}

// required takes a text that people will read in the audit trail.
func required(name string, s *string, check func(string) *idem.Error) (string, *idem.Error) {
	if s == nil || strings.TrimSpace(*s) == "" {
		return "", invalid(name + " is missing: the audit trail needs it")
	}
	if err := check(*s); err != nil {
		return "", err
	}
	return *s, nil
}
