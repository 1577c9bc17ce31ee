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
type snapshot struct{ view *fsm.View }

// Persist implements raft.FSMSnapshot. Nobody waits for a snapshot, but calls
// wait for the processor and the disk that it uses: so it rests after each piece
// for as long as the piece took.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	w := bufio.NewWriterSize(&restingWriter{w: sink, since: time.Now()}, snapshotPiece)
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
// rest.
type restingWriter struct {
	w     io.Writer
	since time.Time
}

func (r *restingWriter) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if err == nil {
		time.Sleep(time.Since(r.since))
		r.since = time.Now()
	}
	return n, err
}
