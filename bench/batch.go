package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// batch is what a caller keeps from one batch to the next.
type batch struct {
	request []byte
	keys    []benchKey
	tokens  [][tokenLength]byte
	lengths []int // of the tokens; 0: not granted
}

// lengthDigits is the width of the Content-Length of a batch, which is filled in
// when the body is there.
const lengthDigits = 9

// send sends the operations that add appends, as many as it is called for, and
// hands the answer to each, in order, to got. A batch of none is not sent.
func (c *caller) send(ctx context.Context, n int, add func(to []byte, i int) []byte, got func(i, status int, body []byte)) error {
	if n == 0 {
		return nil
	}
	l := c.next()
	b := append(c.batch.request[:0], l.head("/batch", 0)...)
	// The head ends with the length 0 and two ends of lines.
	b = append(b[:len(b)-5], "000000000\r\n\r\n"...)
	body := len(b)
	b = append(b, `{"operations":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = add(b, i)
	}
	b = append(b, `]}`...)
	copy(b[body-4-lengthDigits:], fmt.Sprintf("%0*d", lengthDigits, len(b)-body))
	c.batch.request = b
	status, answer, err := l.call(ctx, b)
	if err != nil {
		return err
	}
	if status != 200 {
		return refused(status, answer)
	}
	return eachResult(answer, n, got)
}

var resultMark = []byte(`{"status":`)

// eachResult takes the answer to a batch apart: a result begins with its status,
// a number, and ends where the next begins. A record's status is a word.
func eachResult(answer []byte, n int, got func(i, status int, body []byte)) error {
	begin := func(b []byte) int {
		for at := 0; ; {
			i := bytes.Index(b[at:], resultMark)
			if i < 0 {
				return -1
			}
			at += i + len(resultMark)
			if at < len(b) && b[at] >= '1' && b[at] <= '9' {
				return at
			}
		}
	}
	at := begin(answer)
	for i := range n {
		if at < 0 || len(answer) < at+3 {
			return &failure{codeBadAnswer, fmt.Errorf("a batch of %d was answered with %d results", n, i)}
		}
		status, err := strconv.Atoi(string(answer[at : at+3]))
		if err != nil {
			return &failure{codeBadAnswer, err}
		}
		answer = answer[at+3:]
		next := begin(answer)
		if next < 0 {
			got(i, status, answer)
		} else {
			got(i, status, answer[:next])
		}
		at = next
	}
	return nil
}

// batches gives the call of the batch workload.
func (c *caller) batches() Op {
	n := c.o.BatchSize
	if c.o.Replay {
		replay := c.replayBatch(n)
		return replay
	}
	c.batch.room(n)
	return func(ctx context.Context) (int, error) {
		for i := range n {
			c.batch.keys[i] = *c.fresh()
		}
		return c.lifecycleBatch(ctx, c.batch.keys)
	}
}

// room makes place for n keys.
func (b *batch) room(n int) {
	b.keys, b.tokens, b.lengths = make([]benchKey, n), make([][tokenLength]byte, n), make([]int, n)
}

// lifecycleBatch reserves the keys and commits those that were granted. done
// is how many were committed; the error is that of the first that was not.
func (c *caller) lifecycleBatch(ctx context.Context, keys []benchKey) (done int, failed error) {
	b := &c.batch
	fail := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	kept := 0
	err := c.send(ctx, len(keys), func(to []byte, i int) []byte { return appendReserve(to, &keys[i]) }, func(i, status int, body []byte) {
		token := member(body, `"token":"`)
		switch {
		case status == 200:
			fail(refusal(codeReplayed))
		case status != 201:
			fail(refused(status, body))
		case len(token) == 0 || len(token) > tokenLength:
			fail(&failure{codeBadAnswer, refusal("a grant without a token")})
		default:
			keys[kept] = keys[i]
			b.lengths[kept] = copy(b.tokens[kept][:], token)
			kept++
		}
	})
	if err != nil {
		return 0, err
	}
	err = c.send(ctx, kept, func(to []byte, i int) []byte {
		to = append(to, `{"op":"commit","key":"`...)
		to = append(to, keys[i][:]...)
		to = append(to, `","token":"`...)
		to = append(to, b.tokens[i][:b.lengths[i]]...)
		to = append(to, `","response":`...)
		to = append(to, c.o.value...)
		return append(to, '}')
	}, func(_, status int, body []byte) {
		if status != 200 {
			fail(refused(status, body))
			return
		}
		done++
	})
	if err != nil {
		return 0, err
	}
	return done, failed
}

func appendReserve(to []byte, key *benchKey) []byte {
	to = append(to, `{"op":"reserve","key":"`...)
	to = append(to, key[:]...)
	return append(to, `"}`...)
}

// replayBatch gives a call that reserves the next n prepared keys.
func (c *caller) replayBatch(n int) Op {
	prepared := c.o.prepared
	at := c.client * n
	return func(ctx context.Context) (done int, failed error) {
		at = (at + n) % len(prepared)
		err := c.send(ctx, n, func(to []byte, i int) []byte {
			return appendReserve(to, &prepared[(at+i)%len(prepared)])
		}, func(_, status int, body []byte) {
			var err error
			switch {
			case status == 201:
				c.o.doubles.Add(1)
				err = refusal(codeGrantedAgain)
			case status != 200:
				err = refused(status, body)
			case !c.o.hasResponse(body):
				err = refusal(codeOtherResponse)
			default:
				done++
				return
			}
			if failed == nil {
				failed = err
			}
		})
		if err != nil {
			return 0, err
		}
		return done, failed
	}
}

// prepareBatch is how many keys Prepare makes at a time: few enough that
// responses of the largest size fit into a request.
func (o *Onced) prepareBatch() int {
	return max(1, min(500, (512<<10)/(o.ValueSize+200)))
}

// Prepare commits that many keys, 0: PreparedKeys, for the workloads that ask
// for keys of before. It makes them with the batch endpoint.
func (o *Onced) Prepare(ctx context.Context, keys int) error {
	if err := o.open(); err != nil {
		return err
	}
	if keys <= 0 {
		keys = PreparedKeys
	}
	c, err := newCaller(o, 0)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range c.lines {
			l.close()
		}
	}()
	c.client = int(o.clients.Add(1))
	made := make([]benchKey, 0, keys)
	c.batch.room(o.prepareBatch())
	for len(made) < keys {
		some := c.batch.keys[:min(len(c.batch.keys), keys-len(made))]
		for i := range some {
			some[i] = *c.fresh()
		}
		if done, err := c.lifecycleBatch(ctx, some); err != nil {
			return fmt.Errorf("after %d of %d keys: %w", len(made)+done, keys, err)
		}
		made = append(made, some...)
	}
	o.prepared = made
	return nil
}
