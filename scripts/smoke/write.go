package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// writeTime is how long one write may go on trying. A cluster that takes longer
// has not come back.
const writeTime = 30 * time.Second

var httpClient = &http.Client{
	Timeout:   7 * time.Second, // the nodes answer within 5
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// write is one key's life: reserved, then committed.
type write struct {
	key, attemptID, request, response string

	token   string      // once granted
	record  idem.Record // of the acknowledged commit
	ackedAt time.Time
}

// run reserves and commits, going round the endpoints until each is answered,
// with the same attemptId and token on every try.
func (w *write) run(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	answer, err := call(ctx, endpoints, "reserve", idem.ReserveRequest{
		Key: &w.key, Request: jsontext.Value(w.request), AttemptID: w.attemptID,
	})
	if err != nil {
		return fmt.Errorf("reserve %s: %w", w.key, err)
	}
	if answer.Outcome != "reserved" || answer.Attempt != 1 {
		return fmt.Errorf("reserve %s: nobody else has this key, but it was answered %q, attempt %d", w.key, answer.Outcome, answer.Attempt)
	}
	w.token = answer.Token
	answer, err = call(ctx, endpoints, "commit", idem.SettleRequest{
		Key: &w.key, Token: &w.token, Response: jsontext.Value(w.response),
	})
	if err != nil {
		return fmt.Errorf("commit %s: %w", w.key, err)
	}
	if answer.Outcome != "committed" || answer.Record == nil {
		return fmt.Errorf("commit %s: answered %q", w.key, answer.Outcome)
	}
	w.record, w.ackedAt = *answer.Record, time.Now()
	return nil
}

// call asks one endpoint after the other until one decides. Trying again after
// a broken connection or a 503 is safe by the attemptId or the token in body.
func call(ctx context.Context, endpoints []string, verb string, body any) (*idem.Answer, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for try := 0; ; try++ {
		endpoint := endpoints[try%len(endpoints)]
		status, reply, err := post(ctx, endpoint+"/v1/namespaces/default/"+verb, b)
		switch {
		case err == nil && status/100 == 2:
			var answer idem.Answer
			if err := json.Unmarshal(reply, &answer); err != nil {
				return nil, fmt.Errorf("%s answered %s: %w", endpoint, reply, err)
			}
			return &answer, nil
		case err == nil && status != http.StatusServiceUnavailable:
			return nil, fmt.Errorf("%s answered %d: %s", endpoint, status, reply)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w; last: %s, status %d, %s, error %v", ctx.Err(), endpoint, status, reply, err)
		}
	}
}

func post(ctx context.Context, url string, body []byte) (status int, reply []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := httpClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	reply, err = io.ReadAll(res.Body)
	return res.StatusCode, reply, err
}
