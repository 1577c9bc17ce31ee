package cluster

import "testing"

// The watchdog of a store on a disk counts its stalls where the transport looks,
// as the one in memory does: a leader with a hung disk falls silent (B04).
func TestB04_AStoreOnADiskTellsOfStalls(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		c := newTrio(t, 1, dir, nil)
		s := c.nodes[0].store
		guard := storeGuard{}
		if dir == "" {
			guard = s.logs.(*logStore).guard
		} else {
			guard = s.stable.(*stableStore).guard
		}
		if guard.stalls != &s.stalls || guard.stallAfter <= 0 {
			t.Errorf("%s: stalls are counted at %p, looked for at %p, after %v", name, guard.stalls, &s.stalls, guard.stallAfter)
		}
	}
}
