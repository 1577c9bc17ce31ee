package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxArgumentBytes bounds what is read for one argument: more than the API
// takes, so that the API's own answer is what the user sees.
const maxArgumentBytes = 4 << 20

// jsonArgument reads the JSON of a flag: as it stands, @FILE, or - for standard
// input. It is sent as it was given, its digits, member order and escapes
// unchanged.
func (a *app) jsonArgument(flag, value string) (jsontext.Value, error) {
	text := []byte(value)
	var err error
	switch {
	case value == "-":
		text, err = io.ReadAll(io.LimitReader(a.stdin, maxArgumentBytes))
	case strings.HasPrefix(value, "@"):
		var f *os.File
		if f, err = os.Open(value[1:]); err == nil {
			text, err = io.ReadAll(io.LimitReader(f, maxArgumentBytes))
			f.Close()
		}
	}
	if err != nil {
		return nil, usagef("%s: %v", flag, err)
	}
	v := jsontext.Value(text)
	if !v.IsValid() {
		var any any
		return nil, &exitError{
			exitUsage,
			fmt.Sprintf("%s is not JSON: %v", flag, json.Unmarshal(text, &any)),
			"put JSON in single quotes, text in double quotes within: " + flag + ` '{"amount":10}'  or  ` + flag + ` '"text"'`,
		}
	}
	return v, nil
}

// marshalBody writes the body of a call.
func marshalBody(body any) ([]byte, error) {
	b, err := json.Marshal(body, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, &exitError{exitInternal, err.Error(), ""}
	}
	return b, nil
}

// unmarshalReply reads a 2xx answer. Members that this binary does not know, of
// a newer node, are passed over.
func unmarshalReply(r *reply, to any) error {
	if err := json.Unmarshal(r.body, to, jsontext.AllowDuplicateNames(false)); err != nil {
		return &exitError{exitInternal, fmt.Sprintf("the node's answer cannot be read: %v", err), "check --endpoints and ONCED_ENDPOINTS"}
	}
	return nil
}
