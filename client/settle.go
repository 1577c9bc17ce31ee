package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/onced/onced/idem"
)

// maxCallBytes is the largest body that a node takes. A settlement that would
// be larger is sent without its response from the start.
const maxCallBytes = 1 << 20

// CommitRequest records that the attempt succeeded.
type CommitRequest struct {
	Key   string
	Token string
	// Response is what replays give, as JSON; nil is none, and
	// jsontext.Value("null") is null. A jsontext.Value is taken as it is.
	Response any
	// OmitResponse records that there was a response and does not send it.
	OmitResponse    bool
	ExpectedVersion uint64 // 0: any
	CorrelationID   string
}

// FailRequest records that the attempt failed for good: the failure is
// replayed, never run again.
type FailRequest struct {
	Key             string
	Token           string
	ErrorCode       string // 1 to 128 printable ASCII characters
	Response        any    // as in CommitRequest
	OmitResponse    bool
	ExpectedVersion uint64
	CorrelationID   string
}

// ReleaseRequest gives a claim back: what it was for surely did not run.
type ReleaseRequest struct {
	Key             string
	Token           string
	Reason          string
	ExpectedVersion uint64
	CorrelationID   string
}

// ExtendRequest renews the lease from now.
type ExtendRequest struct {
	Key             string
	Token           string
	Lease           time.Duration // 0: the namespace's
	ExpectedVersion uint64
	CorrelationID   string
}

// CancelRequest makes sure that a key can never start. Whoever holds the key,
// or left it uncertain, cannot be cancelled.
type CancelRequest struct {
	Key           string
	Reason        string // for the audit trail; must be there
	CorrelationID string
}

// ResolveRequest says what became of an uncertain attempt. It takes the admin
// role and is audited.
type ResolveRequest struct {
	Key   string
	Token string // of the attempt that was judged, as Get shows it to admins
	// Verdict is committed, failed or not_applied. The last states that the
	// attempt did not run and will not: its holder must be dead or cut off.
	Verdict         string
	Response        any
	ErrorCode       string // with failed
	Reason          string // for the audit trail, as Actor; both must be there
	Actor           string
	ExpectedVersion uint64
	CorrelationID   string
}

// Settlement is the answer to a call that settled a key, or gave it up.
type Settlement struct {
	Outcome string // committed, failed, released, cancelled, resolved
	Record  *idem.Record
	// Repeated tells that the same call, or one with the same outcome, had done
	// it before. An answer that was lost on the way does not show here.
	Repeated bool
	Index    uint64
}

// Extension is the answer to an extend.
type Extension struct {
	Lease  Lease
	Record *idem.Record
	Index  uint64
}

// Commit records the outcome of the attempt that holds token. It is safe to
// repeat: the same outcome again is no error. ErrStaleToken means that another
// attempt holds the key now, ErrAlreadySettled that another outcome is on the
// record (in the Record of the *idem.Error).
//
// A response that a node refuses as too large is left out, and the outcome is
// recorded all the same: Record.ResponseOmitted says so, as every replay will.
func (c *Client) Commit(ctx context.Context, req CommitRequest) (*Settlement, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err != nil {
		return nil, err
	}
	return c.conclude(ctx, "commit", "committed", w, req.Response, req.OmitResponse)
}

// Fail records that the attempt that holds token failed for good. As Commit
// otherwise.
func (c *Client) Fail(ctx context.Context, req FailRequest) (*Settlement, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err != nil {
		return nil, err
	}
	if err := idem.CheckErrorCode(req.ErrorCode); err != nil {
		return nil, err
	}
	w.ErrorCode = req.ErrorCode
	return c.conclude(ctx, "fail", "failed", w, req.Response, req.OmitResponse)
}

// conclude records an outcome, without its response if that is too large.
func (c *Client) conclude(ctx context.Context, op, outcome string, w *idem.SettleRequest, response any, omit bool) (*Settlement, error) {
	if !omit {
		v, err := value("Response", response)
		if err != nil {
			return nil, err
		}
		w.Response = v
		if len(v) <= maxCallBytes {
			s, err := c.settle(ctx, op, outcome, w)
			if !errors.Is(err, ErrTooLarge) || len(v) == 0 {
				return s, err
			}
		}
	}
	// The effect is a fact, and the record must say so: a response that does
	// not fit must not leave the claim behind, to become uncertain.
	w.Response, w.ResponseOmitted = nil, true
	return c.settle(ctx, op, outcome, w)
}

// Release gives the claim of token back. ErrStaleToken means that the caller
// holds the key no longer. A release whose answer was lost, and which on being
// repeated met another attempt's claim, has done what it was for: no error.
func (c *Client) Release(ctx context.Context, req ReleaseRequest) (*Settlement, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err != nil {
		return nil, err
	}
	w.Reason = req.Reason
	return c.settle(ctx, "release", "released", w)
}

// Extend renews the lease of token's claim, after its end too as long as nobody
// else has claimed the key. It never shortens a lease. ErrStaleToken means that
// the claim is lost.
func (c *Client) Extend(ctx context.Context, req ExtendRequest) (*Extension, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err != nil {
		return nil, err
	}
	if req.Lease < 0 {
		return nil, invalid("Lease cannot be negative")
	}
	w.Lease = duration(req.Lease)
	r, err := c.post("extend", w)
	if err != nil {
		return nil, err
	}
	var ext *Extension
	err = c.call(ctx, r, func(a *answer) error {
		ans, err := decodeAnswer(a.body, req.Key, "extended")
		if err != nil {
			return err
		}
		lease, err := leaseOf(ans, a.sent)
		ext = &Extension{lease, ans.Record, indexOf(a.header)}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ext, nil
}

// Cancel makes sure that a key that may still arrive can never start.
func (c *Client) Cancel(ctx context.Context, req CancelRequest) (*Settlement, error) {
	if err := idem.CheckKey(req.Key); err != nil {
		return nil, err
	}
	return c.settle(ctx, "cancel", "cancelled", &idem.SettleRequest{
		Key: &req.Key, Reason: req.Reason, CorrelationID: req.CorrelationID,
	})
}

// Resolve says what became of an uncertain attempt.
func (c *Client) Resolve(ctx context.Context, req ResolveRequest) (*Settlement, error) {
	w, err := req.wire()
	if err != nil {
		return nil, err
	}
	return c.settle(ctx, "resolve", "resolved", w)
}

func (req *ResolveRequest) wire() (*idem.SettleRequest, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err != nil {
		return nil, err
	}
	w.Verdict, w.ErrorCode, w.Reason, w.Actor = req.Verdict, req.ErrorCode, req.Reason, req.Actor
	w.Response, err = value("Response", req.Response)
	return w, err
}

// holder begins the body of a call that carries a token.
func holder(key, token string, version uint64, correlation string) (*idem.SettleRequest, error) {
	if err := idem.CheckKey(key); err != nil {
		return nil, err
	}
	if _, err := idem.ParseToken(token); err != nil {
		return nil, err
	}
	w := &idem.SettleRequest{Key: &key, Token: &token, CorrelationID: correlation}
	if version != 0 {
		w.ExpectedVersion = &version
	}
	return w, nil
}

func (c *Client) post(op string, w any) (*request, error) {
	b, err := body(w)
	if err != nil {
		return nil, err
	}
	return &request{method: http.MethodPost, path: c.path(op), body: b}, nil
}

// settle sends a call whose 2xx has this one outcome.
func (c *Client) settle(ctx context.Context, op, outcome string, w *idem.SettleRequest) (*Settlement, error) {
	r, err := c.post(op, w)
	if err != nil {
		return nil, err
	}
	var s *Settlement
	err = c.call(ctx, r, func(a *answer) error {
		ans, err := decodeAnswer(a.body, *w.Key, outcome)
		if err != nil {
			return err
		}
		s = &Settlement{
			Outcome: ans.Outcome, Record: ans.Record,
			Repeated: a.header.Get("Idempotent-Replayed") == "true", Index: indexOf(a.header),
		}
		return nil
	})
	if op == "release" && r.unsure && errors.Is(err, ErrStaleToken) {
		return &Settlement{Outcome: outcome, Record: problemOf(err).Record, Repeated: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
