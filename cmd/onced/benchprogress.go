package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/onced/onced/bench"
)

// benchProgress shows how far a run is: a bar on a terminal, a line a second
// anywhere else.
type benchProgress struct {
	w     io.Writer
	bars  *mpb.Progress // nil: lines
	bar   *mpb.Bar
	now   bench.Progress // the last that was shown
	last  bench.Progress // of the last line, for the rate since
	speed float64
	label atomic.Value // string, beside the bar, which is drawn by a goroutine of its own
}

func newBenchProgress(w io.Writer, term string) *benchProgress {
	p := &benchProgress{w: w}
	if term != "dumb" && isTerminal(w) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40))
	}
	return p
}

// isTerminal tells whether people look at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show takes the progress of a run; one that begins anew is a run of its own.
func (p *benchProgress) show(now bench.Progress) {
	if now.Elapsed < p.now.Elapsed {
		p.endBar()
		p.last, p.speed = bench.Progress{}, 0
	}
	begun := p.now.Warmup && !now.Warmup
	p.now = now
	switch since := now.Elapsed - p.last.Elapsed; {
	case begun:
		p.last = now // the speed is that of the measured time
	case since >= time.Second:
		p.speed = float64(now.Operations-p.last.Operations) / since.Seconds()
		p.last = now
		if p.bars == nil {
			fmt.Fprintf(p.w, "%.0f of %.0f s: %s\n", now.Elapsed.Seconds(), now.Total.Seconds(), p.text())
		}
	}
	if p.bars == nil {
		return
	}
	if since := now.Elapsed - p.last.Elapsed; p.speed == 0 && since > 0 {
		p.speed = float64(now.Operations-p.last.Operations) / since.Seconds() // of less than a second
	}
	p.label.Store(p.text())
	if p.bar == nil {
		p.bar = p.bars.New(int64(now.Total), mpb.BarStyle(), mpb.AppendDecorators(
			decor.Any(func(decor.Statistics) string { return fmt.Sprint(p.label.Load()) })))
	}
	p.bar.SetCurrent(int64(min(now.Elapsed, now.Total-1)))
}

func (p *benchProgress) text() string {
	if p.now.Warmup {
		return "warming up"
	}
	s := fmt.Sprintf("%.0f operations a second", p.speed)
	if p.now.Errors > 0 {
		s += fmt.Sprintf(", %d errors so far", p.now.Errors)
	}
	return s
}

func (p *benchProgress) endBar() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar = nil
	}
}

// end takes the bar away.
func (p *benchProgress) end() {
	p.endBar()
	if p.bars != nil {
		p.bars.Wait()
	}
}
