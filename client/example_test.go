package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/onced/onced/client"
	"github.com/onced/onced/idem"
)

// exampleClient is a client of a cluster that lives as long as the example.
func exampleClient() (*client.Client, func()) {
	server := httptest.NewServer(newCluster().handler("n1"))
	c, err := client.New(client.WithEndpoints(server.URL))
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		server.Close()
	}
}

// A submitted job is created once per key: the guarded variant of an enqueue,
// which gives {job, replayed, record} or the error whose code says why not.
func Example_submit() {
	c, stop := exampleClient()
	defer stop()
	ctx := context.Background()

	type Job struct {
		ID   string `json:"id"`
		Kind string `json:"kind"`
	}
	type Payload struct {
		To string `json:"to"`
	}
	var queue []Job // the side effect

	submit := func(kind string, payload Payload, idempotencyKey string) (job Job, replayed bool, record *idem.Record, err error) {
		out, err := client.Do(ctx, c, client.Call{
			Key: idempotencyKey, Operation: "worker.submit", Request: map[string]any{"kind": kind, "payload": payload},
		}, func(context.Context, client.Attempt) (Job, error) {
			job := Job{fmt.Sprintf("job-%d", len(queue)+1), kind}
			queue = append(queue, job)
			return job, nil
		})
		return out.Value, out.Replayed, out.Record, err
	}

	for range 2 {
		job, replayed, record, err := submit("email", Payload{"ada@example.org"}, "submit:2026-09-26:1")
		fmt.Println(job.ID, "replayed:", replayed, record.Status, err)
	}
	// The same key for another request is a bug of the caller.
	_, _, _, err := submit("email", Payload{"bob@example.org"}, "submit:2026-09-26:1")
	fmt.Println("conflict:", errors.Is(err, client.ErrConflict))
	_, _, _, err = submit("email", Payload{"bob@example.org"}, "")
	fmt.Println("missing:", errors.Is(err, client.ErrKeyMissing))
	fmt.Println("jobs:", len(queue))
	// Output:
	// job-1 replayed: false committed <nil>
	// job-1 replayed: true committed <nil>
	// conflict: true
	// missing: true
	// jobs: 1
}

// An export that is asked for twice mints one artifact; one that failed is
// told as the same failure, and never run again.
func Example_export() {
	c, stop := exampleClient()
	defer stop()
	ctx := context.Background()

	type Envelope struct {
		RecordCount int `json:"recordCount"`
	}
	artifacts := 0 // the side effect

	exportRecords := func(idempotencyKey, format string) (client.Outcome[Envelope], error) {
		return client.Do(ctx, c, client.Call{
			Key: idempotencyKey, Operation: "export.generate", Request: map[string]string{"format": format},
		}, func(context.Context, client.Attempt) (Envelope, error) {
			if format != "csv" {
				return Envelope{}, client.Failed("export_format_unknown", errors.New("no such format"))
			}
			artifacts++
			return Envelope{RecordCount: 2}, nil
		})
	}

	for range 3 { // a reload, a double click
		out, err := exportRecords("export:2026-09-26:1", "csv")
		fmt.Println(out.Value.RecordCount, "replayed:", out.Replayed, err)
	}
	for range 2 {
		_, err := exportRecords("export:2026-09-26:2", "xls")
		var failed *client.FailedError
		fmt.Println(errors.As(err, &failed), failed.Code, "replayed:", failed.Replayed)
	}
	record, err := c.Get(ctx, client.GetRequest{Key: "export:2026-09-26:1"})
	fmt.Println(record.Operation, record.Status, string(record.Response), err)
	fmt.Println("artifacts:", artifacts)
	// Output:
	// 2 replayed: false <nil>
	// 2 replayed: true <nil>
	// 2 replayed: true <nil>
	// true export_format_unknown replayed: false
	// true export_format_unknown replayed: true
	// export.generate committed {"recordCount":2} <nil>
	// artifacts: 1
}

// The parts of Do, for a record that a program needs to hold on to.
func ExampleClient_Reserve() {
	c, stop := exampleClient()
	defer stop()
	ctx := context.Background()

	res, err := c.Reserve(ctx, client.ReserveRequest{Key: "order-0001", Operation: "pay"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if res.Outcome == client.Replayed {
		fmt.Println(string(res.Record.Response))
		return
	}
	// ... do the work ...
	s, err := c.Commit(ctx, client.CommitRequest{Key: res.Claim.Key, Token: res.Claim.Token, Response: "paid"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Outcome, string(s.Record.Response))
	// Output: committed "paid"
}
