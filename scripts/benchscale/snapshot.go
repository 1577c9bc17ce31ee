package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// snapshotOften makes a node take a snapshot every time that raft looks whether
// it should, which is every 15 to 30 s.
const snapshotOften = "64"

// snapshots restarts the cluster with a low threshold, runs a steady load, and
// tells how long snapshots took to write and what calls noticed of them.
func (r *runner) snapshots(ctx context.Context, g *grown) error {
	c := g.c
	r.say("growth: snapshots at %s", sized(g.size))
	c.stop()
	c.more = append(c.more, "--snapshot-threshold", snapshotOften)
	if err := c.start(ctx, c.nodes...); err != nil {
		return err
	}
	before, err := c.applied(ctx, "other") // the log behind the snapshot, at the start
	if err != nil {
		return err
	}
	since := time.Now()
	k, err := r.beside(ctx, c, func(ctx context.Context) error { return pause(ctx, r.steady) })
	if err != nil {
		return err
	}
	var written []float64
	var spans []span
	for _, n := range c.nodes {
		w, err := snapshotWrites(filepath.Join(n.dir, "snapshots"), since)
		if err != nil {
			return err
		}
		written = append(written, w...)
		s, err := snapshotSpans(n.log, since)
		if err != nil {
			return err
		}
		spans = append(spans, s...)
	}
	if len(written) == 0 {
		r.say("growth: no snapshot was written meanwhile")
		return nil
	}
	slowest := quantile(written, 1)
	what := fmt.Sprintf("writing a snapshot of %s, synced", sized(g.size))
	note := fmt.Sprintf("median of %d on three nodes, some at the same time; worst %s", len(written), number(slowest, seconds))
	if g.size <= 1_000_000 {
		r.table.target("G19", what, median(written), seconds, 0.5, 0.1, note)
	} else {
		r.table.add(what, median(written), seconds, note)
	}
	during, beside, failed := k.split(spans)
	if failed > 0 {
		r.say("growth: %d calls failed beside snapshots", failed)
	}
	what = fmt.Sprintf("snapshots of %s", sized(g.size))
	entries, err := c.applied(ctx, "other")
	if err != nil {
		return err
	}
	entries.add(before, -1)
	note = fmt.Sprintf("at most; of %.0f log entries, on three nodes", entries[math.Inf(1)])
	r.table.target("G18", what+": p99 of applying an entry", 1000*entries.quantile(0.99), milliseconds, 5, 1, note)
	r.table.target("G18", what+": worst", 1000*entries.quantile(1), milliseconds, 10, 3, note)
	r.stall(what, during, beside)
	return nil
}

// applied adds up, over all nodes, how long entries took to apply since each
// node's start.
func (c *cluster) applied(ctx context.Context, entry string) (applied, error) {
	all := applied{}
	for _, n := range c.nodes {
		m, err := scrape(ctx, n.url)
		if err != nil {
			return nil, err
		}
		all.add(m.applied(entry), 1)
	}
	return all, nil
}

// stall adds what guarded operations noticed of something: how much longer the
// slow ones took than the slow ones without it, and how much longer the slowest
// took than a usual one.
func (r *runner) stall(what string, during, beside []time.Duration) {
	with, without := ms(quantile(during, 0.99)), ms(quantile(beside, 0.99))
	r.table.add(what+": p99 of W1 added", max(0, with-without), milliseconds,
		fmt.Sprintf("%s instead of %s; %d a second over all nodes, %d beside it", number(with, milliseconds), number(without, milliseconds), besideRate, len(during)))
	worst, usual := ms(quantile(during, 1)), ms(median(beside))
	r.table.add(what+": worst W1, less a usual one", max(0, worst-usual), milliseconds,
		fmt.Sprintf("%s; usual %s, worst without %s", number(worst, milliseconds), number(usual, milliseconds), number(ms(quantile(beside, 1)), milliseconds)))
}

// snapshotWrites gives, in seconds, how long each snapshot that a node began
// since then took: raft names its directory TERM-INDEX-MILLISECONDS when it
// begins, and writes and syncs meta.json last.
func snapshotWrites(dir string, since time.Time) (took []float64, err error) {
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	if err != nil {
		return nil, err
	}
	for _, meta := range metas {
		name := filepath.Base(filepath.Dir(meta))
		unix, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
		if err != nil {
			continue // one that is not finished ends in .tmp
		}
		info, err := os.Stat(meta)
		if err != nil {
			continue // a newer one has taken its place
		}
		if began := time.UnixMilli(unix); began.After(since) {
			took = append(took, info.ModTime().Sub(began).Seconds())
		}
	}
	return took, nil
}

// snapshotSpans reads from a node's log when it was busy with snapshots since
// then, from the taking to the end of the log's compaction.
func snapshotSpans(log string, since time.Time) (spans []span, err error) {
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var from time.Time
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		begins, ends := strings.Contains(line, `msg="starting snapshot up to"`), strings.Contains(line, `msg="snapshot complete up to"`)
		if !begins && !ends {
			continue
		}
		at, err := logTime(line)
		if err != nil {
			return nil, err
		}
		switch {
		case begins:
			from = at
		case !from.IsZero() && from.After(since):
			spans = append(spans, span{from, at})
		}
	}
	return spans, lines.Err()
}

// logTime reads time=2026-11-30T22:18:33.908Z at the begin of a line.
func logTime(line string) (time.Time, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
	return time.Parse(time.RFC3339Nano, text)
}
