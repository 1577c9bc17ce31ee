package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type deadlineKey struct{}

// TestDeadline_IsAContext: it ends as one of package context does, whenever it
// is asked for the first time.
func TestDeadline_IsAContext(t *testing.T) {
	t.Parallel()
	over := func(ctx context.Context) bool {
		select {
		case <-ctx.Done():
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, parent context.Context, cancel func())
	}{
		{"its time comes", func(t *testing.T, parent context.Context, _ func()) {
			d := newDeadline(parent, time.Now().Add(time.Second))
			defer d.end()
			if over(d) || d.Err() != nil {
				t.Error("over at once")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if !over(d) || !errors.Is(d.Err(), context.DeadlineExceeded) {
				t.Errorf("not over: %v", d.Err())
			}
		}},
		{"asked for the first time when it is over", func(t *testing.T, parent context.Context, _ func()) {
			d := newDeadline(parent, time.Now().Add(time.Second))
			defer d.end()
			time.Sleep(2 * time.Second)
			if !errors.Is(d.Err(), context.DeadlineExceeded) || !over(d) {
				t.Errorf("not over: %v", d.Err())
			}
		}},
		{"the caller hangs up, before and after it is asked for", func(t *testing.T, parent context.Context, cancel func()) {
			early, late := newDeadline(parent, time.Now().Add(time.Second)), newDeadline(parent, time.Now().Add(time.Second))
			defer early.end()
			defer late.end()
			if early.Err() != nil {
				t.Error(early.Err())
			}
			cancel()
			if !errors.Is(early.Err(), context.Canceled) || !errors.Is(late.Err(), context.Canceled) {
				t.Errorf("not cancelled: %v, %v", early.Err(), late.Err())
			}
		}},
		{"ended, before and after it is asked for", func(t *testing.T, parent context.Context, _ func()) {
			early, late := newDeadline(parent, time.Now().Add(time.Second)), newDeadline(parent, time.Now().Add(time.Second))
			done := early.Done()
			early.end()
			late.end()
			<-done
			if !errors.Is(early.Err(), context.Canceled) || !errors.Is(late.Err(), context.Canceled) || !over(late) {
				t.Errorf("not cancelled: %v, %v", early.Err(), late.Err())
			}
		}},
		{"the parent's deadline is earlier", func(t *testing.T, parent context.Context, _ func()) {
			sooner, cancel := context.WithTimeout(parent, time.Millisecond)
			defer cancel()
			d := newDeadline(sooner, time.Now().Add(time.Second))
			defer d.end()
			want, _ := sooner.Deadline()
			if at, ok := d.Deadline(); !ok || !at.Equal(want) {
				t.Errorf("%v, want %v", at, want)
			}
		}},
		{"children end with it", func(t *testing.T, parent context.Context, _ func()) {
			d := newDeadline(parent, time.Now().Add(time.Second))
			child, cancel := context.WithCancel(d)
			defer cancel()
			if child.Value(deadlineKey{}) != "v" || d.Value(deadlineKey{}) != "v" {
				t.Error("the parent's value is lost")
			}
			d.end()
			if !over(child) { // at once: no goroutine carries it
				t.Error("the child goes on")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancel(context.WithValue(context.Background(), deadlineKey{}, "v"))
				defer cancel()
				c.run(t, parent, cancel)
			})
		})
	}
}
