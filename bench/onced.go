package bench

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
)

// Spread is how clients are spread over the endpoints.
type Spread string

// The spreads. A client whose connection breaks goes on at the next endpoint
// with any of them.
const (
	SpreadLeader Spread = "leader" // all at the first endpoint: give the leader's (see Leader) first
	SpreadAny    Spread = "any"    // each stays at one endpoint, taken in turn
	SpreadAll    Spread = "all"    // each goes round all endpoints, call by call
)

// Spreads lists them, the default first.
var Spreads = []Spread{SpreadAny, SpreadLeader, SpreadAll}

// The bounds of what a workload may be told.
const (
	MinValueSize = 2 // a response is a JSON string
	MaxValueSize = 256 << 10
	MaxBatchSize = 1000
)

// PreparedKeys is how many keys Prepare commits when it is not told.
const PreparedKeys = 10_000

// Onced is the workloads over the HTTP API. Fill in the exported members, then
// call Open; one Onced may feed several loads, of which each has keys of its
// own.
type Onced struct {
	Endpoints []string // base URLs with http://
	Namespace string   // "": default
	ValueSize int      // bytes of a response, MinValueSize to MaxValueSize; 0: 64
	Spread    Spread   // "": any
	BatchSize int      // operations of a batch, 1 to MaxBatchSize; 0: 50
	Replay    bool     // the batches hold duplicates of committed keys
	Mix       Mix      // of the mixed workload; zero: DefaultMix

	keys      *keySpace
	value     []byte
	prepared  []benchKey
	contest   contest
	clients   atomic.Int64 // numbers given out, over all loads
	doubles   atomic.Int64
	wantValue []byte
}

// Codes of answers that are a success of HTTP and not of the workload.
const (
	codeReplayed      = "replayed"       // where a fresh key should have been granted
	codeGrantedAgain  = "granted_again"  // a key that was granted or committed before
	codeOtherResponse = "other_response" // a replay of something that was not committed
)

// Mix is a share of each kind of call in the mixed workload; they are weights,
// and need not add up to anything.
type Mix struct {
	Fresh      int // as in lifecycle
	Duplicates int // as in replay
	Storm      int // as in storm
}

// DefaultMix is that of a service whose callers ask about one time in four
// again.
var DefaultMix = Mix{Fresh: 70, Duplicates: 25, Storm: 5}

// Workloads lists the names that Start takes.
var Workloads = []string{"lifecycle", "reserve", "replay", "storm", "batch", "mixed"}

// Lifecycle gives the Start of a Load in which each call is one guarded
// operation: the reserve of a fresh key of 40 bytes, then its commit with a
// response of valueSize bytes. endpoints are base URLs; clients stay each at one
// of them, taken in turn.
func Lifecycle(endpoints []string, namespace string, valueSize int) func(client int) (Op, error) {
	o := &Onced{Endpoints: endpoints, Namespace: namespace, ValueSize: valueSize}
	start, err := o.Start("lifecycle")
	if err != nil {
		return func(int) (Op, error) { return nil, err }
	}
	return start
}

// open fills in the defaults and checks the rest.
func (o *Onced) open() error {
	if o.keys != nil {
		return nil
	}
	if o.Namespace == "" {
		o.Namespace = "default"
	}
	if o.ValueSize == 0 {
		o.ValueSize = 64
	}
	if o.BatchSize == 0 {
		o.BatchSize = 50
	}
	if o.Spread == "" {
		o.Spread = SpreadAny
	}
	if o.Mix == (Mix{}) {
		o.Mix = DefaultMix
	}
	switch {
	case len(o.Endpoints) == 0:
		return errors.New("bench: no endpoint")
	case o.ValueSize < MinValueSize || o.ValueSize > MaxValueSize:
		return errors.New("bench: a response has 2 to 262144 bytes")
	case o.BatchSize < 1 || o.BatchSize > MaxBatchSize:
		return errors.New("bench: a batch has 1 to 1000 operations")
	case !slices.Contains(Spreads, o.Spread):
		return errors.New("bench: the spread is leader, any or all")
	case o.Mix.Fresh < 0 || o.Mix.Duplicates < 0 || o.Mix.Storm < 0:
		return errors.New("bench: a weight of the mix is below zero")
	}
	o.value = []byte(`"` + strings.Repeat("x", o.ValueSize-2) + `"`)
	o.wantValue = slices.Concat([]byte(`"response":`), o.value)
	o.keys = newKeySpace()
	o.contest.o = o
	o.contest.begin()
	return nil
}

// response is what keys are committed with.
func (o *Onced) response() []byte { return o.value }

// hasResponse tells whether a replay carries it, or says that the namespace
// does not keep one of that size.
func (o *Onced) hasResponse(body []byte) bool {
	return bytes.Contains(body, o.wantValue) || bytes.Contains(body, []byte(`"responseOmitted":true`))
}

// NeedsPrepared tells whether the workload of that name asks for keys that
// Prepare committed.
func (o *Onced) NeedsPrepared(workload string) bool {
	return workload == "replay" || workload == "mixed" && (o.Mix == (Mix{}) || o.Mix.Duplicates > 0) || workload == "batch" && o.Replay
}

// Start gives the Start of a Load for the workload of that name:
//
//	lifecycle  reserve of a fresh key, then its commit: one operation
//	reserve    reserve of a fresh key, nothing after it
//	replay     reserve of a key that Prepare committed
//	storm      all clients reserve the same key; who is granted it commits it,
//	           and then it is the next key's turn. An answer of any kind that
//	           tells the state of the key is one operation
//	batch      a batch of reserves of fresh keys, then a batch of their commits;
//	           with Replay one batch of reserves of committed keys. A call is a
//	           batch, or two, and as many operations as it holds keys
//	mixed      of lifecycle, replay and storm, by Mix
func (o *Onced) Start(workload string) (func(client int) (Op, error), error) {
	if err := o.open(); err != nil {
		return nil, err
	}
	var op func(c *caller) Op
	switch workload {
	case "lifecycle":
		op = func(c *caller) Op { return c.lifecycle }
	case "reserve":
		op = func(c *caller) Op { return c.reserveFresh }
	case "replay":
		op = (*caller).replays
	case "storm":
		op = func(c *caller) Op { return c.storm }
	case "batch":
		op = (*caller).batches
	case "mixed":
		op = (*caller).mixed
	default:
		return nil, errors.New("bench: no workload is named " + workload)
	}
	if o.NeedsPrepared(workload) && len(o.prepared) == 0 {
		return nil, errors.New("bench: " + workload + " needs keys: call Prepare first")
	}
	return func(client int) (Op, error) {
		// The number among all loads of this Onced makes the keys; client, that
		// among its own load, says where it connects to.
		c, err := newCaller(o, client)
		if err != nil {
			return nil, err
		}
		c.client = int(o.clients.Add(1))
		return op(c), nil
	}, nil
}

// DoubleGrants is how many grants were given for keys that had been granted or
// committed before, in all loads. More than zero is what onced must never do.
func (o *Onced) DoubleGrants() int64 { return o.doubles.Load() }

func (c *caller) lifecycle(ctx context.Context) (int, error) {
	key := c.fresh()
	what, token, err := c.reserve(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case what != granted:
		return 0, refusal(codeReplayed)
	}
	if err := c.commit(ctx, key, token); err != nil {
		return 0, err
	}
	return 1, nil
}

func (c *caller) reserveFresh(ctx context.Context) (int, error) {
	what, _, err := c.reserve(ctx, c.fresh())
	switch {
	case err != nil:
		return 0, err
	case what != granted:
		return 0, refusal(codeReplayed)
	}
	return 1, nil
}

// replays goes round the prepared keys, each client from a place of its own.
func (c *caller) replays() Op {
	at := rand.IntN(len(c.o.prepared))
	return func(ctx context.Context) (int, error) {
		at = (at + 1) % len(c.o.prepared)
		what, _, err := c.reserve(ctx, &c.o.prepared[at])
		switch {
		case err != nil:
			return 0, err
		case what != replayed:
			c.o.doubles.Add(1)
			return 0, refusal(codeGrantedAgain)
		}
		return 1, nil
	}
}

func (c *caller) mixed() Op {
	m := c.o.Mix
	var replay Op
	if m.Duplicates > 0 {
		replay = c.replays()
	}
	return func(ctx context.Context) (int, error) {
		switch n := rand.IntN(m.Fresh + m.Duplicates + m.Storm); {
		case n < m.Fresh:
			return c.lifecycle(ctx)
		case n < m.Fresh+m.Duplicates:
			return replay(ctx)
		}
		return c.storm(ctx)
	}
}
