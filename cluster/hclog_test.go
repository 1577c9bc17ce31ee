package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func TestRaftLogsReachSlog(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	l := newHclog(slog.New(slog.NewTextHandler(&buf, nil)))
	l.Named("transport").With("peer", "n2").Warn("slow", "error", errors.New("late"), "servers", hclog.Fmt("%d of %d", 2, 3), "odd")
	l.Debug("not wanted at this level")
	for _, want := range []string{"level=WARN", "msg=slow", "component=transport", "peer=n2", "error=late", `servers="2 of 3"`, "odd"} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("%q is not in %s", want, buf.String())
		}
	}
	if strings.Contains(buf.String(), "not wanted") {
		t.Errorf("debug was kept: %s", buf.String())
	}
}

// A real warning of raft: a transport that hides pre-vote.
func TestRaftWarnReachesSlog(t *testing.T) {
	t.Parallel()
	var buf lockedBuffer
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = "n1", newHclog(slog.New(slog.NewTextHandler(&buf, nil)))
	_, inner := raft.NewInmemTransport("")
	mem := raft.NewInmemStore()
	r, err := raft.NewRaft(c, noMachine{}, mem, mem, raft.NewInmemSnapshotStore(), struct{ raft.Transport }{inner})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Shutdown().Error(); err != nil {
		t.Fatal(err)
	}
	if got := buf.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "pre-vote is disabled") {
		t.Fatalf("no warning in %s", got)
	}
}
