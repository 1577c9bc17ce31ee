package idem

import (
	"bytes"
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes one JSON object from a caller into dst, a pointer to a
// struct, and takes nothing it does not understand: unknown members, names in
// another case, duplicate members, wrong types, invalid UTF-8, lone surrogates,
// trailing data, anything but an object, and nesting deeper than MaxDepth are
// CodeInvalidRequest with a detail that names the member. A member that is null
// counts as absent, except where dst keeps JSON values as they are. On an error
// dst may be half filled and is not to be used.
func Unmarshal(data []byte, dst any) *Error {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	if len(trimmed) == 0 {
		return invalid("the body is empty; it must be a JSON object")
	}
	if trimmed[0] != '{' {
		return invalid("the body must be a JSON object")
	}
	if depthOf(data) > MaxDepth {
		if err := faultOf("the body", data, false); err != nil {
			return err
		}
	}
	err := json.Unmarshal(data, dst, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return syntaxError("the body", err)
	}
	name := memberName(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return invalid(name + " is not a member of this request")
	}
	return invalid(name + " must be " + wanted(semantic.GoType))
}

// memberName writes the place of a fault as people name it: the member for one
// of the top, the JSON pointer for a deeper one.
func memberName(p jsontext.Pointer) string {
	switch {
	case p == "":
		return "the body"
	case p.Parent() == "":
		return cut(p.LastToken())
	}
	return cut(string(p))
}

// wanted says in words what JSON a Go type takes.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number of at most 64 bits"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 to 18446744073709551615"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "of another type"
}
