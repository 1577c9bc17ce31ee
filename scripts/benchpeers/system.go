package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/onced/onced/bench"
)

const (
	keyBytes    = 40  // of each key
	valueBytes  = 64  // of each recorded response
	duplicates  = 512 // committed keys that the duplicates of W2 ask for
	batch       = 50  // operations in a batch or pipeline
	ttlMillis   = "86400000"
	ttlSeconds  = 24 * 60 * 60
	databaseMax = "8589934592" // etcd's quota: a long run must not meet it
)

// work is what a system is asked to do.
type work string

const (
	guard        work = "W1"            // reserve a fresh key, then commit it
	guardHonest  work = "W1, all of it" // with what the cheapest way leaves out
	reserve      work = "reserve"       // half of W1
	duplicate    work = "W2"            // the outcome of a committed key
	duplicateTxn work = "W2 as a claim" // by the very call that would claim the key
	guardBatch   work = "W1 in batches" // or pipelines
	dupBatch     work = "W2 in batches" // or pipelines
	guardAny     work = "W1, any node"  // clients spread over all nodes
	duplicateAny work = "W2, any node"  //
)

// load is what clients do to a system. start makes one client's operation;
// close ends their connections when the run is over. check, unless nil, tells
// what must not have happened in it.
type load struct {
	start func(client int) (bench.Op, error)
	close func()
	check func() error
}

// system is one of the systems that are compared.
type system interface {
	// begin starts it with its data in dir, which is empty, and returns when it serves.
	begin(ctx context.Context, dir string) error
	// end stops all its processes. It may be called more than once.
	end()
	// pids are the processes whose processor time, with their children's, counts.
	pids() []int
	// facts are its version and what it was told that matters here.
	facts() facts
	// load makes ready what w needs and gives the clients.
	load(ctx context.Context, w work) (load, error)
}

type facts struct{ Name, Version, Settings string }

var (
	keyCount atomic.Uint64
	keyRun   = rand.Text()[:keyBytes-23]
)

// freshKey gives a key of 40 bytes that was not given before: order:, 16 hex
// digits, and the name of the run. As with those of package bench the digits are
// spread over the whole range, so that no index grows at its end only.
func freshKey() string {
	// The steps of splitmix64 can be undone, so different numbers stay different.
	x := keyCount.Add(1) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], x)
	key := make([]byte, 0, keyBytes)
	key = hex.AppendEncode(append(key, "order:"...), raw[:])
	return string(append(append(key, '-'), keyRun...))
}

// claim is the value of a key that is reserved: who holds it.
func claim(key string) string { return "pending:" + key[6:22] }

// response is the outcome that is recorded: 64 bytes, and JSON.
const response = `"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd"`

// kept are the keys that W2 asks a system for.
type kept []string

// commit makes them, once, by what reserves and commits one key.
func (k *kept) commit(ctx context.Context, one func(ctx context.Context, key string) error) error {
	for len(*k) < duplicates {
		key := freshKey()
		if err := one(ctx, key); err != nil {
			return fmt.Errorf("a key for W2: %w", err)
		}
		*k = append(*k, key)
	}
	return nil
}

// inTurn gives them one after the other, each client beginning elsewhere.
func (k kept) inTurn(client int) func() string {
	at := client * 7
	return func() string {
		at++
		return k[at%len(k)]
	}
}
