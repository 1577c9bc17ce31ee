package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// GetRequest asks for one record.
type GetRequest struct {
	Key string
	// Local takes the state of whichever node answers, which may be behind.
	// Without it the answer is as of now (linearizable).
	Local    bool
	MinIndex uint64 // at least the state after this index; for use with Local
}

// ListRequest asks for a page of records.
type ListRequest struct {
	Status   string // pending, uncertain, committed, failed, released, cancelled, expired; "" is any
	Prefix   string // of the key
	Limit    int    // 1 to 1000; 0 is 100
	Cursor   string // NextCursor of the page before
	Local    bool
	MinIndex uint64
}

// Get gives the record of a key; ErrNotFound if there is none.
func (c *Client) Get(ctx context.Context, req GetRequest) (*idem.Record, error) {
	if err := idem.CheckKey(req.Key); err != nil {
		return nil, err
	}
	r := &request{method: http.MethodGet, path: c.path("records", req.Key) + query(url.Values{}, req.Local, req.MinIndex)}
	rec := &idem.Record{}
	err := c.call(ctx, r, func(a *answer) error {
		*rec = idem.Record{}
		if err := json.Unmarshal(a.body, rec); err != nil || rec.Key != req.Key || rec.Status == "" {
			return &strange{fmt.Sprintf("the answer is not the record that was asked for (%v)", err)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rec, nil
}

// List gives a page of records in key order. A page may be short, or empty, and
// still have a NextCursor.
func (c *Client) List(ctx context.Context, req ListRequest) (*idem.RecordList, error) {
	q := url.Values{}
	for name, v := range map[string]string{"status": req.Status, "prefix": req.Prefix, "cursor": req.Cursor} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if req.Limit != 0 {
		q.Set("limit", strconv.Itoa(req.Limit))
	}
	r := &request{method: http.MethodGet, path: c.path("records") + query(q, req.Local, req.MinIndex)}
	list := &idem.RecordList{}
	err := c.call(ctx, r, func(a *answer) error {
		*list = idem.RecordList{}
		if err := json.Unmarshal(a.body, list); err != nil || list.Records == nil {
			return &strange{fmt.Sprintf("the answer is not a list of records (%v)", err)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// query adds how fresh a read must be.
func query(q url.Values, local bool, minIndex uint64) string {
	if local {
		q.Set("consistency", "local")
	}
	if minIndex != 0 {
		q.Set("minIndex", strconv.FormatUint(minIndex, 10))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
