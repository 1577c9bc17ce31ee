package cluster

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/onced/onced/fsm"
)

// snapshotPiece is what is written of a snapshot between two rests.
const snapshotPiece = 1 << 20

// snapshot writes a frozen view.
type snapshot struct {
	view    *fsm.View
	closing <-chan struct{}
}

// Persist implements raft.FSMSnapshot. Nobody waits for a snapshot, but calls
// wait for the processor and the disk that it uses: so it rests after each piece
// for as long as the piece took. A stop of the node does not wait for it.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	w := bufio.NewWriterSize(&restingWriter{w: sink, since: time.Now(), closing: s.closing}, snapshotPiece)
	_, err := s.view.WriteTo(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s snapshot) Release() {}

// restingWriter rests after each write for as long as has passed since its last
// rest, and fails when the node stops.
type restingWriter struct {
	w       io.Writer
	since   time.Time
	closing <-chan struct{}
}

func (r *restingWriter) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err != nil {
		return n, err
	}
	rest := time.NewTimer(time.Since(r.since))
	defer rest.Stop()
	select {
	case <-rest.C:
		r.since = time.Now()
		return n, nil
	case <-r.closing:
		return n, errClosing
	}
}
