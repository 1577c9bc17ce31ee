package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

func contextFor(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

type receipt struct {
	ID     string        `json:"id"`
	Amount int           `json:"amount"`
	Took   time.Duration `json:"took"`
}

var (
	call     = client.Call{Key: key, Operation: "pay", Request: map[string]int{"amount": 10}}
	errBroke = errors.New("connection reset")
)

// pay counts its runs.
func pay(runs *atomic.Int32) func(context.Context, client.Attempt) (receipt, error) {
	return func(context.Context, client.Attempt) (receipt, error) {
		return receipt{fmt.Sprintf("r%d", runs.Add(1)), 10, time.Second}, nil
	}
}

func mustNotRun(t testing.TB) func(context.Context, client.Attempt) (receipt, error) {
	return func(context.Context, client.Attempt) (receipt, error) {
		t.Error("it ran")
		return receipt{}, nil
	}
}

// A value is committed, and given to every later call.
func TestDoValue(t *testing.T) {
	t.Parallel()
	n, w := newWire()
	c := dial(t, w)
	var runs atomic.Int32
	for i := range 3 {
		out, err := client.Do(t.Context(), c, call, pay(&runs))
		if err != nil || out.Value != (receipt{"r1", 10, time.Second}) || out.Replayed != (i > 0) || out.Record.Status != "committed" {
			t.Errorf("%d: %+v, %v", i, out, err)
		}
	}
	n.want(t, key, "committed")
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
	other := call
	other.Request = map[string]int{"amount": 11}
	_, err := client.Do(t.Context(), c, other, mustNotRun(t))
	is(t, err, client.ErrConflict)
}

// NotStarted releases, and the next attempt runs.
func TestDoNotStarted(t *testing.T) {
	t.Parallel()
	n, w := newWire()
	c := dial(t, w)
	cause := errors.New("connection refused")
	_, err := client.Do(t.Context(), c, call, func(context.Context, client.Attempt) (receipt, error) {
		return receipt{}, fmt.Errorf("dialling the bank: %w", client.NotStarted(cause))
	})
	is(t, err, client.ErrNotStarted, cause)
	if !strings.Contains(err.Error(), "dialling the bank") {
		t.Errorf("%v", err)
	}
	n.want(t, key, "released")
	out, err := client.Do(t.Context(), c, call, func(_ context.Context, a client.Attempt) (receipt, error) {
		if a.Number != 2 || a.Previous == nil || a.Previous.Ended != "released" || a.Token == "" || a.Lease().Length() != 30*time.Second {
			t.Errorf("%+v", a)
		}
		return receipt{ID: "r"}, nil
	})
	if err != nil || out.Value.ID != "r" {
		t.Errorf("%+v, %v", out, err)
	}
}

// Failed is recorded, and replayed as the same failure.
func TestDoFailed(t *testing.T) {
	t.Parallel()
	n, w := newWire()
	c := dial(t, w)
	cause := errors.New("card declined")
	_, err := client.Do(t.Context(), c, call, func(context.Context, client.Attempt) (receipt, error) {
		return receipt{}, client.FailedWith("declined", cause, map[string]string{"reason": "limit"})
	})
	is(t, err, client.ErrFailed, cause)
	n.want(t, key, "failed")
	out, err := client.Do(t.Context(), c, call, mustNotRun(t))
	is(t, err, client.ErrFailed)
	f, ok := errors.AsType[*client.FailedError](err)
	if !ok || f.Code != "declined" || !f.Replayed || string(f.Response) != `{"reason":"limit"}` || !out.Replayed {
		t.Errorf("%+v, %+v", f, out)
	}
	t.Run("malformed code", func(t *testing.T) {
		other := client.Call{Key: "order-0002"}
		for range 2 {
			_, err := client.Do(t.Context(), c, other, func(context.Context, client.Attempt) (int, error) {
				return 0, client.Failed("näh", cause)
			})
			if f, ok := errors.AsType[*client.FailedError](err); !ok || f.Code != "failed" {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestB57: any other error leaves the key uncertain, never released: the
// effect may have happened.
func TestB57_DoAnyOtherErrorIsUncertain(t *testing.T) {
	t.Parallel()
	inner := func(t *testing.T, c *client.Client, with error) error {
		_, err := client.Do(t.Context(), c, client.Call{Key: "inner-0001"}, func(context.Context, client.Attempt) (int, error) { return 0, with })
		return err
	}
	for name, give := range map[string]func(*testing.T, *client.Client) error{
		"plain":    func(*testing.T, *client.Client) error { return errBroke },
		"deadline": func(*testing.T, *client.Client) error { return context.DeadlineExceeded },
		"joined with one that did not start": func(*testing.T, *client.Client) error {
			return errors.Join(client.NotStarted(errors.New("second")), errBroke)
		},
		"two wrapped": func(*testing.T, *client.Client) error {
			return fmt.Errorf("%w, %w", errBroke, client.Failed("x", errors.New("y")))
		},
		"inner Do that did not start": func(t *testing.T, c *client.Client) error { return inner(t, c, client.NotStarted(errBroke)) },
		"inner Do that failed":        func(t *testing.T, c *client.Client) error { return inner(t, c, client.Failed("x", errBroke)) },
		"inner refusal": func(t *testing.T, c *client.Client) error {
			_, err := c.Reserve(t.Context(), client.ReserveRequest{Key: key})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, w := newWire()
				c := dial(t, w)
				var given error
				_, err := client.Do(t.Context(), c, call, func(context.Context, client.Attempt) (receipt, error) {
					given = give(t, c)
					return receipt{}, given
				})
				is(t, err, client.ErrUncertain, given)
				u, ok := errors.AsType[*client.UncertainError](err)
				if !ok || u.Key != key || u.Token == "" {
					t.Errorf("%v", err)
				}
				n.want(t, key, "pending")
				_, err = client.Do(t.Context(), c, call, mustNotRun(t))
				is(t, err, client.ErrInFlight)
				time.Sleep(31 * time.Second)
				n.want(t, key, "uncertain")
				_, err = client.Do(t.Context(), c, call, mustNotRun(t))
				is(t, err, client.ErrUncertain)
				// Whoever finds out settles it.
				if _, err := c.Commit(t.Context(), client.CommitRequest{Key: u.Key, Token: u.Token, Response: receipt{ID: "found"}}); err != nil {
					t.Error(err)
				}
				out, err := client.Do(t.Context(), c, call, mustNotRun(t))
				if err != nil || out.Value.ID != "found" {
					t.Errorf("%+v, %v", out, err)
				}
			})
		})
	}
}

// A run that panics, or leaves its goroutine, goes on doing so, and leaves the
// key uncertain.
func TestDoPanic(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"panic":  func() { panic("out of range") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, w := newWire()
				c := dial(t, w)
				var got any
				var wg sync.WaitGroup
				wg.Go(func() {
					defer func() { got = recover() }()
					_, _ = client.Do(t.Context(), c, call, func(context.Context, client.Attempt) (int, error) {
						end()
						return 0, nil
					})
					t.Error("Do came back")
				})
				wg.Wait()
				if name == "panic" && got != "out of range" {
					t.Errorf("the panic became %v", got)
				}
				n.want(t, key, "pending")
				time.Sleep(time.Minute) // nobody renews it any more
				n.want(t, key, "uncertain")
			})
		})
	}
}

// TestB48: the caller's hanging up loses the answer, never the outcome.
func TestB48_DoContextEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		give   error
		want   string
		target error
	}{
		"value all the same":           {nil, "committed", nil},
		"failed all the same":          {client.Failed("declined", errBroke), "failed", client.ErrFailed},
		"surely not started":           {client.NotStarted(errBroke), "released", client.ErrNotStarted},
		"anything else, after a start": {context.Canceled, "pending", client.ErrUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, w := newWire()
				ctx, cancel := context.WithCancel(t.Context())
				_, err := client.Do(ctx, dial(t, w), call, func(run context.Context, _ client.Attempt) (int, error) {
					cancel()
					<-run.Done()
					return 1, test.give
				})
				if test.target == nil && err != nil {
					t.Error(err)
				} else if test.target != nil {
					is(t, err, test.target)
				}
				n.want(t, key, test.want)
			})
		})
	}
	t.Run("before the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			ctx, cancel := context.WithCancel(t.Context())
			// The caller hangs up when the claim is granted, before the run.
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				res, err := w.RoundTrip(req)
				cancel()
				return res, err
			})
			_, err := client.Do(ctx, dial(t, w, client.WithTransport(rt)), call, mustNotRun(t))
			is(t, err, client.ErrNotStarted, context.Canceled)
			n.want(t, key, "released")
		})
	})
}

// While the run works the lease is renewed, longer than its caller listens.
func TestDoRenewsTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		out, err := client.Do(ctx, dial(t, w), call, func(run context.Context, a client.Attempt) (int, error) {
			for range 10 {
				time.Sleep(30 * time.Second)
				n.want(t, key, "pending")
				if a.Lease().Remaining() < 15*time.Second {
					t.Errorf("%s of the lease are left", a.Lease().Remaining())
				}
				cancel()
			}
			if context.Cause(run) != context.Canceled {
				t.Errorf("the run's context ended with %v", context.Cause(run))
			}
			return 7, nil
		})
		if err != nil || out.LeaseLost != nil || time.Since(start) != 300*time.Second {
			t.Errorf("%+v, %v after %s", out, err, time.Since(start))
		}
		n.want(t, key, "committed")
		if ext := w.calls("extend"); len(ext) < 29 || len(ext) > 31 || ext[0].at.Sub(start) != 10*time.Second {
			t.Errorf("%d renewals, the first after %s", len(ext), ext[0].at.Sub(start))
		}
	})
}

// An effect starts in the first 80 % of the lease, else it is extended first.
func TestDoExtendsBeforeALateStart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		delay   time.Duration
		extends int
	}{{23900 * time.Millisecond, 0}, {24 * time.Second, 1}, {40 * time.Second, 1}} {
		t.Run(test.delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, w := newWire()
				w.fate = func(s sent, _ int) fate {
					if s.op == "reserve" {
						return fate{after: test.delay}
					}
					return fate{}
				}
				c := dial(t, w, client.WithTryTimeout(time.Minute), client.WithBudget(10*time.Minute))
				_, err := client.Do(t.Context(), c, call, func(_ context.Context, a client.Attempt) (int, error) {
					// A third of the lease is over: the renewal beside the run may have begun.
					if got := len(w.calls("extend")); got < test.extends || got > test.extends+1 {
						t.Errorf("extended %d times before the start, want %d", got, test.extends)
					}
					if !a.Lease().MayStart() {
						t.Error("started late in the lease")
					}
					return 1, nil
				})
				if err != nil {
					t.Error(err)
				}
				n.want(t, key, "committed")
			})
		})
	}
	t.Run("answers always too late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			w.fate = func(sent, int) fate { return fate{after: 2 * time.Second} }
			late := call
			late.Lease = time.Second
			_, err := client.Do(t.Context(), dial(t, w), late, mustNotRun(t))
			is(t, err, client.ErrNotStarted, client.ErrLeaseLost)
			n.want(t, key, "released")
		})
	})
	t.Run("taken over meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			w.policy(t, "default", `{"onLeaseExpiry":"rerun"}`)
			other := dial(t, &wire{nodes: w.nodes})
			w.fate = func(s sent, _ int) fate {
				switch s.op {
				case "reserve":
					return fate{after: 40 * time.Second}
				case "extend":
					mustReserve(t, other, key)
				}
				return fate{}
			}
			c := dial(t, w, client.WithTryTimeout(time.Minute), client.WithBudget(10*time.Minute))
			_, err := client.Do(t.Context(), c, client.Call{Key: key}, mustNotRun(t))
			is(t, err, client.ErrNotStarted, client.ErrStaleToken)
			if r := n.record(t, key); r.Attempt != 2 || r.Status != fsm.Pending {
				t.Errorf("the other attempt: %+v", r)
			}
		})
	})
}

// A lease that cannot be renewed is lost when it ends by the client's own
// clock: the run's context ends with the cause, and the caller is told. What
// the run came to is recorded all the same if nobody else has the key.
func TestDoLosesTheLease(t *testing.T) {
	t.Parallel()
	t.Run("the cluster is away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			start := time.Now()
			out, err := client.Do(t.Context(), dial(t, w), call, func(run context.Context, _ client.Attempt) (int, error) {
				n.setFault(unavailable(idem.AppliedNo, 0))
				<-run.Done()
				is(t, context.Cause(run), client.ErrLeaseLost)
				if took := time.Since(start); took < 29*time.Second || took > 30*time.Second {
					t.Errorf("lost after %s", took)
				}
				n.setFault(nil)
				return 1, nil
			})
			if err != nil {
				t.Error(err)
			}
			is(t, out.LeaseLost, client.ErrLeaseLost, client.ErrUnavailable)
			n.want(t, key, "committed")
		})
	})
	t.Run("another took over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			w.policy(t, "default", `{"onLeaseExpiry":"rerun"}`)
			w.fate = func(s sent, _ int) fate { return fate{silent: s.op == "extend"} }
			var token string
			out, err := client.Do(t.Context(), dial(t, w), client.Call{Key: key}, func(run context.Context, _ client.Attempt) (int, error) {
				<-run.Done()
				time.Sleep(time.Second)
				claim := mustReserve(t, dial(t, &wire{nodes: w.nodes}), key)
				token = claim.Token
				if claim.Previous == nil || claim.Previous.Ended != "lapsed" {
					t.Errorf("%+v", claim.Previous)
				}
				return 1, nil
			})
			is(t, err, client.ErrUnrecorded, client.ErrStaleToken, client.ErrLeaseLost)
			if out.Value != 1 {
				t.Errorf("%+v", out)
			}
			if r := n.record(t, key); idem.FormatToken(r.Token) != token || r.Status != fsm.Pending {
				t.Errorf("the other's claim: %+v", r)
			}
		})
	})
	t.Run("settled by a person", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, w := newWire()
			c := dial(t, w)
			var lost time.Duration
			start := time.Now()
			_, err := client.Do(t.Context(), c, call, func(run context.Context, a client.Attempt) (int, error) {
				if _, err := c.Fail(t.Context(), client.FailRequest{Key: key, Token: a.Token, ErrorCode: "stopped"}); err != nil {
					t.Error(err)
				}
				<-run.Done()
				lost = time.Since(start)
				return 1, nil
			})
			is(t, err, client.ErrUnrecorded, client.ErrAlreadySettled, client.ErrLeaseLost)
			if p := problem(t, err); p.Record == nil || p.Record.ErrorCode != "stopped" {
				t.Errorf("%+v", p.Record)
			}
			if lost != 10*time.Second {
				t.Errorf("told after %s, the first renewal is after 10s", lost)
			}
		})
	})
	t.Run("and does not know", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			w.fate = func(s sent, _ int) fate { return fate{refused: s.op == "extend"} }
			_, err := client.Do(t.Context(), dial(t, w), call, func(run context.Context, _ client.Attempt) (int, error) {
				<-run.Done()
				return 0, run.Err()
			})
			is(t, err, client.ErrUncertain, client.ErrLeaseLost)
			n.want(t, key, "uncertain")
		})
	})
}

// Settling goes on beyond the caller's deadline, with the same token, until it
// is recorded or its own time is over.
func TestDoSettlesThroughTrouble(t *testing.T) {
	t.Parallel()
	t.Run("lost replies", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			tries := 0
			w.fate = func(s sent, _ int) fate {
				if s.op == "commit" {
					tries++
					return fate{lost: tries < 6}
				}
				return fate{}
			}
			ctx, cancel := contextFor(t, time.Second)
			defer cancel()
			var runs atomic.Int32
			out, err := client.Do(ctx, dial(t, w), call, pay(&runs))
			if err != nil || out.Value.ID != "r1" || n.record(t, key).Version != 2 {
				t.Errorf("%+v, %v", out, err)
			}
		})
	})
	t.Run("the cluster stays away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n, w := newWire()
			start := time.Now()
			out, err := client.Do(t.Context(), dial(t, w), call, func(context.Context, client.Attempt) (int, error) {
				n.setFault(unavailable(idem.AppliedNo, time.Second))
				return 7, nil
			})
			is(t, err, client.ErrUnrecorded, client.ErrUnavailable)
			if out.Value != 7 {
				t.Errorf("%+v", out)
			}
			if took := time.Since(start); took > client.DefaultSettleTimeout || took < client.DefaultSettleTimeout-5*time.Second {
				t.Errorf("gave up after %s", took)
			}
			u, _ := errors.AsType[*client.UnrecordedError](err)
			n.setFault(nil)
			if _, err := dial(t, w).Commit(t.Context(), client.CommitRequest{Key: u.Key, Token: u.Token, Response: 7}); err != nil {
				t.Errorf("settled later: %v", err)
			}
		})
	})
}

// Fail closed: without a decision nothing runs. A claim that was granted unseen
// is given back, so that the key is not left uncertain for nothing.
func TestDoFailsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		w.fate = func(_ sent, nth int) fate {
			if nth == 1 {
				return fate{lost: true}
			}
			return fate{refused: nth < 40}
		}
		c := dial(t, w, client.WithBudget(time.Second))
		_, err := client.Do(t.Context(), c, call, mustNotRun(t))
		is(t, err, client.ErrUnavailable)
		if p := problem(t, err); p.Applied != idem.AppliedUnknown || p.AttemptID != "" {
			t.Errorf("%+v", p)
		}
		n.want(t, key, "pending")
		time.Sleep(29 * time.Second)
		n.want(t, key, "released")
		var runs atomic.Int32
		if _, err := client.Do(t.Context(), c, call, pay(&runs)); err != nil || runs.Load() != 1 {
			t.Errorf("%v, %d runs", err, runs.Load())
		}
	})
}

// FailOpen runs without a claim when nobody decides, and only then.
func TestDoFailOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, w := newWire()
		c := dial(t, w, client.WithBudget(time.Second))
		n.setFault(unavailable(idem.AppliedUnknown, 0))
		var runs atomic.Int32
		out, err := client.Do(t.Context(), c, call, pay(&runs), client.FailOpen())
		if err != nil || !out.Unguarded || runs.Load() != 1 {
			t.Errorf("%+v, %v", out, err)
		}
		_, err = client.Do(t.Context(), c, call, func(context.Context, client.Attempt) (int, error) { return 0, errBroke }, client.FailOpen())
		is(t, err, client.ErrUncertain, errBroke)
		n.setFault(nil)
		mustReserve(t, c, key)
		if _, err = client.Do(t.Context(), c, client.Call{Key: key}, mustNotRun(t), client.FailOpen()); !errors.Is(err, client.ErrInFlight) {
			t.Errorf("a decision was overridden: %v", err)
		}
		// What may have been claimed unseen is not given back: it ran.
		w.fate = func(s sent, _ int) fate { return fate{lost: s.op == "reserve"} }
		if out, err := client.Do(t.Context(), c, client.Call{Key: "order-0002"}, pay(&runs), client.FailOpen()); err != nil || !out.Unguarded {
			t.Errorf("%+v, %v", out, err)
		}
		w.fate = nil
		time.Sleep(time.Minute)
		n.want(t, "order-0002", "uncertain")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = client.Do(ctx, c, call, mustNotRun(t), client.FailOpen())
		is(t, err, client.ErrUnavailable)
	})
}

// Two clients race for one key, through different nodes: one runs, the other is
// told in flight, or waits for the outcome.
func TestDoRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, w := newWire()
		var runs, values, inFlight atomic.Int32
		var wg sync.WaitGroup
		for i := range 20 {
			c := dial(t, w, client.WithEndpoints("http://n2"))
			wg.Go(func() {
				mine := call
				if i%2 == 0 {
					mine.Wait = 2 * time.Minute
				}
				out, err := client.Do(t.Context(), c, mine, func(context.Context, client.Attempt) (string, error) {
					runs.Add(1)
					time.Sleep(time.Minute)
					return "once", nil
				})
				switch {
				case err == nil && out.Value == "once":
					values.Add(1)
				case errors.Is(err, client.ErrInFlight) && mine.Wait == 0:
					inFlight.Add(1)
				default:
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || values.Load()+inFlight.Load() != 20 || values.Load() < 10 {
			t.Errorf("%d runs, %d values, %d in flight", runs.Load(), values.Load(), inFlight.Load())
		}
	})
}

// A value that cannot be recorded as it is happened all the same, and its claim
// is not left behind.
func TestDoOmitsWhatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	var deep any = 1
	for range 100 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{"no JSON": make(chan int), "too deep": deep, "too large": strings.Repeat("x", 2<<20)} {
		_, w := newWire()
		w.fate = func(s sent, _ int) fate {
			if s.op == "commit" && strings.Contains(s.body, `"responseOmitted":true`) {
				return fate{status: 200, body: `{"outcome":"committed","record":{"key":"order-0001","status":"committed","responseOmitted":true}}`}
			}
			return fate{}
		}
		out, err := client.Do(t.Context(), dial(t, w), call, func(context.Context, client.Attempt) (any, error) { return v, nil })
		if err != nil || out.Record == nil || !out.Record.ResponseOmitted {
			t.Errorf("%s: %+v, %v", name, out.Record, err)
		}
	}
}

// A replay that is no T, or has no response, is an error, never a zero value.
func TestDoReplayThatIsNoValue(t *testing.T) {
	t.Parallel()
	_, w := newWire()
	c := dial(t, w)
	for k, v := range map[string]any{"order-0001": "text", "order-0002": nil, "order-0003": strings.Repeat("x", 100<<10)} {
		claim := mustReserve(t, c, k)
		if _, err := c.Commit(t.Context(), client.CommitRequest{Key: k, Token: claim.Token, Response: v}); err != nil {
			t.Fatal(err)
		}
		out, err := client.Do(t.Context(), c, client.Call{Key: k}, mustNotRun(t))
		is(t, err, client.ErrReplay)
		if !out.Replayed || out.Record == nil {
			t.Errorf("%s: %+v", k, out)
		}
	}
}
