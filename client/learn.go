package client

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// How often the members are asked for.
const (
	learnEvery   = 5 * time.Minute
	learnAgain   = 30 * time.Second // after a failure
	learnOnMove  = 5 * time.Second  // at the earliest, when the leader changed
	learnTimeout = 2 * time.Second
)

// learner knows when to ask for the cluster's members.
type learner struct {
	mu     sync.Mutex // guards all below
	next   time.Time  // not before
	onMove time.Time  // not before, though the leader changed
	leader string
	asking bool
}

// due tells whether to ask now, and takes the turn if so.
func (l *learner) due(leader string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	moved := leader != "" && leader != l.leader && !now.Before(l.onMove)
	if l.asking || !moved && now.Before(l.next) {
		return false
	}
	l.asking = true
	if leader != "" {
		l.leader = leader
	}
	return true
}

func (l *learner) asked(ok bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
	l.onMove = now.Add(learnOnMove)
	l.next = now.Add(learnAgain)
	if ok {
		l.next = now.Add(learnEvery)
	}
}

// learn asks e, which has just answered, for the members, if it is time to.
func (s *shared) learn(e *endpoint, header http.Header) {
	if s.learner == nil || e.path || !s.learner.due(header.Get("Onced-Leader"), time.Now()) {
		return
	}
	started := s.background.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, learnTimeout)
		defer cancel()
		told, err := s.members(ctx, e)
		if err == nil {
			s.endpoints.learn(told)
		}
		s.learner.asked(err == nil, time.Now())
	})
	if !started {
		s.learner.asked(false, time.Now())
	}
}

// members gives the endpoints of the nodes that e tells of.
func (s *shared) members(ctx context.Context, e *endpoint) ([]*endpoint, error) {
	a, err := s.send(ctx, e, &request{method: http.MethodGet, path: "/v1/cluster"}, learnTimeout)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, errStrange(e, a)
	}
	var status idem.ClusterStatus
	if err := json.Unmarshal(a.body, &status); err != nil {
		return nil, err
	}
	var told []*endpoint
	for _, n := range status.Nodes {
		if o := e.neighbour(n.HTTPAddress); o != nil {
			told = append(told, o)
		}
	}
	return told, nil
}
