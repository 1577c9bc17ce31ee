package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/onced/onced/gateway"
)

// gatewayFile is what the --config file of gateway may hold. What stands above
// the routes is the default of each of them; without routes it is the one route.
type gatewayFile struct {
	Listen      string   `toml:"listen"`
	AdminListen string   `toml:"admin-listen"`
	Endpoints   []string `toml:"endpoints"`
	TokenFile   string   `toml:"token-file"`
	LogLevel    string   `toml:"log-level"`
	LogFormat   string   `toml:"log-format"`
	DrainDelay  string   `toml:"drain-delay"`

	routeFile
	Routes []routeFile `toml:"routes"`
}

// routeFile is one of the routes. What is nil was not said.
type routeFile struct {
	Name            *string              `toml:"name"`
	Path            *string              `toml:"path"`
	Upstream        *urlText             `toml:"upstream"`
	PreserveHost    *bool                `toml:"preserve-host"`
	Namespace       *string              `toml:"namespace"`
	Preset          *presetText          `toml:"preset"`
	Methods         []string             `toml:"methods"`
	Key             []gateway.KeySource  `toml:"key"`
	Mode            *string              `toml:"mode"`
	Operation       *string              `toml:"operation"`
	Status          []gateway.StatusRule `toml:"status"`
	SoftFail        []gateway.Match      `toml:"soft-fail"`
	SoftFailAction  *gateway.Action      `toml:"soft-fail-action"`
	OnDuplicate     *gateway.Duplicates  `toml:"on-duplicate"`
	Wait            *durationText        `toml:"wait"`
	UpstreamTimeout *durationText        `toml:"upstream-timeout"`
	Record          *recordText          `toml:"record"`
	Headers         []string             `toml:"headers"`
	MaxBody         *int64               `toml:"max-body"`
	MaxRequestBody  *int64               `toml:"max-request-body"`
}

type urlText struct{ url.URL }

// UnmarshalText reads the base URL of an upstream.
func (u *urlText) UnmarshalText(b []byte) error {
	parsed, err := url.Parse(string(b))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return fmt.Errorf("%q is not a base URL such as http://127.0.0.1:8080", b)
	}
	u.URL = *parsed
	return nil
}

type durationText time.Duration

// UnmarshalText reads a Go duration above zero.
func (d *durationText) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a duration above zero, as in 30s or 500ms", b)
	}
	*d = durationText(v)
	return nil
}

type presetText string

// UnmarshalText reads the name of a preset.
func (p *presetText) UnmarshalText(b []byte) error {
	if s := string(b); s != "" && s != "trading-webhook" {
		return fmt.Errorf("%q is no preset: use trading-webhook", b)
	}
	*p = presetText(b)
	return nil
}

type recordText bool

// UnmarshalText reads whole or status.
func (r *recordText) UnmarshalText(b []byte) error {
	switch string(b) {
	case "whole", "status":
		*r = string(b) == "status"
		return nil
	}
	return fmt.Errorf("%q: use whole, or status to keep no bodies", b)
}

// readGatewayFile reads the file; its error names the line.
func readGatewayFile(name string) (*gatewayFile, []byte, error) {
	f := &gatewayFile{}
	if name == "" {
		return f, nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, refusef("--config %s: %v", name, rootCause(err))
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	err = d.Decode(f)
	var unknown *toml.StrictMissingError
	var malformed *toml.DecodeError
	switch {
	case err == nil:
		return f, text, nil
	case errors.As(err, &unknown):
		e := &unknown.Errors[0]
		line, _ := e.Position()
		key := strings.Join(e.Key(), ".")
		msg := fmt.Sprintf("--config %s, line %d: unknown key %s", name, line, quote(key))
		last := e.Key()[len(e.Key())-1]
		if near := nearest(last, gatewayKeys); near != "" {
			return nil, nil, &exitError{exitRefused, msg, "did you mean: " + near}
		}
		return nil, nil, &exitError{exitRefused, msg, "the keys are in docs/gateways.md"}
	case errors.As(err, &malformed):
		line, _ := malformed.Position()
		reason := strings.TrimPrefix(malformed.Error(), "toml: ")
		if m := wrongType.FindStringSubmatch(reason); m != nil {
			reason = "a TOML " + m[1] + " is no value for this key"
		}
		return nil, nil, refusef("--config %s, line %d: %s", name, line, reason)
	}
	return nil, nil, refusef("--config %s, line %d: %s", name, lineOf(text, err), strings.TrimPrefix(err.Error(), "toml: "))
}

// wrongType is how the library tells of a value of another type.
var wrongType = regexp.MustCompile(`^cannot decode TOML (\w+) into`)

// lineOf finds the line of an error that does not tell it, such as a key that is
// there twice: the first line with which it comes.
func lineOf(text []byte, want error) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := range lines {
		err := toml.Unmarshal(bytes.Join(lines[:n+1], nil), &gatewayFile{})
		if err != nil && err.Error() == want.Error() {
			return n + 1
		}
	}
	return len(lines)
}

// gatewayKeys are the keys of the file, for suggestions.
var gatewayKeys = []string{
	"listen", "admin-listen", "endpoints", "token-file", "log-level", "log-format", "drain-delay", "routes", "name", "path",
	"upstream", "preserve-host", "namespace", "preset", "methods", "key", "mode", "operation", "status", "soft-fail",
	"soft-fail-action", "on-duplicate", "wait", "upstream-timeout", "record", "headers", "max-body", "max-request-body",
}

// rules makes the rules of the file, and gives with each the line of its route.
func (f *gatewayFile) rules(text []byte) (rules []gateway.Rule, lines []int) {
	routes := f.Routes
	if len(routes) == 0 {
		routes = []routeFile{{}}
	}
	headers := regexp.MustCompile(`(?m)^[ \t]*\[\[[ \t]*routes[ \t]*\]\]`).FindAllIndex(text, -1)
	for i := range routes {
		rule := gateway.Rule{}
		if p := first(routes[i].Preset, f.Preset); p != nil && *p == "trading-webhook" {
			rule = gateway.TradingWebhook()
		}
		f.routeFile.into(&rule)
		routes[i].into(&rule)
		rules = append(rules, rule)
		line := 1
		if i < len(headers) {
			line += bytes.Count(text[:headers[i][0]], []byte("\n"))
		}
		lines = append(lines, line)
	}
	return rules, lines
}

func first[T any](options ...*T) *T {
	for _, o := range options {
		if o != nil {
			return o
		}
	}
	return nil
}

// into lays what the route says over a rule.
func (r *routeFile) into(rule *gateway.Rule) {
	lay(&rule.Name, r.Name)
	lay(&rule.Path, r.Path)
	lay(&rule.PreserveHost, r.PreserveHost)
	lay(&rule.Namespace, r.Namespace)
	lay(&rule.Mode, r.Mode)
	lay(&rule.Operation, r.Operation)
	lay(&rule.SoftFailAction, r.SoftFailAction)
	lay(&rule.OnDuplicate, r.OnDuplicate)
	lay(&rule.Wait, (*time.Duration)(r.Wait))
	lay(&rule.Timeout, (*time.Duration)(r.UpstreamTimeout))
	lay(&rule.StatusOnly, (*bool)(r.Record))
	lay(&rule.MaxBody, r.MaxBody)
	lay(&rule.MaxRequestBody, r.MaxRequestBody)
	layList(&rule.Methods, r.Methods)
	layList(&rule.Keys, r.Key)
	layList(&rule.Statuses, r.Status)
	layList(&rule.SoftFail, r.SoftFail)
	layList(&rule.Headers, r.Headers)
	if r.Upstream != nil {
		u := r.Upstream.URL
		rule.Upstream = &u
	}
}

func lay[T any](dst, said *T) {
	if said != nil {
		*dst = *said
	}
}

func layList[T any](dst *[]T, said []T) {
	if said != nil {
		*dst = said
	}
}
