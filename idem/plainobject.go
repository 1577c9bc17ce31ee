package idem

// Member is one member of a plain JSON object: its name without quotes, and its
// value as it was sent. Both alias what was read.
type Member struct{ Name, Value []byte }

// Item is one element of a plain list of objects.
type Item struct {
	Data    []byte // the whole object
	Members []Member
}

// PlainMembers appends the members of data, one JSON object, to dst. ok false
// says that data is not plain, or has more than plainMembers members: it then
// tells nothing, and Unmarshal must judge it.
func PlainMembers(dst []Member, data []byte) (members []Member, ok bool) {
	s := scanner{v: data}
	start := s.space(0)
	if s.at(start) != '{' {
		return dst, false
	}
	dst, end := s.members(dst, start, 0)
	return dst, end >= 0 && s.space(end) == len(data)
}

// members appends those of the object that opens at i.
func (s *scanner) members(dst []Member, i, depth int) ([]Member, int) {
	first := len(dst)
	if i = s.space(i + 1); s.at(i) == '}' {
		return dst, i + 1
	}
	for {
		colon := s.name(i)
		if colon < 0 || len(dst)-first == plainMembers {
			return dst, -1
		}
		name := s.v[i+1 : colon-1]
		for k := first; k < len(dst); k++ {
			if string(dst[k].Name) == string(name) {
				return dst, -1
			}
		}
		if i = s.space(colon); s.at(i) != ':' {
			return dst, -1
		}
		start := s.space(i + 1)
		if i = s.value(start, depth+1); i < 0 {
			return dst, -1
		}
		dst = append(dst, Member{name, s.v[start:i:i]})
		switch i = s.space(i); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return dst, i + 1
		default:
			return dst, -1
		}
	}
}

// PlainList reads data, an object whose only member is name, a list of objects,
// and appends these to items; their members go into slab, which is given back
// to be used again. ok is as with PlainMembers.
func PlainList(items []Item, slab []Member, data []byte, name string) (_ []Item, _ []Member, ok bool) {
	s := scanner{v: data}
	fail := func() ([]Item, []Member, bool) { return items, slab, false }
	i := s.space(0)
	if s.at(i) != '{' {
		return fail()
	}
	i = s.space(i + 1)
	colon := s.name(i)
	if colon < 0 || string(data[i+1:colon-1]) != name {
		return fail()
	}
	if i = s.space(colon); s.at(i) != ':' {
		return fail()
	}
	if i = s.space(i + 1); s.at(i) != '[' {
		return fail()
	}
	from := len(items)
	for more := true; more; {
		start := s.space(i + 1) // behind the bracket or a comma
		if s.at(start) != '{' {
			return fail()
		}
		first := len(slab)
		if slab, i = s.members(slab, start, 2); i < 0 {
			return fail()
		}
		// The slab may still move: only the count is kept here.
		items = append(items, Item{Data: data[start:i:i], Members: slab[first:len(slab):len(slab)]})
		switch i = s.space(i); s.at(i) {
		case ',':
		case ']':
			more = false
		default:
			return fail()
		}
	}
	if i = s.space(i + 1); s.at(i) != '}' || s.space(i+1) != len(data) {
		return fail()
	}
	at := 0
	for k := range items[from:] {
		it := &items[from+k]
		n := len(it.Members)
		it.Members = slab[at : at+n : at+n]
		at += n
	}
	return items, slab, true
}
