package fsm

import "slices"

const chunkSize = 1024

// table is an array by ref that views share: what a view holds is never changed,
// a chunk is copied when it is first written to after a view was taken.
type table[T any] struct {
	list  chunks[T]
	views uint64 // taken so far
	own   uint64 // views when the list was last copied: nobody else has it while they are equal
}

// chunks is a table as a view sees it. nil is a chunk of zero values.
type chunks[T any] []*chunk[T]

type chunk[T any] struct {
	views uint64 // as table.own, of this chunk
	of    [chunkSize]T
}

func (c chunks[T]) at(r ref) (v T) {
	if no := int(r / chunkSize); no < len(c) && c[no] != nil {
		v = c[no].of[r%chunkSize]
	}
	return v
}

func (t *table[T]) at(r ref) T { return t.list.at(r) }

func (t *table[T]) set(r ref, v T) {
	no := int(r / chunkSize)
	for no >= len(t.list) {
		t.list = append(t.list, nil) // behind what a view sees
	}
	c := t.list[no]
	if c == nil || c.views != t.views {
		if t.own != t.views {
			t.list, t.own = slices.Clone(t.list), t.views
		}
		fresh := &chunk[T]{views: t.views}
		if c != nil {
			fresh.of = c.of
		}
		t.list[no], c = fresh, fresh
	}
	c.of[r%chunkSize] = v
}

// freeze gives the table to a view.
func (t *table[T]) freeze() chunks[T] {
	t.views++
	return t.list
}
