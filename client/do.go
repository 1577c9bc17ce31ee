package client

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// Call is what Do guards.
type Call struct {
	Key         string            // or Fingerprint
	Fingerprint *idem.Fingerprint // names a trade that has no key of its own
	Operation   string            // the write's stable name
	Request     any               // what the key stands for; digested, not sent
	RequestHash string            // the caller's own digest, instead of Request
	TTL         time.Duration     // how long the outcome is replayed; 0: the namespace's
	Lease       time.Duration     // renewed while the run works; 0: the namespace's
	// Wait is how long to wait for the outcome of another attempt that holds
	// the key; 0: ErrInFlight at once.
	Wait time.Duration
	// ClaimTimeout is how long the cluster may leave the claim undecided, however
	// long Wait is; 0: as long as the context, or else the client's budget and
	// Wait, last.
	ClaimTimeout  time.Duration
	CorrelationID string
}

// Attempt is what a run knows of itself.
type Attempt struct {
	Key       string
	Token     string // the fence: pass it on to what can compare it
	AttemptID string
	Number    uint32 // 1 for the first attempt at the key
	// Previous is the attempt before, nil for the first. Ended "lapsed" means
	// that it may have run: look before you leap.
	Previous *idem.PreviousAttempt

	lease func() Lease
}

// Lease is the attempt's lease as last renewed; the zero Lease when the run is
// unguarded.
func (a Attempt) Lease() Lease {
	if a.lease == nil {
		return Lease{}
	}
	return a.lease()
}

// Outcome is what Do gives.
type Outcome[T any] struct {
	Value    T
	Replayed bool         // an earlier attempt gave it; nothing ran now
	Record   *idem.Record // the settled record; nil when it is not known
	// LeaseLost tells why the lease was lost while the run worked, though its
	// outcome was recorded all the same: nobody else had claimed the key.
	LeaseLost error
	Unguarded bool // it ran without a claim: see FailOpen
}

// DoOption changes how Do guards.
type DoOption func(*doOptions)

type doOptions struct{ failOpen, detached bool }

// Detached lets the end of ctx stop the claim alone: once the run has begun it
// goes on, its context does not end with ctx and has none of its deadline. It is
// for servers, whose caller's hanging up must not cut short what it asked for.
func Detached() DoOption { return func(o *doOptions) { o.detached = true } }

// FailOpen runs the call WITHOUT A CLAIM when the cluster cannot decide
// (ErrUnavailable, ErrOverloaded, ErrInternal).
//
// That gives up what this package is for. While the cluster is away every
// duplicate that arrives runs as well; a call whose claim was granted and whose
// answer was lost runs beside whatever the cluster believes; nothing is
// recorded, so a later duplicate may run once more. Use it only for effects
// that may happen twice without harm, and look at Outcome.Unguarded. It never
// overrides a decision: in flight, uncertain, conflict, expired and all other
// refusals stay refusals, and so do a malformed call, a missing permission and
// a context that has ended. Each unguarded run is logged as a warning.
func FailOpen() DoOption { return func(o *doOptions) { o.failOpen = true } }

// Do runs a call once: it claims the key, runs and settles, or replays what an
// earlier attempt came to. The run's result decides:
//
//   - a value: committed, and given to every later call
//   - NotStarted(err): released, and the next attempt runs; *NotStartedError
//   - Failed(code, err): failed, and replayed as the same failure; *FailedError
//   - any other error: left uncertain, because the effect may have happened;
//     *UncertainError. So it is with a run that panics (the panic goes on) or
//     whose context ended, unless it returns one of the above all the same.
//
// With any other error nothing ran: it is that of Reserve, or of a claim that
// was given back before it began. When that is ErrUnavailable (fail closed) and
// the claim may have been granted unseen, Do gives it back in the background.
//
// The lease is renewed while run works, also after ctx has ended. If it is lost
// run's context ends with the cause ErrLeaseLost: stop, and return what is
// known. Settling has its own time (WithSettleTimeout) and does not end with
// ctx: a caller that hangs up loses the answer, never the outcome.
func Do[T any](ctx context.Context, c *Client, call Call, run func(ctx context.Context, a Attempt) (T, error), opts ...DoOption) (Outcome[T], error) {
	var o doOptions
	for _, opt := range opts {
		opt(&o)
	}
	var out Outcome[T]
	res, err := c.claim(ctx, &call, o.failOpen)
	if err != nil {
		if !o.failOpen || !noDecision(err) || ctx.Err() != nil {
			return out, err
		}
		c.log.Warn("running unguarded: the cluster does not decide, and FailOpen was asked for", "cause", err)
		out.Unguarded = true
		a := Attempt{Key: call.Key}
		out.Value, err = run(ctx, a)
		return out, meaning(err, a, nil)
	}
	if res.Outcome == Replayed {
		out.Replayed, out.Record = true, res.Record
		return out, replay(res.Record, &out.Value)
	}
	h := newHold(c, res.Claim, call.Lease)
	if err := h.begin(ctx); err != nil {
		return out, err
	}
	if o.detached {
		ctx = context.WithoutCancel(ctx)
	}
	a := Attempt{
		Key: res.Claim.Key, Token: res.Claim.Token, AttemptID: res.Claim.AttemptID,
		Number: res.Claim.Attempt, Previous: res.Claim.Previous, lease: h.current,
	}
	runCtx := h.keep(ctx)
	// A panic, or a runtime.Goexit, passes through here and settles nothing.
	defer h.stop()
	out.Value, err = run(runCtx, a)
	h.stop()
	out.LeaseLost = h.lostCause()
	out.Record, err = h.settle(ctx, a, out.Value, meaning(err, a, out.LeaseLost))
	return out, err
}

// claim reserves the key for call.
func (c *Client) claim(ctx context.Context, call *Call, failOpen bool) (*Reservation, error) {
	req := ReserveRequest{
		Key: call.Key, Fingerprint: call.Fingerprint, Operation: call.Operation, Request: call.Request,
		RequestHash: call.RequestHash, TTL: call.TTL, Lease: call.Lease,
		Wait: call.Wait, CorrelationID: call.CorrelationID,
		// Made for this one call of Do, never taken from the caller: a second Do
		// with the same attemptId would be given the claim of the first, and run
		// what may have run.
		AttemptID: rand.Text(),
	}
	res, err := c.claimWithin(ctx, req, call.ClaimTimeout)
	// A call that fails open is about to run under it, and gives nothing back.
	p := problemOf(err)
	if p != nil && !failOpen && noDecision(err) && p.Applied == idem.AppliedUnknown {
		p.AttemptID = "" // whoever asked again with it would run what is given back here
		c.giveBack(req)
	}
	return res, err
}

// claimWithin reserves in steps, each of which must be decided within limit: one
// that does not wait, which tells soon whether there is a cluster at all, and
// then parts of the wait.
func (c *Client) claimWithin(ctx context.Context, req ReserveRequest, limit time.Duration) (*Reservation, error) {
	if limit <= 0 {
		return c.Reserve(ctx, req)
	}
	until := time.Now().Add(req.Wait)
	for req.Wait = 0; ; req.Wait = min(time.Until(until), maxParked) {
		step, cancel := context.WithTimeout(ctx, limit+req.Wait)
		res, err := c.Reserve(step, req)
		cancel()
		if !errors.Is(err, ErrInFlight) || ctx.Err() != nil || time.Until(until) <= 0 {
			return res, err
		}
	}
}

// giveBack undoes a claim that may have been granted without its answer
// arriving. Nothing ran under it and nothing will: left alone it would become
// uncertain, and wait for a person to find that out.
func (c *Client) giveBack(req ReserveRequest) {
	req.Wait = 0
	c.background.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, c.settleTimeout)
		defer cancel()
		res, err := c.Reserve(ctx, req)
		if err != nil || res.Claim == nil {
			return
		}
		if prev := res.Claim.Previous; prev != nil && prev.Ended == "lapsed" {
			return // a later attempt must still be told that one before may have run
		}
		_, _ = c.Release(ctx, ReleaseRequest{Key: res.Claim.Key, Token: res.Claim.Token, Reason: "the answer to the claim was lost; nothing ran"})
	})
}

// begin makes sure that the run may start, or gives the claim back.
func (h *hold) begin(ctx context.Context) error {
	err := h.fresh(ctx)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	settle, cancel := h.settleContext(ctx)
	defer cancel()
	if _, released := h.c.Release(settle, ReleaseRequest{Key: h.claim.Key, Token: h.claim.Token, Reason: "nothing ran"}); released != nil {
		h.c.log.Warn("a claim under which nothing ran could not be given back", "cause", released)
	}
	return &NotStartedError{h.claim.Key, err}
}

// settleContext is what a settlement works in: its caller's hanging up must
// not lose the outcome.
func (h *hold) settleContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), h.c.settleTimeout)
}

// meaning is what Do says of what a run returned.
func meaning(err error, a Attempt, lost error) error {
	if err == nil {
		return nil
	}
	not, failed := classify(err)
	switch {
	case not != nil:
		return &NotStartedError{a.Key, err}
	case failed != nil:
		return &FailedError{Key: a.Key, Code: failed.code, Err: err}
	}
	return &UncertainError{a.Key, a.Token, a.AttemptID, err, lost}
}

// settle records what the run came to, with the token of its claim, also when
// the lease is over: the effect is a fact (semantics.md section 4). Anything
// that is not a value, NotStarted or Failed is left as it is.
func (h *hold) settle(ctx context.Context, a Attempt, v any, outcome error) (*idem.Record, error) {
	settle, cancel := h.settleContext(ctx)
	defer cancel()
	var s *Settlement
	var err error
	switch o := outcome.(type) {
	case nil:
		s, err = h.commit(settle, v)
	case *NotStartedError:
		s, err = h.c.Release(settle, ReleaseRequest{Key: a.Key, Token: a.Token, Reason: "not started"})
		if errors.Is(err, ErrStaleToken) || errors.Is(err, ErrNotFound) {
			err = nil // held no longer, which is what a release asks for
		}
	case *FailedError:
		s, err = h.fail(settle, o)
	default:
		return nil, outcome
	}
	if err != nil {
		return nil, &UnrecordedError{a.Key, a.Token, a.AttemptID, outcome, err, h.lostCause()}
	}
	if s == nil {
		return nil, outcome
	}
	if failed, ok := outcome.(*FailedError); ok {
		failed.Response = s.Record.Response
	}
	return s.Record, outcome
}

// commit records a value. One that cannot be written as JSON, or that a node
// does not take, is recorded as omitted: it happened.
func (h *hold) commit(ctx context.Context, v any) (*Settlement, error) {
	req := CommitRequest{Key: h.claim.Key, Token: h.claim.Token}
	if b, err := json.Marshal(v, encoding); err == nil {
		req.Response = jsontext.Value(b)
		s, err := h.c.Commit(ctx, req)
		if !errors.Is(err, ErrInvalid) {
			return s, err
		}
	}
	req.Response, req.OmitResponse = nil, true
	return h.c.Commit(ctx, req)
}

func (h *hold) fail(ctx context.Context, o *FailedError) (*Settlement, error) {
	_, marked := classify(o.Err)
	req := FailRequest{Key: h.claim.Key, Token: h.claim.Token, ErrorCode: o.Code, Response: marked.response}
	s, err := h.c.Fail(ctx, req)
	if marked.response != nil && errors.Is(err, ErrInvalid) {
		req.Response, req.OmitResponse = nil, true
		return h.c.Fail(ctx, req)
	}
	return s, err
}

// replay reads a recorded outcome into v.
func replay(rec *idem.Record, v any) error {
	if rec.Status == "failed" {
		return &FailedError{Key: rec.Key, Code: rec.ErrorCode, Replayed: true, Response: rec.Response}
	}
	if rec.ResponseOmitted || rec.Response == nil {
		return &replayError{rec.Key, errors.New("it was recorded without its response")}
	}
	if err := json.Unmarshal(rec.Response, v, decoding); err != nil {
		return &replayError{rec.Key, err}
	}
	return nil
}
