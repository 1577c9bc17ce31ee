package cluster

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onced/onced/cluster/peerpb"
	"github.com/onced/onced/fsm"
)

var benchKeys atomic.Uint64

func benchKey() string { return fmt.Sprintf("bench-%034d", benchKeys.Add(1)) }

// calls makes b.N calls from so many callers at once.
func calls(b *testing.B, callers int, call func(caller int)) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	for i := range callers {
		done.Add(1)
		go func() {
			defer done.Done()
			for left.Add(-1) >= 0 {
				call(i)
			}
		}()
	}
	done.Wait()
	b.StopTimer()
}

// BenchmarkPropose decides reserves of fresh keys: on a node alone and on three
// over loopback, asked at the leader and at all; allocations and entries are of
// all nodes together.
func BenchmarkPropose(b *testing.B) {
	for _, store := range []string{"memory", LogStoreBolt, LogStoreWAL} {
		for _, size := range []int{1, 3} {
			for _, at := range []string{"leader", "all"}[:min(size, 2)] {
				for _, callers := range []int{1, 64, 256} {
					b.Run(fmt.Sprintf("store=%s/nodes=%d/at=%s/callers=%d", store, size, at, callers), func(b *testing.B) {
						dir := ""
						if store != "memory" {
							dir = b.TempDir()
						}
						c := newTrio(b, size, dir, func(cfg *Config) {
							if dir != "" {
								cfg.LogStore = store
							}
						})
						nodes := c.nodes
						if at == "leader" {
							nodes = nodes[c.leader() : c.leader()+1]
						}
						before := c.totalEntries()
						calls(b, callers, func(i int) { decide(b, nodes[i%len(nodes)], reserveCmd(benchKey())) })
						b.ReportMetric(float64(c.totalEntries()-before)/float64(b.N), "entries/op")
					})
				}
			}
		}
	}
}

// BenchmarkLocalReplay answers duplicates of settled keys from memory, among 100,000 records.
func BenchmarkLocalReplay(b *testing.B) {
	c := newTrio(b, 1, "", nil)
	n := c.nodes[0]
	const keys = 100_000
	var names []string
	for len(names) < keys {
		var reserves, commits []*fsm.Command
		for range 500 {
			names = append(names, benchKey())
			reserves = append(reserves, reserveCmd(names[len(names)-1]))
		}
		d, err := n.Decide(b.Context(), reserves, 0)
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range d.Results {
			commits = append(commits, commitCmd(reserves[i].Key, r.Record.Token))
		}
		if _, err := n.Decide(b.Context(), commits, 0); err != nil {
			b.Fatal(err)
		}
	}
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			local := n.local.Load()
			var next atomic.Uint64
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			calls(b, callers, func(int) {
				c := reserveCmd(names[next.Add(1)*7919%keys])
				if d, err := n.Decide(ctx, []*fsm.Command{c}, 0); err != nil || d.Results[0].Outcome != fsm.OutcomeReplayed {
					b.Error(d, err)
				}
			})
			if n.local.Load()-local < uint64(b.N) {
				b.Error("some were not answered from memory")
			}
		})
	}
}

// BenchmarkRelay encodes and decodes what a follower and the leader say to each
// other about a full message: one operation is one command there and back.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{1, 32, maxRelayCommands} {
		b.Run(fmt.Sprintf("commands=%d", size), func(b *testing.B) {
			req := &peerpb.Propose{BudgetUs: 5_000_000}
			d := &fsm.Decision{Index: 1 << 20, Time: 1 << 50}
			for range size {
				cmd := reserveCmd(benchKey())
				req.Commands = append(req.Commands, cmd)
				d.Results = append(d.Results, fsm.Result{Outcome: fsm.OutcomeReserved, Record: &fsm.Record{
					Namespace: cmd.Namespace, Key: cmd.Key, RequestDigest: cmd.RequestDigest, AttemptID: cmd.AttemptId,
					Attempt: 1, Version: 1, Token: 1 << 50, CreatedAt: 1 << 50, ClaimedAt: 1 << 50, LeaseExpiresAt: 1 << 50,
				}})
			}
			b.ReportAllocs()
			for i := 0; i < b.N; i += size {
				frame, err := appendFrame(nil, &peerpb.Request{Id: 1, Body: &peerpb.Request_Propose{Propose: req}}, maxFrame)
				if err != nil {
					b.Fatal(err)
				}
				if err := readFrame(bytes.NewReader(frame), &peerpb.Request{}, maxFrame); err != nil {
					b.Fatal(err)
				}
				frame, err = appendFrame(nil, &peerpb.Response{Id: 1, Body: &peerpb.Response_Decision{Decision: decisionProto(d)}}, maxFrame)
				if err != nil {
					b.Fatal(err)
				}
				var resp peerpb.Response
				if err := readFrame(bytes.NewReader(frame), &resp, maxFrame); err != nil {
					b.Fatal(err)
				}
				if o := outcomeOf(&resp); len(o.decision.Results) != size {
					b.Fatal(o)
				}
			}
		})
	}
}

// BenchmarkQueue pushes and takes proposals, a batch at a time.
func BenchmarkQueue(b *testing.B) {
	for _, storm := range []bool{false, true} {
		b.Run(fmt.Sprintf("samekey=%t", storm), func(b *testing.B) {
			var proposals []*proposal
			for i := range 256 {
				key := "storm-key"
				if !storm {
					key = fmt.Sprint("calm-key-", i)
				}
				proposals = append(proposals, reserveOf(context.Background(), key))
			}
			q := newFairQueue(maxWaiting)
			var batch []*proposal
			b.ReportAllocs()
			for i := 0; i < b.N; i += len(proposals) {
				for _, p := range proposals {
					p.state.Store(proposalWaiting)
					q.push(p)
				}
				for q.waiting() > 0 {
					batch = q.take(batch[:0], maxEntryCommands, maxEntryBytes)
				}
			}
		})
	}
}
