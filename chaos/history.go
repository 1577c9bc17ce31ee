package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// History writes down every call as it ends: a file of JSON lines, and the same
// in memory for the checks.
type History struct {
	began time.Time

	opsMu sync.Mutex // guards all below
	ops   []*Op
	file  *os.File
	w     *bufio.Writer
	err   error
	batch int
	acks  []ack
}

// ack is one acknowledged write: when it was asked for, and when it was told.
type ack struct{ call, ret int64 }

// NewHistory begins a history whose times count from now, in the file path; ""
// keeps it in memory alone.
func NewHistory(path string) (*History, error) {
	h := &History{began: time.Now(), w: bufio.NewWriter(io.Discard)}
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		h.file, h.w = f, bufio.NewWriterSize(f, 256<<10)
	}
	return h, nil
}

// now gives the time since the beginning, in nanoseconds.
func (h *History) now() int64 { return int64(time.Since(h.began)) }

// add keeps an op that has ended, and gives it its number.
func (h *History) add(o *Op) {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	o.ID = len(h.ops) + 1
	h.ops = append(h.ops, o)
	if o.acknowledged() {
		h.acks = append(h.acks, ack{o.Call, o.Return})
	}
	b, err := json.Marshal(o)
	if err == nil {
		_, err = h.w.Write(append(b, '\n'))
	}
	h.err = errors.Join(h.err, err)
}

// nextBatch numbers the batches.
func (h *History) nextBatch() int {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	h.batch++
	return h.batch
}

// Ops gives what has ended so far, in that order.
func (h *History) Ops() []*Op {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	return h.ops[:len(h.ops):len(h.ops)]
}

// firstAckAfter gives when the first write was acknowledged that was asked for
// at or after t; 0 when there was none yet.
func (h *History) firstAckAfter(t int64) int64 {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	first := int64(0)
	for i := len(h.acks) - 1; i >= 0 && h.acks[i].ret >= t; i-- {
		if h.acks[i].call >= t {
			first = h.acks[i].ret
		}
	}
	return first
}

// longestGap gives the longest time between from and to without an
// acknowledged write.
func (h *History) longestGap(from, to int64) time.Duration {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	longest, last := int64(0), from
	for _, a := range h.acks {
		if a.ret < from || a.ret > to {
			continue
		}
		longest = max(longest, a.ret-last)
		last = max(last, a.ret)
	}
	return time.Duration(max(longest, to-last))
}

// worstSkew gives how far the log time of an answer was from this machine's
// clock at best, while the call lasted: the most of all calls that the log
// decided. Wall clocks of nodes may be moved; log time must not follow one.
func (h *History) worstSkew() time.Duration {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	began, worst := h.began.UnixMilli(), int64(0)
	for _, o := range h.ops {
		if o.Fate != Known || o.Answer.Time == 0 || o.Answer.Local {
			continue
		}
		from, to := began+o.Call/1e6, began+o.Return/1e6
		worst = max(worst, from-o.Answer.Time, o.Answer.Time-to)
	}
	return time.Duration(worst) * time.Millisecond
}

// Close writes out what is buffered.
func (h *History) Close() error {
	h.opsMu.Lock()
	defer h.opsMu.Unlock()
	err := errors.Join(h.err, h.w.Flush())
	if h.file != nil {
		err = errors.Join(err, h.file.Close())
	}
	return err
}

// ReadHistory reads a history back, for instance to check a kept one again.
func ReadHistory(path string) ([]*Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var ops []*Op
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		o := new(Op)
		if err := json.Unmarshal(lines.Bytes(), o); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(ops)+1, err)
		}
		ops = append(ops, o)
	}
	return ops, lines.Err()
}

// birthOf gives the birth of a key that carries one, 0 for others.
func birthOf(key string) int64 {
	ms, _ := idem.BirthOfUUIDv7(key)
	return ms
}

// millis writes a duration in milliseconds as the API reads it.
func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
