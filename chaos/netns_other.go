//go:build !linux

package chaos

import "net/http"

// netns is a fabric of network namespaces, which only Linux has.
type netns struct{ Fabric }

func newNetns(int) (*netns, error)      { return nil, errNotHere }
func (f *netns) members(string) []*Node { return nil }
func (f *netns) enter(*http.Client)     {}
func (f *netns) Lose(int) error         { return errNotHere }
func (f *netns) Link(int, string) error { return errNotHere }
