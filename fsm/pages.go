package fsm

import "slices"

// place says where a packed record lies: the number of its page and the offset
// in it.
type place uint64

func placeIn(page, offset int) place { return place(page)<<32 | place(offset) }

func (p place) page() int   { return int(p >> 32) }
func (p place) offset() int { return int(uint32(p)) }

const (
	pageSize = 64 << 10
	// entryPrefix is the length that goes before each packed record, for a walk
	// through a page.
	entryPrefix = 4
	noPage      = -1
)

// lifetime sorts records by how long they will stay as they are. Each has
// pages of its own, so that what is written together goes together and most
// pages empty by themselves.
type lifetime int

const (
	short lifetime = iota // pending
	usual                 // settled
	long                  // what a sweep has dropped, released, cancelled
	lifetimes
)

// pages keep packed records. Bytes that were written are never changed: a
// change of a record writes it anew, and what is left behind is dead. Pages
// that are all dead are let go; packing up those that are dead in part is
// store.tidy's.
type pages struct {
	size   int            // of a page; a record that is large against it gets one of its own
	slack  int            // dead bytes that are not worth packing up
	list   [][]byte       // by number; nil where none is
	shared bool           // views hold the list: it is replaced before an element changes
	use    []pageUse      // by number
	vacant []int          // numbers without a page
	open   [lifetimes]int // the pages that are being filled
	used   int            // bytes of all entries
	dead   int            // of these, the ones of records that are gone
}

type pageUse struct{ used, dead int }

func newPages() *pages {
	p := &pages{size: pageSize, slack: 8 * pageSize}
	for i := range p.open {
		p.open[i] = noPage
	}
	return p
}

// bytes gives the packed record at x; it may be longer than the record.
func (p *pages) bytes(x place) packed { return packed(p.list[x.page()][x.offset():]) }

// add keeps b, which it copies.
func (p *pages) add(l lifetime, b []byte) place {
	n := entryPrefix + len(b)
	no := p.open[l]
	switch {
	case n > p.size/8:
		no = p.newPage(n)
	case no == noPage || p.use[no].used+n > p.size:
		p.open[l] = p.newPage(p.size)
		if no != noPage {
			p.release(no)
		}
		no = p.open[l]
	}
	u := &p.use[no]
	x := placeIn(no, u.used+entryPrefix)
	page := p.list[no]
	putLength(page[u.used:], len(b))
	copy(page[x.offset():], b)
	u.used += n
	p.used += n
	return x
}

// free counts the record at x as dead.
func (p *pages) free(x place) {
	no := x.page()
	n := entryPrefix + lengthAt(p.list[no][x.offset()-entryPrefix:])
	p.use[no].dead += n
	p.dead += n
	p.release(no)
}

// release lets a page go that is full and all dead.
func (p *pages) release(no int) {
	if u := p.use[no]; u.dead == u.used && !slices.Contains(p.open[:], no) {
		p.drop(no)
	}
}

func (p *pages) newPage(size int) int {
	page := make([]byte, size)
	if n := len(p.vacant); n > 0 {
		no := p.vacant[n-1]
		p.vacant = p.vacant[:n-1]
		p.own()
		p.list[no], p.use[no] = page, pageUse{}
		return no
	}
	p.list = append(p.list, page) // behind what a view sees
	p.use = append(p.use, pageUse{})
	return len(p.list) - 1
}

// shut ends the filling of a page.
func (p *pages) shut(no int) {
	if i := slices.Index(p.open[:], no); i >= 0 {
		p.open[i] = noPage
	}
}

// drop takes a shut page out, whatever is in it.
func (p *pages) drop(no int) {
	p.used -= p.use[no].used
	p.dead -= p.use[no].dead
	p.use[no] = pageUse{}
	p.own()
	p.list[no] = nil
	p.vacant = append(p.vacant, no)
}

// own makes the list the machine's alone again.
func (p *pages) own() {
	if p.shared {
		p.list, p.shared = slices.Clone(p.list), false
	}
}

// freeze gives the list to a view.
func (p *pages) freeze() [][]byte {
	p.shared = true
	return p.list
}

// worst gives the page with the most dead bytes, when more than a third of all
// bytes are dead.
func (p *pages) worst() (no int, ok bool) {
	if p.dead <= p.used/3+p.slack {
		return 0, false
	}
	for i, u := range p.use {
		if u.dead > p.use[no].dead {
			no = i
		}
	}
	return no, true
}

// each visits the entries of a page, dead ones too.
func (p *pages) each(no int, visit func(x place, b []byte)) {
	page, used := p.list[no], p.use[no].used
	for at := 0; at < used; {
		n := lengthAt(page[at:])
		at += entryPrefix
		visit(placeIn(no, at), page[at:at+n])
		at += n
	}
}
