package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// MaxBatch is the most operations that a batch may hold.
const MaxBatch = 1000

// BatchOperation is one of ReserveRequest, CommitRequest, FailRequest,
// ReleaseRequest, ExtendRequest, CancelRequest and ResolveRequest, or a pointer
// to one.
type BatchOperation interface {
	// item gives the operation's name and body.
	item() (op string, body any, err error)
}

// BatchResult is one operation's answer: Reservation, Extension or Settlement,
// whichever the operation gives alone, or Err.
type BatchResult struct {
	Reservation *Reservation
	Extension   *Extension
	Settlement  *Settlement
	Err         error
}

func (req ReserveRequest) item() (string, any, error) {
	if req.Wait != 0 {
		return "", nil, invalid("Wait is not taken inside a batch")
	}
	w, err := req.wire()
	return "reserve", w, err
}

func (req CommitRequest) item() (string, any, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err == nil {
		err = respond(w, req.Response, req.OmitResponse)
	}
	return "commit", w, err
}

func (req FailRequest) item() (string, any, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err == nil {
		w.ErrorCode = req.ErrorCode
		err = respond(w, req.Response, req.OmitResponse)
	}
	if err == nil {
		err = asError(idem.CheckErrorCode(req.ErrorCode))
	}
	return "fail", w, err
}

func (req ReleaseRequest) item() (string, any, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err == nil {
		w.Reason = req.Reason
	}
	return "release", w, err
}

func (req ExtendRequest) item() (string, any, error) {
	w, err := holder(req.Key, req.Token, req.ExpectedVersion, req.CorrelationID)
	if err == nil {
		w.Lease = duration(req.Lease)
	}
	return "extend", w, err
}

func (req CancelRequest) item() (string, any, error) {
	w := &idem.SettleRequest{Key: &req.Key, Reason: req.Reason, CorrelationID: req.CorrelationID}
	return "cancel", w, asError(idem.CheckKey(req.Key))
}

func (req ResolveRequest) item() (string, any, error) {
	w, err := req.wire()
	return "resolve", w, err
}

func respond(w *idem.SettleRequest, response any, omit bool) (err error) {
	w.ResponseOmitted = omit
	if !omit {
		w.Response, err = value("Response", response)
	}
	return err
}

// batchItem is an operation on its way.
type batchItem struct {
	op     string
	sent   any // *idem.ReserveRequest or *idem.SettleRequest
	body   jsontext.Value
	result BatchResult
	open   bool
}

// Batch sends independent operations, in order, in one call and one round trip
// of the quorum; at most MaxBatch. It is not atomic: each operation sees those
// before it, and each has its own result, in the order of ops. Operations that
// a node could not decide are asked again, and only those, within the budget;
// what is still open then has ErrUnavailable as its Err. The error of Batch is
// for a batch that was refused as a whole.
func (c *Client) Batch(ctx context.Context, ops ...BatchOperation) ([]BatchResult, error) {
	if len(ops) < 1 || len(ops) > MaxBatch {
		return nil, invalid(fmt.Sprintf("a batch of %d operations: 1 to %d are allowed", len(ops), MaxBatch))
	}
	items := make([]batchItem, len(ops))
	for i, op := range ops {
		if err := items[i].encode(op); err != nil {
			return nil, fmt.Errorf("operation %d of the batch: %w", i, err)
		}
	}
	ctx, cancel := c.limited(ctx, 0)
	defer cancel()
	var last error
	for jitter := c.jitter(); ; {
		retry, err := c.batch(ctx, items)
		if err != nil {
			last = err
			break
		}
		if countOpen(items) == 0 || pause(ctx, retry+jitter.NextBackOff()) != nil {
			break
		}
	}
	results := make([]BatchResult, len(items))
	undecided := 0
	for i := range items {
		if items[i].open && last != nil {
			items[i].result.Err = last
			undecided++
		}
		results[i] = items[i].result
	}
	if undecided == len(items) {
		return nil, last
	}
	return results, nil
}

func (it *batchItem) encode(op BatchOperation) error {
	name, w, err := op.item()
	if err != nil {
		return err
	}
	b, err := body(w)
	if err != nil {
		return err
	}
	// Every body is an object with at least its key.
	it.op, it.sent, it.open = name, w, true
	it.body = append(jsontext.Value(`{"op":"`+name+`",`), b[1:]...)
	return nil
}

func countOpen(items []batchItem) (n int) {
	for i := range items {
		if items[i].open {
			n++
		}
	}
	return n
}

// batch sends what is open, and gives the longest time that an operation was
// asked to wait.
func (c *Client) batch(ctx context.Context, items []batchItem) (retry time.Duration, err error) {
	var send idem.BatchRequest
	var open []*batchItem
	for i := range items {
		if items[i].open {
			open = append(open, &items[i])
			send.Operations = append(send.Operations, items[i].body)
		}
	}
	r, err := c.post("batch", send)
	if err != nil {
		return 0, err
	}
	err = c.call(ctx, r, func(a *answer) error {
		var ans idem.BatchAnswer
		if err := json.Unmarshal(a.body, &ans); err != nil || len(ans.Results) != len(open) {
			return &strange{fmt.Sprintf("%d results to %d operations (%v)", len(ans.Results), len(open), err)}
		}
		retry = 0
		for i, it := range open {
			wait, err := it.take(&ans.Results[i], a)
			if err != nil {
				return err
			}
			retry = max(retry, wait)
		}
		return nil
	})
	return retry, err
}

// take reads the answer to it; it stays open if there is none yet.
func (it *batchItem) take(res *idem.BatchResult, a *answer) (retry time.Duration, err error) {
	if res.Status/100 != 2 {
		var p idem.Problem
		if err := json.Unmarshal(res.Body, &p); err != nil || p.Code == "" {
			return 0, &strange{fmt.Sprintf("a result with status %d that is no problem (%v)", res.Status, err)}
		}
		problem := problemError(&p)
		if w, ok := it.sent.(*idem.ReserveRequest); ok {
			problem.AttemptID = w.AttemptID
		}
		it.result = BatchResult{Err: problem}
		it.open = noDecision(problem)
		return problem.RetryAfter, nil
	}
	result, err := it.read(res, a)
	if err == nil {
		it.result, it.open = result, false
	}
	return 0, err
}

func (it *batchItem) read(res *idem.BatchResult, a *answer) (BatchResult, error) {
	if w, ok := it.sent.(*idem.ReserveRequest); ok {
		r, err := reservation(w, res.Status, res.Body, a.sent)
		if err == nil {
			r.Index = indexOf(a.header)
		}
		return BatchResult{Reservation: r}, err
	}
	outcome := map[string]string{
		"commit": "committed", "fail": "failed", "release": "released",
		"extend": "extended", "cancel": "cancelled", "resolve": "resolved",
	}[it.op]
	if res.Status != http.StatusOK {
		return BatchResult{}, &strange{fmt.Sprintf("a %s answered %d", it.op, res.Status)}
	}
	ans, err := decodeAnswer(res.Body, *it.sent.(*idem.SettleRequest).Key, outcome)
	if err != nil {
		return BatchResult{}, err
	}
	if it.op == "extend" {
		lease, err := leaseOf(ans, a.sent)
		return BatchResult{Extension: &Extension{lease, ans.Record, indexOf(a.header)}}, err
	}
	return BatchResult{Settlement: &Settlement{Outcome: ans.Outcome, Record: ans.Record, Index: indexOf(a.header)}}, nil
}
