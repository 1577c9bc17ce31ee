package idem

// maxPlainDigits is how many digits a number with a fraction may have to be
// plain: any 15 survive a float64, so the shortest form is the number itself
// without the zeros at its end.
const maxPlainDigits = 15

// appendPlain appends the canonical form of v, one plain JSON value; with ok
// false dst is as it was, and the library must make the form or the error.
func appendPlain(dst, v []byte) (form []byte, ok bool) {
	w := former{scanner{v: v}, dst}
	end := w.value(w.space(0), 0)
	if end < 0 || w.space(end) != len(v) {
		return dst, false
	}
	return w.out, true
}

// former walks over plain JSON and writes its form as it goes.
type former struct {
	scanner
	out []byte
}

// value writes the value at i.
func (w *former) value(i, depth int) int {
	switch c := w.at(i); c {
	case '{':
		return w.object(i, depth)
	case '[':
		return w.array(i, depth)
	case '"', 't', 'f', 'n':
		end := w.scanner.value(i, depth)
		if end >= 0 {
			w.out = append(w.out, w.v[i:end]...)
		}
		return end
	default:
		return w.number(i)
	}
}

func (w *former) array(i, depth int) int {
	if depth >= plainDepth {
		return -1
	}
	w.out = append(w.out, '[')
	if i = w.space(i + 1); w.at(i) == ']' {
		w.out = append(w.out, ']')
		return i + 1
	}
	for {
		if i = w.value(i, depth+1); i < 0 {
			return -1
		}
		i = w.space(i)
		c := w.at(i)
		if c != ',' && c != ']' {
			return -1
		}
		w.out = append(w.out, c)
		if c == ']' {
			return i + 1
		}
		i = w.space(i + 1)
	}
}

// part is a member in the form: where it begins, where its name ends (behind
// the quote) and where it ends.
type part struct{ start, name, end int }

// object writes the members as they come and puts them in order when they were
// not. Names are ASCII, so the order of their bytes is that of their UTF-16; two
// that are the same have no order and are not plain.
func (w *former) object(i, depth int) int {
	if depth >= plainDepth {
		return -1
	}
	w.out = append(w.out, '{')
	if i = w.space(i + 1); w.at(i) == '}' {
		w.out = append(w.out, '}')
		return i + 1
	}
	var parts [plainMembers]part
	var last part
	sorted := true
	for n := 0; ; n++ {
		colon := w.name(i)
		if colon < 0 {
			return -1
		}
		p := part{start: len(w.out), name: len(w.out) + colon - i}
		w.out = append(w.out, w.v[i:colon]...)
		sorted = sorted && (n == 0 || before(w.out, last, p))
		if !sorted && n >= len(parts) {
			return -1
		}
		if i = w.space(colon); w.at(i) != ':' {
			return -1
		}
		w.out = append(w.out, ':')
		if i = w.value(w.space(i+1), depth+1); i < 0 {
			return -1
		}
		p.end = len(w.out)
		if last = p; n < len(parts) {
			parts[n] = p
		}
		i = w.space(i)
		c := w.at(i)
		if c != ',' && c != '}' {
			return -1
		}
		if c == '}' && !sorted {
			if !sortParts(w.out, parts[:n+1]) {
				return -1
			}
			w.out = inOrder(w.out, parts[:n+1])
		}
		w.out = append(w.out, c)
		if c == '}' {
			return i + 1
		}
		i = w.space(i + 1)
	}
}

// before tells whether the name of p comes before that of q, without the
// quotes: a name comes before those that it begins.
func before(form []byte, p, q part) bool {
	return string(form[p.start+1:p.name-1]) < string(form[q.start+1:q.name-1])
}

// sortParts sorts parts by their names; false when two have one name.
func sortParts(form []byte, parts []part) bool {
	for i := 1; i < len(parts); i++ {
		for j := i; j > 0 && !before(form, parts[j-1], parts[j]); j-- {
			if !before(form, parts[j], parts[j-1]) {
				return false
			}
			parts[j-1], parts[j] = parts[j], parts[j-1]
		}
	}
	return true
}

// inOrder rewrites the members at the end of form in the order of parts.
func inOrder(form []byte, parts []part) []byte {
	begin, end := parts[0].start, len(form)
	for _, p := range parts {
		begin = min(begin, p.start)
	}
	for i, p := range parts {
		if i > 0 {
			form = append(form, ',')
		}
		form = append(form, form[p.start:p.end]...)
	}
	copy(form[begin:], form[end:])
	return form[:end]
}

// number writes integers that are written out, and short decimals.
func (w *former) number(i int) int {
	end := w.scanner.number(i)
	if end < 0 || end-i > 300 {
		return -1
	}
	tok := w.v[i:end]
	dot := -1
	for k, c := range tok {
		switch c {
		case '.':
			dot = k
		case 'e', 'E':
			return -1
		}
	}
	if dot < 0 {
		if string(tok) == "-0" {
			return -1
		}
		w.out = append(w.out, tok...)
		return end
	}
	if len(tok)-1 > maxPlainDigits {
		return -1
	}
	for len(tok) > dot && (tok[len(tok)-1] == '0' || tok[len(tok)-1] == '.') {
		tok = tok[:len(tok)-1]
	}
	// Zero, and what is so small that it is written with an exponent, are the
	// library's.
	if tok[dot-1] == '0' && (dot == 1 || dot == 2 && tok[0] == '-') &&
		(len(tok) <= dot || len(tok) > dot+6 && string(tok[dot+1:dot+7]) == "000000") {
		return -1
	}
	w.out = append(w.out, tok...)
	return end
}
