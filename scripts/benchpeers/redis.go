package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/onced/onced/bench"
)

// redis is one server that syncs its append-only file before it answers.
type redis struct {
	server  *process
	address string
	keys    kept
}

var redisSettings = []string{"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0"}

func (r *redis) begin(ctx context.Context, dir string) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	r.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(ports[0]), "--dir", dir}, redisSettings...)
	if r.server, err = launch(dir, "redis", nil, "redis-server", args...); err != nil {
		return err
	}
	return await(ctx, "redis", []*process{r.server}, func(ctx context.Context) error {
		c, err := dialRESP(r.address)
		if err != nil {
			return err
		}
		defer c.conn.Close()
		_, err = c.call(ctx, "PING")
		return err
	})
}

func (r *redis) end() {
	if r.server != nil {
		stop(syscall.SIGTERM, r.server)
	}
}

func (r *redis) pids() []int { return []int{r.server.pid()} }

func (r *redis) facts() facts {
	said, _ := output("redis-server", "--version")
	return facts{"Redis", version(said, "v="), "one node, `appendonly yes`, `appendfsync always`, `save \"\"`, no rewriting of the file"}
}

// commitScript writes the outcome if the key still holds this caller's claim.
const commitScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end return redis.error_reply('not mine')`

func (r *redis) load(ctx context.Context, w work) (load, error) {
	setup, err := dialRESP(r.address)
	if err != nil {
		return load{}, err
	}
	defer setup.conn.Close()
	script, err := setup.call(ctx, "SCRIPT", "LOAD", commitScript)
	if err != nil {
		return load{}, err
	}
	if w == duplicate || w == dupBatch {
		err := r.keys.commit(ctx, func(ctx context.Context, key string) error {
			_, err := setup.call(ctx, "SET", key, response, "PX", ttlMillis)
			return err
		})
		if err != nil {
			return load{}, err
		}
	}
	var mu sync.Mutex // guards conns
	var conns []*resp
	operation := func(c *resp, client int) bench.Op {
		next := r.keys.inTurn(client)
		switch w {
		case guard:
			return c.guard(func(key string) { c.command("SET", key, response, "PX", ttlMillis) })
		case guardHonest:
			return c.guard(func(key string) { c.command("EVALSHA", script, "1", key, claim(key), response, ttlMillis) })
		case duplicate:
			return func(ctx context.Context) (int, error) {
				got, err := c.call(ctx, "GET", next())
				return count(1, err, got == response)
			}
		case guardBatch:
			return c.guardPipeline
		case dupBatch:
			return func(ctx context.Context) (int, error) {
				for range batch {
					c.command("GET", next())
				}
				return batch, c.answers(ctx, batch, response)
			}
		}
		return nil
	}
	return load{
		start: func(client int) (bench.Op, error) {
			c, err := dialRESP(r.address)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			op := operation(c, client)
			if op == nil {
				return nil, fmt.Errorf("no %s of Redis", w)
			}
			return op, nil
		},
		close: func() {
			for _, c := range conns {
				c.conn.Close()
			}
		},
	}, nil
}

// guard is W1: SET NX, then the commit.
func (c *resp) guard(commit func(key string)) bench.Op {
	return func(ctx context.Context) (int, error) {
		key := freshKey()
		if _, err := c.call(ctx, "SET", key, claim(key), "NX", "PX", ttlMillis); err != nil {
			return 0, err
		}
		commit(key)
		return count(1, c.answers(ctx, 1, "OK"), true)
	}
}

// guardPipeline is 50 times W1: a pipeline of claims, then one of commits.
func (c *resp) guardPipeline(ctx context.Context) (int, error) {
	var keys [batch]string
	for i := range keys {
		keys[i] = freshKey()
		c.command("SET", keys[i], claim(keys[i]), "NX", "PX", ttlMillis)
	}
	if err := c.answers(ctx, batch, "OK"); err != nil {
		return 0, err
	}
	for _, key := range keys {
		c.command("SET", key, response, "PX", ttlMillis)
	}
	return count(batch, c.answers(ctx, batch, "OK"), true)
}

// answers flushes and reads n answers, each of which must be want.
func (c *resp) answers(ctx context.Context, n int, want string) error {
	if err := c.flush(ctx); err != nil {
		return err
	}
	for range n {
		got, err := c.reply()
		if err != nil {
			return err
		}
		if got != want {
			return errWrong
		}
	}
	return nil
}

// errWrong is an answer that is not what the operation must give: counted as an
// error, for a system that answers wrongly is not fast.
var errWrong = errors.New("a wrong answer")

// count gives what an operation returns: n only when all went well.
func count(n int, err error, right bool) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case !right:
		return 0, errWrong
	}
	return n, nil
}

// version gives the word after mark, or all.
func version(said, mark string) string {
	_, rest, ok := strings.Cut(said, mark)
	if !ok {
		return said
	}
	word, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return strings.TrimSpace(strings.SplitN(word, "\n", 2)[0])
}
