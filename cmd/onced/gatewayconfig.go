package main

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/client"
	"github.com/onced/onced/gateway"
)

var gatewaySettings = []setting{
	{name: "listen", value: "127.0.0.1:4780", usage: "host:port to serve callers on"},
	{name: "admin-listen", value: "127.0.0.1:4781", usage: "host:port of /healthz, /readyz and /metrics"},
	{name: "upstream", usage: "base URL of the service that is guarded, as in http://127.0.0.1:8080 (required, here or for each route)"},
	{name: "endpoints", usage: "base URLs of nodes, comma-separated (default " + defaultEndpoint + ")"},
	{name: "namespace", usage: "namespace of the keys (default: default)"},
	{name: "preset", usage: "trading-webhook: the keys, soft failures and duplicates of a trading gateway"},
	{name: "methods", usage: "guarded methods (default POST,PUT,PATCH,DELETE); others pass through"},
	{name: "key", usage: "where the key is, in order: header:NAME, body:POINTER, fingerprint:trade (default header:Idempotency-Key)"},
	{name: "soft-fail", usage: "what in the body of a 2xx means that it did not happen, as in /success=false"},
	{name: "on-duplicate", usage: "what a duplicate is told: replay (default), reject with 409, or wait for the first one's answer"},
	{name: "upstream-timeout", usage: "how long the upstream may take (default 30s); the lease is 10 s longer"},
	{name: "token-file", usage: "file with the token that the gateway shows to the cluster"},
	{name: "drain-delay", value: "1s", usage: "at a stop, serve on for this long while /readyz answers 503"},
	{name: "log-level", value: "info", usage: "debug, info, warn or error"},
	{name: "log-format", value: "text", usage: "text or json"},
}

// gatewayConfig is what gateway runs on, checked.
type gatewayConfig struct {
	listen, admin string
	endpoints     []string
	token         string
	rules         []gateway.Rule
	ruleError     func(error) error // puts the line of its route to an error of the rules
	drainDelay    time.Duration
	logLevel      slog.Level
	logJSON       bool
}

// loadGateway puts together flags, environment and file: the flag wins over the
// environment, the environment over what stands above the routes of the file,
// and a route over all of them for itself.
func (a *app) loadGateway(cmd *cobra.Command, configFile string) (*gatewayConfig, []string, error) {
	values, warnings, err := loadSettings(cmd, gatewaySettings, "", a.environ)
	if err != nil {
		return nil, nil, err
	}
	f, text, err := readGatewayFile(configFile)
	if err != nil {
		return nil, nil, err
	}
	said := func(name string) bool { return cmd.Flags().Changed(name) || a.getenv(envName(name)) != "" }
	for name, fromFile := range map[string]string{
		"listen": f.Listen, "admin-listen": f.AdminListen, "endpoints": strings.Join(f.Endpoints, ","), "token-file": f.TokenFile,
		"drain-delay": f.DrainDelay, "log-level": f.LogLevel, "log-format": f.LogFormat,
	} {
		if fromFile != "" && !said(name) {
			values[name] = fromFile
		}
	}
	if err := f.routeFile.fromValues(values); err != nil {
		return nil, nil, err
	}
	c := &gatewayConfig{listen: values["listen"], admin: values["admin-listen"]}
	if err := c.parse(values); err != nil {
		return nil, nil, err
	}
	var lines []int
	c.rules, lines = f.rules(text)
	c.ruleError = func(err error) error {
		of, ok := errors.AsType[*gateway.RuleError](err)
		if !ok || configFile == "" {
			return refusef("%v", err)
		}
		return refusef("--config %s, line %d: %v", configFile, lines[of.Index], of.Err)
	}
	for i := range c.rules {
		if c.rules[i].Upstream == nil {
			if configFile == "" {
				return nil, nil, refusef("which service is guarded? Set --upstream, as in: --upstream http://127.0.0.1:8080")
			}
			return nil, nil, c.ruleError(&gateway.RuleError{Index: i, Err: errors.New("upstream is missing: name the service that is guarded")})
		}
	}
	return c, warnings, nil
}

// fromValues lays flags and environment over what the file says of all routes.
func (r *routeFile) fromValues(values map[string]string) error {
	if v := values["namespace"]; v != "" {
		r.Namespace = &v
	}
	if v := values["methods"]; v != "" {
		r.Methods = splitList(v)
	}
	for name, set := range map[string]func(string) error{
		"upstream":         func(s string) error { return scalar(&r.Upstream, s) },
		"preset":           func(s string) error { return scalar(&r.Preset, s) },
		"on-duplicate":     func(s string) error { return scalar(&r.OnDuplicate, s) },
		"upstream-timeout": func(s string) error { return scalar(&r.UpstreamTimeout, s) },
		"key":              func(s string) error { return list(&r.Key, s) },
		"soft-fail":        func(s string) error { return list(&r.SoftFail, s) },
	} {
		if v := values[name]; v != "" {
			if err := set(v); err != nil {
				return refusef("--%s: %v", name, err)
			}
		}
	}
	return nil
}

func scalar[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](dst **T, s string) error {
	v := new(T)
	if err := P(v).UnmarshalText([]byte(s)); err != nil {
		return err
	}
	*dst = v
	return nil
}

func list[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](dst *[]T, s string) error {
	*dst = nil
	for _, part := range splitList(s) {
		v := new(T)
		if err := P(v).UnmarshalText([]byte(part)); err != nil {
			return err
		}
		*dst = append(*dst, *v)
	}
	return nil
}

func splitList(s string) (parts []string) {
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// parse checks what is not about the rules.
func (c *gatewayConfig) parse(values map[string]string) error {
	for _, l := range []struct{ flag, address string }{{"--listen", c.listen}, {"--admin-listen", c.admin}} {
		if _, _, err := net.SplitHostPort(l.address); err != nil {
			return refusef("%s %s: use host:port, as in 127.0.0.1:4780", l.flag, quote(l.address))
		}
	}
	c.endpoints = splitList(values["endpoints"])
	if len(c.endpoints) == 0 {
		c.endpoints = []string{defaultEndpoint}
	}
	if name := values["token-file"]; name != "" {
		b, err := os.ReadFile(name)
		if err != nil {
			return refusef("--token-file %s: %v", name, rootCause(err))
		}
		if c.token = strings.TrimSpace(string(b)); c.token == "" {
			return refusef("--token-file %s: the file is empty", name)
		}
	}
	var err error
	if c.drainDelay, err = time.ParseDuration(values["drain-delay"]); err != nil || c.drainDelay < 0 || c.drainDelay > time.Minute {
		return refusef("--drain-delay %s: use a duration from 0s to 1m", quote(values["drain-delay"]))
	}
	switch level := values["log-level"]; level {
	case "debug", "info", "warn", "error":
		_ = c.logLevel.UnmarshalText([]byte(level))
	default:
		return refusef("--log-level %s: use debug, info, warn or error", quote(level))
	}
	switch format := values["log-format"]; format {
	case "text":
	case "json":
		c.logJSON = true
	default:
		return refusef("--log-format %s: use text or json", quote(format))
	}
	return nil
}

// client makes the client of the configuration.
func (c *gatewayConfig) client(logger *slog.Logger) (*client.Client, error) {
	cl, err := client.New(client.WithEndpoints(c.endpoints...), client.WithToken(c.token), client.WithLogger(logger))
	if err != nil {
		return nil, refusef("--endpoints or --token-file: %v", err)
	}
	return cl, nil
}

// describe says in a few words what the rules guard.
func describeRules(rules []gateway.Rule) string {
	parts := make([]string, len(rules))
	for i, r := range rules {
		path := r.Path
		if path == "" {
			path = "/*"
		}
		parts[i] = fmt.Sprintf("%s -> %s (%s)", path, r.Upstream, r.OnDuplicate)
	}
	return strings.Join(parts, ", ")
}
