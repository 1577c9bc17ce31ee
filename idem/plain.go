package idem

import (
	"slices"
	"unicode/utf8"
)

// Plain JSON is what programs send: short objects, ASCII names, no exotic
// escapes. One pass over its bytes answers what the JSON library needs several
// passes and a tree of states for. The readers of this file take nothing but
// plain JSON, and of that they say exactly what the library says; everything
// else, well-formed or not, they hand back with ok false, for the slow road to
// judge. So the slow road stays the one truth, and FuzzPlain holds the two
// together.
//
// Plain is: well-formed by RFC 8259; strings of valid UTF-8 whose escapes are
// \" \\ \b \f \n \r \t alone; names of printable ASCII without escapes, no two
// alike in one object, at most plainMembers in one that is not sorted;
// plainDepth levels at most.
const (
	plainMembers = 32
	plainDepth   = 16
)

// plainString holds the bytes that stand for themselves in a plain string and
// need no further look.
var plainString = func() (set [256]bool) {
	for c := ' '; c < 0x80; c++ {
		set[c] = c != '"' && c != '\\'
	}
	return set
}()

var plainEscapes = byteSet(`"\bfnrt`)

// scanner walks over plain JSON. A position of -1 says that it is none.
type scanner struct {
	v       []byte
	spaced  bool // there was white space between tokens
	secrets bool // a secret, and what could hide one, is not plain either
}

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.v) && (s.v[i] == ' ' || s.v[i] == '\n' || s.v[i] == '\t' || s.v[i] == '\r') {
		s.spaced = true
		i++
	}
	return i
}

// at gives the byte at i, 0 at the end.
func (s *scanner) at(i int) byte {
	if i < len(s.v) {
		return s.v[i]
	}
	return 0
}

// value skips the value at i.
func (s *scanner) value(i, depth int) int {
	switch c := s.at(i); c {
	case '"':
		end := s.text(i)
		if end >= 0 && s.secrets && secretShape(s.v[i+1:end-1]) {
			return -1
		}
		return end
	case '{':
		return s.object(i, depth)
	case '[':
		return s.array(i, depth)
	case 't':
		return s.word(i, "true")
	case 'f':
		return s.word(i, "false")
	case 'n':
		return s.word(i, "null")
	default:
		return s.number(i)
	}
}

func (s *scanner) word(i int, word string) int {
	if len(s.v)-i >= len(word) && string(s.v[i:i+len(word)]) == word {
		return i + len(word)
	}
	return -1
}

// text skips the string that opens at i.
func (s *scanner) text(i int) int {
	v, wide := s.v, false
	for j := i + 1; j < len(v); j++ {
		c := v[j]
		if plainString[c] {
			continue
		}
		switch {
		case c == '"':
			if wide && !utf8.Valid(v[i+1:j]) {
				return -1
			}
			return j + 1
		case c == '\\':
			if s.secrets || !plainEscapes[s.at(j+1)] {
				return -1
			}
			j++
		case c < ' ':
			return -1
		default:
			wide = true
		}
	}
	return -1
}

// name skips the member name that opens at i.
func (s *scanner) name(i int) int {
	if s.at(i) != '"' {
		return -1
	}
	v := s.v
	for j := i + 1; j < len(v); j++ {
		if plainString[v[j]] {
			continue
		}
		if v[j] != '"' || s.secrets && secretName(v[i+1:j]) {
			return -1
		}
		return j + 1
	}
	return -1
}

// number skips the number at i.
func (s *scanner) number(i int) int {
	if s.at(i) == '-' {
		i++
	}
	switch c := s.at(i); {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		i = s.digits(i)
	default:
		return -1
	}
	if s.at(i) == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		if c := s.at(i + 1); c == '+' || c == '-' {
			i++
		}
		i = s.digits(i + 1)
	}
	return i
}

// digits skips one digit or more.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.v) && s.v[i] >= '0' && s.v[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func (s *scanner) array(i, depth int) int {
	if depth >= plainDepth {
		return -1
	}
	if i = s.space(i + 1); s.at(i) == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1); i < 0 {
			return -1
		}
		switch i = s.space(i); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

// object skips the object that opens at i.
func (s *scanner) object(i, depth int) int {
	if depth >= plainDepth {
		return -1
	}
	if i = s.space(i + 1); s.at(i) == '}' {
		return i + 1
	}
	var names [plainMembers][]byte
	var last []byte
	sorted := true // so far: then no two are alike
	for n := 0; ; n++ {
		end := s.name(i)
		if end < 0 {
			return -1
		}
		name := s.v[i:end]
		sorted = sorted && (n == 0 || string(last[:len(last)-1]) < string(name[:len(name)-1]))
		if !sorted && (n >= len(names) || slices.ContainsFunc(names[:n], func(other []byte) bool { return string(other) == string(name) })) {
			return -1
		}
		if last = name; n < len(names) {
			names[n] = name
		}
		if i = s.member(end, depth); i < 0 {
			return -1
		}
		switch i = s.space(i); s.at(i) {
		case ',':
			i = s.space(i + 1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// member skips a colon and the value behind it.
func (s *scanner) member(i, depth int) int {
	if i = s.space(i); s.at(i) != ':' {
		return -1
	}
	return s.value(s.space(i+1), depth+1)
}

// PlainCompact tells whether v is one plain JSON value without white space
// between its tokens: what the JSON library would write again byte for byte.
func PlainCompact(v []byte) bool {
	s := scanner{v: v}
	return s.value(0, 0) == len(v) && !s.spaced
}

// plainHarmless tells whether v is one plain JSON value in which Redact finds
// nothing.
func plainHarmless(v []byte) bool {
	s := scanner{v: v, secrets: true}
	end := s.value(s.space(0), 0)
	return end >= 0 && s.space(end) == len(v)
}
