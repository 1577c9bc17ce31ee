package idem

import "strings"

// headerName is how details call the header.
const headerName = "Idempotency-Key header"

// HeaderKey reads the key from the lines of the Idempotency-Key header. The
// bare form (key-0001) and the quoted form of the IETF draft, a String of RFC
// 8941 ("key-0001"), name the same key. present tells whether there was any
// line at all; an empty line is present and CodeKeyMissing. More than one line,
// a list, a string left open, an escape that RFC 8941 does not know, and
// parameters after the string are CodeKeyInvalid: to take one of two keys, or
// half of one, would change what the intent is (api.md "Key resolution"). The
// key that comes back has passed CheckKey.
func HeaderKey(values []string) (key string, present bool, err *Error) {
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, headerInvalid("is there more than once: send exactly one")
	}
	s := strings.Trim(values[0], " \t")
	if s != "" && s[0] == '"' {
		if s, err = unquoteHeader(s); err != nil {
			return "", true, err
		}
	} else if strings.IndexByte(s, ',') >= 0 {
		return "", true, headerInvalid("is a list: send exactly one key")
	}
	if err := checkKey(headerName, s); err != nil {
		return "", true, err
	}
	return s, true, nil
}

// unquoteHeader reads a String of RFC 8941 section 4.2.5 that must fill s.
func unquoteHeader(s string) (string, *Error) {
	if end := len(s) - 1; end > 0 && s[end] == '"' && CheckKey(s[1:end]) == nil {
		return s[1:end], nil // nothing to unescape in a key
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			rest := strings.TrimLeft(s[i+1:], " \t")
			switch {
			case rest == "":
				return b.String(), nil
			case rest[0] == ',':
				return "", headerInvalid("is a list: send exactly one key")
			case rest[0] == ';':
				return "", headerInvalid("has parameters after the quoted key: send the key alone")
			}
			return "", headerInvalid("goes on after the closing quote")
		case c == '\\':
			if i++; i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", headerInvalid(`has a backslash before something that is neither " nor \`)
			}
			b.WriteByte(s[i])
		case c < ' ' || c >= 0x7f:
			return "", headerInvalid("has " + byteName(c) + " inside the quotes")
		default:
			b.WriteByte(c)
		}
	}
	return "", headerInvalid("opens a quote and does not close it")
}

func headerInvalid(what string) *Error {
	return &Error{Code: CodeKeyInvalid, Detail: headerName + " " + what}
}
