package httpapi

import (
	"maps"
	"sync"
	"sync/atomic"
)

// shelfSize bounds what a shelf keeps: what comes later is found the long way.
const shelfSize = 1024

// shelf remembers what is looked up with every call and is always the same: it
// is copied to be added to, and read without a lock or an allocation.
type shelf[K comparable, V any] struct {
	mu  sync.Mutex // held to change
	now atomic.Pointer[map[K]V]
}

func (s *shelf[K, V]) get(k K) (v V, ok bool) {
	if m := s.now.Load(); m != nil {
		v, ok = (*m)[k]
	}
	return v, ok
}

func (s *shelf[K, V]) put(k K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[K]V{}
	if m := s.now.Load(); m != nil {
		if len(*m) >= shelfSize {
			return
		}
		maps.Copy(next, *m)
	}
	next[k] = v
	s.now.Store(&next)
}
