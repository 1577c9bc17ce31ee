package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type slowWriter struct {
	took time.Duration
	err  error
}

func (w slowWriter) Write(b []byte) (int, error) {
	time.Sleep(w.took)
	return len(b), w.err
}

// TestSnapshotsRest holds that a snapshot leaves half of the time to others, and
// that one that fails does so at once.
func TestSnapshotsRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := &restingWriter{w: slowWriter{took: 30 * time.Millisecond}, since: began}
		for range 3 {
			time.Sleep(10 * time.Millisecond) // what making a piece takes
			if n, err := w.Write(make([]byte, 7)); n != 7 || err != nil {
				t.Fatal(n, err)
			}
		}
		if took := time.Since(began); took != 2*3*(10+30)*time.Millisecond {
			t.Errorf("three pieces took %s", took)
		}
		full := errors.New("full")
		began = time.Now()
		w = &restingWriter{w: slowWriter{took: time.Millisecond, err: full}, since: began}
		if _, err := w.Write(make([]byte, 7)); !errors.Is(err, full) || time.Since(began) != time.Millisecond {
			t.Error(err, time.Since(began))
		}
		closing := make(chan struct{})
		time.AfterFunc(time.Hour+time.Second, func() { close(closing) })
		began = time.Now()
		w = &restingWriter{w: slowWriter{took: time.Hour}, since: began, closing: closing}
		if _, err := w.Write(make([]byte, 7)); !errors.Is(err, errClosing) || time.Since(began) != time.Hour+time.Second {
			t.Error("a stop waits:", err, time.Since(began))
		}
	})
}
