package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"github.com/onced/onced/idem"
)

// verify asks every node for every acknowledged commit, as a duplicate would:
// each must replay it as it was acknowledged. It also holds that no token was
// given twice.
func verify(ctx context.Context, endpoints []string, acked []*write) error {
	tokens := map[string]string{}
	for _, w := range acked {
		if other, ok := tokens[w.token]; ok {
			return fmt.Errorf("%s and %s were given the same token %s", other, w.key, w.token)
		}
		tokens[w.token] = w.key
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, w := range acked {
		group.Go(func() error {
			for _, e := range endpoints {
				if err := w.verify(ctx, e); err != nil {
					return fmt.Errorf("%s through %s: %w", w.key, e, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (w *write) verify(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	answer, err := call(ctx, []string{endpoint}, "reserve", idem.ReserveRequest{
		Key: &w.key, Request: jsontext.Value(w.request), AttemptID: rand.Text(),
	})
	if err != nil {
		return err
	}
	if answer.Outcome != "replayed" || answer.Record == nil {
		return fmt.Errorf("a committed key was answered %q", answer.Outcome)
	}
	got, want := answer.Record, w.record
	if string(got.Response) != w.response {
		return fmt.Errorf("replayed %s, committed %s", got.Response, w.response)
	}
	if got.Status != "committed" || got.Attempt != want.Attempt || got.Version != want.Version ||
		got.SettledAt != want.SettledAt || got.CreatedAt != want.CreatedAt || got.ExpiresAt != want.ExpiresAt || got.RequestHash != want.RequestHash {
		return fmt.Errorf("replayed %+v, acknowledged %+v", *got, want)
	}
	return nil
}

// sameHashes waits until all nodes are at one index and compares their states
// there.
func (c *cluster) sameHashes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	byIndex := map[uint64]map[string]string{} // index -> node -> hash, as ever seen
	for {
		status, err := c.status(ctx)
		if err == nil {
			for _, n := range status.Nodes {
				if n.StateHash == "" {
					continue
				}
				if byIndex[n.AppliedIndex] == nil {
					byIndex[n.AppliedIndex] = map[string]string{}
				}
				byIndex[n.AppliedIndex][n.ID] = n.StateHash
			}
			for index, hashes := range byIndex {
				for id, hash := range hashes {
					for other, otherHash := range hashes {
						if hash != otherHash {
							return fmt.Errorf("state hashes differ at index %d: %s %s, %s %s", index, id, hash, other, otherHash)
						}
					}
				}
				if len(hashes) == len(c.endpoints) {
					fmt.Printf("smoke: state hashes agree at index %d\n", index)
					return nil
				}
			}
			err = errors.New("the nodes are not at one index")
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("state hashes cannot be compared: %w", err)
		}
	}
}

func (c *cluster) status(ctx context.Context) (s idem.ClusterStatus, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoints[0]+"/v1/cluster", nil)
	if err != nil {
		return s, err
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return s, err
	}
	if res.StatusCode != http.StatusOK {
		return s, fmt.Errorf("/v1/cluster answered %d: %s", res.StatusCode, b)
	}
	return s, json.Unmarshal(b, &s)
}
