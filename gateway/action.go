package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Action is what becomes of a key when its request has been answered.
type Action int

// The actions.
const (
	// Commit records the answer; duplicates get it.
	Commit Action = iota + 1
	// Fail records the answer as a failure; duplicates get it.
	Fail
	// Release gives the key back: the next request with it runs.
	Release
	// Uncertain leaves the key to its lease: duplicates are told in flight, then
	// uncertain, until somebody says what happened.
	Uncertain
)

var actionNames = [...]string{Commit: "commit", Fail: "fail", Release: "release", Uncertain: "uncertain"}

// String gives the name of a as configuration has it.
func (a Action) String() string {
	if a < Commit || a > Uncertain {
		return fmt.Sprintf("action %d", int(a))
	}
	return actionNames[a]
}

// UnmarshalText reads commit, fail, release or uncertain.
func (a *Action) UnmarshalText(b []byte) error {
	for i, name := range actionNames {
		if name != "" && name == string(b) {
			*a = Action(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no action: use commit, fail, release or uncertain", b)
}

// StatusRule says what one status, or a class of them, means.
type StatusRule struct {
	Status int // 200 to 599, or 2 to 5 for a whole class
	Action Action
}

// UnmarshalText reads "409=release" and "5xx=uncertain".
func (s *StatusRule) UnmarshalText(b []byte) error {
	status, action, ok := strings.Cut(string(b), "=")
	if !ok {
		return fmt.Errorf("%q is not STATUS=ACTION, as in 409=release or 5xx=uncertain", b)
	}
	if err := s.Action.UnmarshalText([]byte(strings.TrimSpace(action))); err != nil {
		return err
	}
	status = strings.TrimSpace(status)
	if class, ok := strings.CutSuffix(strings.ToLower(status), "xx"); ok {
		status = class
	}
	n, err := strconv.Atoi(status)
	if err != nil || (n < 2 || n > 5) && (n < 200 || n > 599) {
		return fmt.Errorf("%q is no status: use 200 to 599, or 2xx to 5xx", status)
	}
	s.Status = n
	return nil
}

// defaultActions is the table for statuses that a rule says nothing of. 408 and
// 409 are in doubt: a time-out may have come after the effect, and a conflict
// may be with one's own first request. 425 and 429 say that nothing was begun.
func defaultActions(status int) Action {
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusConflict:
		return Uncertain
	case status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		return Release
	case status >= 200 && status < 400:
		return Commit
	case status >= 400 && status < 500:
		return Fail
	}
	return Uncertain
}

// actionFor finds the action for a status: the rule's word on the status, its
// word on the class, the default.
func actionFor(rules []StatusRule, status int) Action {
	for _, want := range []int{status, status / 100} {
		for _, r := range rules {
			if r.Status == want {
				return r.Action
			}
		}
	}
	return defaultActions(status)
}
