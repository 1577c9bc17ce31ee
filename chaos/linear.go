package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Limits bound a check in time.
type Limits struct {
	// Within is how long the search for orders may take, all keys together; 0 is
	// CheckTime. What it does not decide fails the check.
	Within time.Duration
	// Progress takes lines for people; nil takes none.
	Progress func(format string, args ...any)
}

// CheckTime is enough for the histories of a run of some minutes, many times over.
const CheckTime = 3 * time.Minute

// progressTime is how often a long check says how far it is.
const progressTime = 5 * time.Second

// ErrInterrupted says that a run or a check was ended before it had a verdict.
var ErrInterrupted = errors.New("interrupted")

// unexplained is a key for whose calls no order was found.
type unexplained struct {
	part   []*Op
	result porcupine.CheckResult // Illegal, or Unknown: not decided
	stuck  *Op                   // the call that did not fit, if there is one to name
}

// explain looks for an order of a key's calls. A key that has none is tried
// again with what the cluster may do by itself: a call repeated inside after a
// lost reply can come into the log more than once.
func explain(ctx context.Context, part []*Op, within time.Duration) (u unexplained) {
	u = unexplained{part: part}
	until := time.Now().Add(within)
	for _, copies := range []bool{false, true} {
		left := time.Until(until)
		if left <= 0 {
			u.result = porcupine.Unknown
			break
		}
		s := newSearch(ctx, part, copies)
		u.result = porcupine.CheckOperationsTimeout(s.model(), s.operations(), left)
		if u.result == porcupine.Illegal && (ctx.Err() != nil || s.crowded.Load()) {
			u.result = porcupine.Unknown
		}
		if stuck := s.stuck.Load(); stuck != nil && stuck.Kind != theEnd {
			u.stuck = stuck.Op
		}
		if u.result == porcupine.Ok || ctx.Err() != nil {
			break
		}
	}
	return u
}

// operations gives the known calls as porcupine takes them.
func (s *search) operations() []porcupine.Operation {
	out := make([]porcupine.Operation, len(s.known))
	for i, o := range s.known {
		out[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: o, Return: o.Return}
	}
	return out
}

// explainAll explains every key, the easy ones first: each is given little time,
// and what that did not decide is given more, until all of it is used up. It
// gives those that it found no order for.
func explainAll(ctx context.Context, parts [][]*Op, l Limits) (none []unexplained) {
	if l.Within <= 0 {
		l.Within = CheckTime
	}
	ctx, cancel := context.WithTimeout(ctx, l.Within)
	defer cancel()
	began := time.Now()
	for _, within := range []time.Duration{l.Within / 100, l.Within / 6, l.Within} {
		var open []unexplained
		explainEach(ctx, parts, within, func(done int, u unexplained) {
			switch u.result {
			case porcupine.Illegal:
				none = append(none, u)
			case porcupine.Unknown:
				open = append(open, u)
			}
		}, func(done int) {
			if l.Progress != nil {
				l.Progress("checking: %d of %d keys after %.0f s of at most %.0f s, %d not explained, %d put off", done, len(parts), time.Since(began).Seconds(), l.Within.Seconds(), len(none), len(open))
			}
		})
		parts = nil
		for _, u := range open {
			parts = append(parts, u.part)
		}
		if within == l.Within || ctx.Err() != nil {
			none = append(none, open...)
			break
		}
	}
	sort.Slice(none, func(i, j int) bool { return none[i].part[0].ID < none[j].part[0].ID })
	return none
}

// explainEach explains parts on all processors. It hands over one at a time, and
// calls progress now and then.
func explainEach(ctx context.Context, parts [][]*Op, within time.Duration, take func(done int, u unexplained), progress func(done int)) {
	work, found := make(chan []*Op), make(chan unexplained)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for part := range work {
				found <- explain(ctx, part, within)
			}
		})
	}
	go func() {
		for _, part := range parts {
			work <- part
		}
		close(work)
		all.Wait()
		close(found)
	}()
	tick := time.NewTicker(progressTime)
	defer tick.Stop()
	for done := 0; ; {
		select {
		case u, ok := <-found:
			if !ok {
				return
			}
			done++
			take(done, u)
		case <-tick.C:
			progress(done)
		}
	}
}

// checkLinear looks for an order of each key's calls that the contract explains.
func (f *Findings) checkLinear(ctx context.Context, parts [][]*Op, l Limits) {
	for _, u := range explainAll(ctx, parts, l) {
		f.Unexplained = append(f.Unexplained, u.part)
		ns, key, calls := u.part[0].NS, u.part[0].Key, len(u.part)
		if u.result == porcupine.Unknown {
			f.Undecided++
			f.wrong(nil, "%s/%s: not decided: the time for the check was over before an order of its %d calls was found or ruled out; `onced chaos check DIRECTORY --within 1h` goes on", ns, key, calls)
			continue
		}
		f.Linearizable = false
		stuck := ""
		if u.stuck != nil {
			stuck = fmt.Sprintf("; the first that fits nowhere: call %d, %s", u.stuck.ID, u.stuck)
		}
		f.wrong(nil, "%s/%s: no order of its %d calls is explained by the contract%s", ns, key, calls, stuck)
	}
}

// drawTime bounds the search behind a picture.
const drawTime = 20 * time.Second

// draw writes the picture of a key's calls, as far as the model explains them.
func draw(ctx context.Context, path string, part []*Op) error {
	s := newSearch(ctx, part, true)
	ops := s.operations()
	clients := map[int]int{} // porcupine draws a row for each number up to the highest
	for i := range ops {
		n, ok := clients[ops[i].ClientId]
		if !ok {
			n = len(clients)
			clients[ops[i].ClientId] = n
		}
		ops[i].ClientId = n
	}
	_, info := porcupine.CheckOperationsVerbose(s.model(), ops, drawTime)
	info.AddAnnotations(s.annotations())
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(porcupine.Visualize(s.model(), info, f), f.Close())
}

// annotations shows the calls of unknown fate, which may have been applied at
// any time from their beginning on.
func (s *search) annotations() (list []porcupine.Annotation) {
	for _, o := range s.unknown {
		if o.Fate == Unknown {
			list = append(list, porcupine.Annotation{
				Tag: "fate unknown", Start: o.Call, End: o.Return, Description: o.String(), Details: o.Cause,
			})
		}
	}
	return list
}
