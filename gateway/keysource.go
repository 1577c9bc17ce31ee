package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/idem"
)

// KeySource is one place where the key of a request is looked for.
type KeySource struct {
	Kind string // header, body or fingerprint
	Name string // of the header; the JSON pointer; trade
}

// The kinds of a KeySource.
const (
	FromHeader      = "header"
	FromBody        = "body"
	FromFingerprint = "fingerprint"
)

// UnmarshalText reads "header:Idempotency-Key", "body:/idempotencyKey" and
// "fingerprint:trade".
func (k *KeySource) UnmarshalText(b []byte) error {
	kind, name, _ := strings.Cut(strings.TrimSpace(string(b)), ":")
	s := KeySource{kind, name}
	if err := s.validate(); err != nil {
		return err
	}
	if kind == FromHeader {
		s.Name = http.CanonicalHeaderKey(name)
	}
	*k = s
	return nil
}

func (k KeySource) String() string { return k.Kind + ":" + k.Name }

func (k KeySource) validate() error {
	switch k.Kind {
	case FromHeader:
		if !isToken(k.Name) {
			return fmt.Errorf("%q is no header name such as Idempotency-Key", k.Name)
		}
		return nil
	case FromBody:
		return checkPointer(k.Name)
	case FromFingerprint:
		if k.Name != "trade" {
			return fmt.Errorf("fingerprint %q is not known: use fingerprint:trade", k.Name)
		}
		return nil
	}
	return fmt.Errorf("%q is no source of keys: use header:NAME, body:POINTER or fingerprint:trade", k.String())
}

// isToken tells whether s can be the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// identity is what names a request to the cluster.
type identity struct {
	key         string
	fingerprint *idem.Fingerprint
}

// identify finds the key of a request: the sources in their order. A source
// that has a key which does not fit is refused, and so are two sources with
// different keys: nothing falls back silently (semantics.md section 10). The
// fingerprint is taken only when no other source has a key.
func (r *Rule) identify(in *incoming) (identity, *idem.Error) {
	var id identity
	from := ""
	for _, source := range r.Keys {
		if source.Kind == FromFingerprint {
			continue
		}
		key, present, err := source.read(in)
		switch {
		case err != nil:
			return id, err
		case !present:
		case id.key != "" && id.key != key:
			return id, &idem.Error{Code: idem.CodeKeyInvalid, Detail: from + " and " + source.String() + " have different keys: send one of them"}
		case id.key == "":
			id.key, from = key, source.String()
		}
	}
	switch {
	case id.key != "" && r.Mode != "":
		mode, err := r.mode(in)
		if err != nil {
			return id, err
		}
		id.key += ":" + mode
		return id, idem.CheckKey(id.key)
	case id.key != "":
		return id, nil
	}
	if !r.fingerprints() {
		return id, &idem.Error{Code: idem.CodeKeyMissing, Detail: "the request has no key: send one by " + sourceNames(r.Keys)}
	}
	var err *idem.Error
	id.fingerprint, err = r.trade(in)
	return id, err
}

func (r *Rule) fingerprints() bool {
	for _, s := range r.Keys {
		if s.Kind == FromFingerprint {
			return true
		}
	}
	return false
}

func sourceNames(sources []KeySource) string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.String()
	}
	return strings.Join(names, " or ")
}

// read looks for the key in one place.
func (k KeySource) read(in *incoming) (key string, present bool, err *idem.Error) {
	if k.Kind == FromHeader {
		return idem.HeaderKey(in.r.Header[k.Name])
	}
	doc, err := in.json()
	if err != nil || doc == nil {
		return "", false, err
	}
	v, ok := lookup(doc, jsontext.Pointer(k.Name))
	if !ok {
		return "", false, nil
	}
	// A key of null is a missing key, not an absent member that lets another
	// source speak (B55).
	switch v.Kind() {
	case 'n':
		return "", true, &idem.Error{Code: idem.CodeKeyMissing, Detail: "the key at " + k.Name + " is null"}
	case '"':
		text, fault := jsontext.AppendUnquote(nil, v)
		if fault == nil {
			return string(text), true, idem.CheckKey(string(text))
		}
	}
	return "", true, &idem.Error{Code: idem.CodeKeyInvalid, Detail: "the key at " + k.Name + " is not a string"}
}

// mode reads live or test; a request that says neither is live.
func (r *Rule) mode(in *incoming) (string, *idem.Error) {
	pointer := r.Mode
	if pointer == "" {
		pointer = "/mode"
	}
	v, ok, err := in.member(pointer)
	if err != nil {
		return "", err
	}
	if !ok {
		return "live", nil
	}
	if s := string(v); s == `"live"` || s == `"test"` {
		return strings.Trim(s, `"`), nil
	}
	return "", &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the value at " + pointer + ` must be "live" or "test"`}
}

// trade reads the fingerprint of a trade from the body.
func (r *Rule) trade(in *incoming) (*idem.Fingerprint, *idem.Error) {
	doc, err := in.json()
	if err != nil {
		return nil, err
	}
	missing := &idem.Error{Code: idem.CodeKeyMissing, Detail: "the request has no key, and no trade in its body to name it by: send one by " + sourceNames(r.Keys)}
	if doc == nil {
		return nil, missing
	}
	f := &idem.Fingerprint{Kind: "trade"}
	found := false
	for pointer, dst := range map[jsontext.Pointer]*string{"/exchange": &f.Exchange, "/symbol": &f.Symbol, "/action": &f.Action} {
		v, ok := lookup(doc, pointer)
		if !ok {
			continue
		}
		found = true
		text, fault := jsontext.AppendUnquote(nil, v)
		if v.Kind() != '"' || fault != nil {
			return nil, &idem.Error{Code: idem.CodeInvalidRequest, Detail: "the value at " + string(pointer) + " must be a string"}
		}
		*dst = string(text)
	}
	quantity, ok := lookup(doc, "/quantity")
	if !found && !ok {
		return nil, missing
	}
	f.Quantity = quantity
	if f.Mode, err = r.mode(in); err != nil {
		return nil, err
	}
	_, err = f.Form()
	return f, err
}
