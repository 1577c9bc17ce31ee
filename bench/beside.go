package bench

import (
	"context"
	"sync"
	"time"
)

// Beside runs the load twice: alone, and then while storm clients reserve one
// key after the other, all the same, in a closed loop. The figures are those of
// the second run, of the load's own clients alone, with those of the first in
// WithoutStorm. The processor time of the storm's clients and of what the
// servers do for them is in the second run's. o gives the storm.
func (l Load) Beside(ctx context.Context, o *Onced, storm int, progress func(Progress)) (*Result, error) {
	without, err := l.Run(ctx, progress)
	if err != nil {
		return without, err
	}
	start, err := o.Start("storm")
	if err != nil {
		return nil, err
	}
	other := Load{Clients: storm, Start: start, Warmup: l.Warmup, For: l.For + time.Hour}
	stormy, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = other.Run(stormy, nil) })
	with, err := l.Run(ctx, progress)
	end()
	wg.Wait()
	if with != nil {
		with.WithoutStorm = without
	}
	return with, err
}
