package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// shortPolicy is that of the namespace whose outcomes expire soon. Their
// verdicts stay.
func shortPolicy(ttl time.Duration) string {
	return fmt.Sprintf(`{"ttl":%q,"retention":"168h"}`, ttl)
}

const shortNamespace = "short"

// fillSweep commits records that expire soon, and stops the cluster before they
// do: at its next start all of them are due at once.
func (r *runner) fillSweep(ctx context.Context) error {
	n := r.sweepSize()
	r.say("sweep: three nodes, %s records with a ttl of %s", sized(n), r.ttl)
	c, err := r.newCluster(ctx, 3, n)
	if err != nil {
		return err
	}
	r.expiring = c
	if err := createNamespace(ctx, c, shortNamespace, shortPolicy(r.ttl)); err != nil {
		return err
	}
	began := time.Now()
	if err := r.fill(ctx, c, shortNamespace, n); err != nil {
		return err
	}
	r.expires = time.Now().Add(r.ttl)
	if took := time.Since(began); took > r.ttl {
		r.say("sweep: filling took %s, so that some have expired before the stop", took.Round(time.Second))
	}
	c.stop()
	return nil
}

// sweep starts that cluster when all is due and tells what calls notice.
func (r *runner) sweep(ctx context.Context) error {
	c := r.expiring
	if wait := time.Until(r.expires); wait > 0 {
		r.say("sweep: %s until all has expired", wait.Round(time.Second))
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
	r.say("sweep: %s expire at once", sized(r.sweepSize()))
	for _, n := range c.nodes {
		if err := c.launch(n); err != nil {
			return err
		}
	}
	if _, _, err := c.leader(ctx); err != nil {
		return err
	}
	k, swept, err := r.besideSweep(ctx, c, time.Now())
	if err != nil {
		return err
	}
	r.quiet = time.Now()
	return r.sweepFigures(ctx, c, applied{}, "expiry", swept, k)
}

// besideSweep runs a load until nothing is due any more, and a little longer.
func (r *runner) besideSweep(ctx context.Context, c *cluster, from time.Time) (k *calls, swept span, err error) {
	k, err = r.beside(ctx, c, func(ctx context.Context) error {
		err := until(ctx, startTime, func() error { return nothingDue(ctx, c) }, c.nodes...)
		swept = span{from, time.Now()}
		if err != nil {
			return err
		}
		return pause(ctx, r.besideSettle)
	})
	return k, swept, err
}

// nothingDue asks for the least sweep: its answer tells what it left.
func nothingDue(ctx context.Context, c *cluster) error {
	answer, err := ask(ctx, http.MethodPost, c.nodes[0].url+"/v1/sweep", `{"limit":1}`)
	if err == nil && !strings.Contains(answer, `"remaining":0`) {
		err = fmt.Errorf("the sweep goes on: %s", answer)
	}
	if err != nil {
		_ = pause(ctx, 100*time.Millisecond)
	}
	return err
}

func (r *runner) sweepFigures(ctx context.Context, c *cluster, before applied, what string, swept span, k *calls) error {
	entries, err := c.applied(ctx, "sweep")
	if err != nil {
		return err
	}
	entries.add(before, -1)
	took := swept.to.Sub(swept.from)
	during, beside, failed := k.split([]span{swept})
	if failed > 0 {
		r.say("sweep: %d calls failed", failed)
	}
	size := sized(r.sweepSize())
	r.table.add(fmt.Sprintf("%s of %s at once, to the last", what, size), took.Seconds(), seconds,
		fmt.Sprintf("%.0f sweeps on three nodes, beside the calls", entries[math.Inf(1)]))
	r.table.target("G25", what+" of "+size+": p99 of applying a sweep", 1000*entries.quantile(0.99), milliseconds, 5, 1, "at most, on three nodes")
	r.table.target("G25", what+" of "+size+": worst", 1000*entries.quantile(1), milliseconds, 5, 1, "at most, on three nodes")
	r.stall(what+" of "+size, during, beside)
	return nil
}

// tombstones reads what an expired record costs, and has the verdicts removed at
// once.
func (r *runner) tombstones(ctx context.Context) error {
	c := r.expiring
	r.say("sweep: heap of %s tombstones", sized(r.sweepSize()))
	each, err := r.heapEach(ctx, c, make([]float64, len(c.nodes)), r.quiet)
	if err != nil {
		return err
	}
	r.table.add("live heap a tombstone", median(each), bytesEach, fmt.Sprintf("an expired record whose verdict is kept; %s to %s on the three, an empty node's heap included",
		number(quantile(each, 0), bytesEach), number(quantile(each, 1), bytesEach)))
	before, err := c.applied(ctx, "sweep")
	if err != nil {
		return err
	}
	from := time.Now()
	var k *calls
	var swept span
	if _, err := ask(ctx, http.MethodDelete, c.nodes[0].url+"/v1/namespaces/"+shortNamespace+"?force=true", ""); err != nil {
		return err
	}
	r.say("sweep: their namespace is deleted")
	if k, swept, err = r.besideSweep(ctx, c, from); err != nil {
		return err
	}
	if err := r.sweepFigures(ctx, c, before, "removal", swept, k); err != nil {
		return err
	}
	return r.drop(c)
}
