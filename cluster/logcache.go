package cluster

import "github.com/hashicorp/raft"

// logCacheSize is how many of the newest entries are kept in memory, for
// followers that are a little behind.
const logCacheSize = 1024

// logCache is raft's cache of the newest entries, which keeps copies of what it
// is given: a leader's *raft.Log lies inside the future of its proposal, and the
// cache would keep that whole, its results and records included, until 1,024
// newer entries have come.
type logCache struct{ *raft.LogCache }

func newLogCache(logs raft.LogStore) (logCache, error) {
	c, err := raft.NewLogCache(logCacheSize, logs)
	return logCache{c}, err
}

// StoreLog implements raft.LogStore.
func (c logCache) StoreLog(l *raft.Log) error { return c.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (c logCache) StoreLogs(logs []*raft.Log) error {
	own := make([]*raft.Log, len(logs))
	for i, l := range logs {
		kept := *l
		own[i] = &kept
	}
	return c.LogCache.StoreLogs(own)
}
