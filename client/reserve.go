package client

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// The outcomes of a reserve.
const (
	Reserved = "reserved" // this caller runs it: Reservation.Claim
	Replayed = "replayed" // it ran: Reservation.Record has what came of it
)

// maxParked is how long one call is parked at a node. A longer wait is asked
// for in parts, so that a node that vanishes silently is noticed.
const maxParked = 20 * time.Second

// ReserveRequest asks for the right to run a key, or for its outcome.
type ReserveRequest struct {
	Key         string            // or Fingerprint
	Fingerprint *idem.Fingerprint // names a trade that has no key of its own
	Operation   string            // the write's stable name
	// Request is what the key stands for; another request on the same key is
	// ErrConflict. It is written as JSON and digested here: the cluster sees
	// the digest alone. nil counts as null. A jsontext.Value is taken as it is.
	Request     any
	RequestHash string        // the caller's own digest, instead of Request
	AttemptID   string        // names this attempt; made here if empty
	TTL         time.Duration // 0: the namespace's
	Lease       time.Duration // 0: the namespace's
	// Wait is how long to wait for the outcome of another attempt that holds
	// the key. It may be longer than the 60 s a node takes.
	Wait          time.Duration
	CorrelationID string
}

// Reservation is the answer to a reserve that was not refused.
type Reservation struct {
	Outcome string // Reserved or Replayed
	Claim   *Claim // with Reserved
	// Record is the key's record. With Replayed its Status is committed or
	// failed, and Response, ErrorCode and ResponseOmitted tell the outcome.
	Record *idem.Record
	Index  uint64 // of the log entry that decided; for GetRequest.MinIndex
}

// Claim is the right to run a key. Its holder commits, fails or releases it
// with the token.
type Claim struct {
	Key       string
	Token     string // the fence: pass it on to what can compare it
	AttemptID string
	Attempt   uint32 // 1 for the first claim of the key
	Resumed   bool   // this attempt had the claim already
	Lease     Lease
	// Previous is the claim before this one, nil for the first. Ended "lapsed"
	// means that it may have run: look before you leap.
	Previous *idem.PreviousAttempt
}

// Reserve asks for the right to run a key. A nil error means that the caller
// holds it (Outcome Reserved) or that it ran before (Replayed). Any error means
// that the caller must not run it: ErrInFlight, ErrUncertain, ErrExpired,
// ErrConflict and the others are the cluster's word; ErrUnavailable means that
// nobody decided.
//
// Every error after the first try carries the attemptId in its *idem.Error. The
// same call with this AttemptID is then safe to make: it is given the claim
// that the first may have got, and never a second one.
func (c *Client) Reserve(ctx context.Context, req ReserveRequest) (*Reservation, error) {
	w, err := req.wire()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.limited(ctx, req.Wait)
	defer cancel()
	waitUntil := time.Now().Add(req.Wait)
	for {
		asked := time.Now()
		res, parked, err := c.reserve(ctx, w, waitUntil)
		if err == nil || !errors.Is(err, ErrInFlight) || parked == 0 {
			return res, withAttempt(err, w.AttemptID)
		}
		// A node that does not keep a call for the time is not asked in a loop.
		if time.Since(asked) < parked/2 && pause(ctx, min(time.Second, time.Until(waitUntil))) != nil ||
			c.parkable(ctx, waitUntil) == 0 {
			return nil, withAttempt(err, w.AttemptID)
		}
	}
}

// parkable is how long the next try may be parked: as much as leaves time in
// the budget to decide.
func (c *Client) parkable(ctx context.Context, waitUntil time.Time) time.Duration {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	d := min(time.Until(waitUntil), maxParked, left-min(time.Second, left/4))
	return max(0, d.Truncate(time.Millisecond))
}

// reserve asks once, parked for a while at most; parked is for how long the
// last try could be.
func (c *Client) reserve(ctx context.Context, w *idem.ReserveRequest, waitUntil time.Time) (_ *Reservation, parked time.Duration, err error) {
	var res *Reservation
	r := &request{method: http.MethodPost, path: c.path("reserve")}
	r.renew = func(ctx context.Context) (err error) {
		r.wait = c.parkable(ctx, waitUntil)
		w.Wait = duration(r.wait)
		r.body, err = body(w)
		return err
	}
	err = c.call(ctx, r, func(a *answer) error {
		var err error
		res, err = reservation(w, a.status, a.body, a.sent)
		if err == nil {
			res.Index = indexOf(a.header)
		}
		return err
	})
	if err != nil {
		return nil, r.wait, err
	}
	return res, r.wait, nil
}

// wire checks the request and makes the body of it, attemptId included: it is
// made once, and so the same on every try.
func (req *ReserveRequest) wire() (*idem.ReserveRequest, error) {
	w := &idem.ReserveRequest{
		Fingerprint: req.Fingerprint, Operation: req.Operation, RequestHash: req.RequestHash, AttemptID: req.AttemptID,
		TTL: duration(req.TTL), Lease: duration(req.Lease), CorrelationID: req.CorrelationID,
	}
	if req.Key != "" || req.Fingerprint == nil {
		if err := idem.CheckKey(req.Key); err != nil {
			return nil, err
		}
		w.Key = &req.Key
	}
	if req.Request != nil && req.RequestHash != "" {
		return nil, invalid("Request and RequestHash are both there: give one of them")
	}
	if req.TTL < 0 || req.Lease < 0 || req.Wait < 0 {
		return nil, invalid("TTL, Lease and Wait cannot be negative")
	}
	if w.RequestHash == "" {
		v, err := value("Request", req.Request)
		if err != nil {
			return nil, err
		}
		digest, refused := idem.Digest(v)
		if refused != nil {
			return nil, refused
		}
		w.RequestHash = digest
	}
	if w.AttemptID == "" {
		w.AttemptID = rand.Text()
	}
	return w, asError(idem.CheckAttemptID(w.AttemptID))
}

// reservation reads the answer to w. A claim is taken only if it is for this
// key and this attempt, with a token and a lease: anything else must not start
// a run.
func reservation(w *idem.ReserveRequest, status int, b jsontext.Value, sent time.Time) (*Reservation, error) {
	key := ""
	if w.Key != nil {
		key = *w.Key
	}
	ans, err := decodeAnswer(b, key, Reserved, Replayed)
	if err != nil {
		return nil, err
	}
	res := &Reservation{Outcome: ans.Outcome, Record: ans.Record}
	if ans.Outcome == Replayed {
		if status != http.StatusOK || ans.Record.Status != "committed" && ans.Record.Status != "failed" {
			return nil, &strange{"the answer is a replay without an outcome"}
		}
		return res, nil
	}
	if _, err := idem.ParseToken(ans.Token); err != nil || status != http.StatusCreated || ans.AttemptID != w.AttemptID {
		return nil, &strange{"the answer grants nothing to this attempt"}
	}
	lease, err := leaseOf(ans, sent)
	if err != nil {
		return nil, err
	}
	res.Claim = &Claim{
		Key: ans.Record.Key, Token: ans.Token, AttemptID: ans.AttemptID, Attempt: ans.Attempt,
		Resumed: ans.Resumed != nil && *ans.Resumed, Lease: lease, Previous: ans.PreviousAttempt,
	}
	return res, nil
}

// withAttempt puts the attemptId into the error of a reserve.
func withAttempt(err error, id string) error {
	if p := problemOf(err); p != nil && p.AttemptID == "" {
		p.AttemptID = id
	}
	return err
}
