package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
)

// setting is one thing that server can be told: by its flag, by ONCED_ and the
// flag's name in capitals with _ for -, or by a key of the same name as the
// flag in the --config file. The flag wins over the environment, the
// environment over the file, the file over the default.
type setting struct {
	name   string
	value  string // default
	isBool bool   // a switch: true or false
	usage  string
}

var serverSettings = []setting{
	{name: "node-id", value: "n1", usage: "name of this node, for ever; it must be in --cluster"},
	{name: "data-dir", usage: "directory of this node's data (required)"},
	{name: "http-addr", value: "127.0.0.1:4747", usage: "host:port to serve the HTTP API on"},
	{name: "peer-addr", value: "127.0.0.1:4748", usage: "host:port to serve the other nodes on"},
	{name: "http-advertise", usage: "host:port or URL that clients reach the HTTP API at (default: --http-addr)"},
	{name: "peer-advertise", usage: "host:port that the other nodes reach this one at (default: its entry in --cluster, or --peer-addr)"},
	{name: "cluster", usage: "all nodes of the cluster, the same on each: n1=host:peerport,n2=host:peerport,... (default: this node alone)"},
	{name: "raft-multiplier", value: "2", usage: "1 to 10: times the base timeouts of 200 ms; higher for slow networks"},
	{name: "log-store", value: "bolt", usage: "bolt or wal: where the log is kept; wal needs half the syncs; the one of the first start stays"},
	{name: "snapshot-threshold", value: "32768", usage: "log entries between snapshots"},
	{name: "request-timeout", value: "5s", usage: "a call is decided within this, or answers 503"},
	{name: "drain-delay", value: "1s", usage: "at a stop, serve on for this long while /readyz answers 503; longer than load balancers take to notice"},
	{name: "log-level", value: "info", usage: "debug, info, warn or error"},
	{name: "log-format", value: "text", usage: "text or json"},
	{name: "insecure", value: "false", isBool: true, usage: "serve on more than loopback without authentication: only on a network whose every host is trusted"},
}

const envPrefix = "ONCED_"

// clientVariables are ONCED_ variables that are no server settings.
var clientVariables = []string{"ONCED_ENDPOINTS", "ONCED_CONFIG"}

// envName gives the environment variable of a setting.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func addSettingFlags(cmd *cobra.Command, settings []setting) {
	cmd.Flags().SortFlags = false
	for _, s := range settings {
		if s.isBool {
			cmd.Flags().Bool(s.name, s.value == "true", s.usage)
			continue
		}
		cmd.Flags().String(s.name, s.value, s.usage)
	}
}

// loadSettings puts together flags, environment and file. Warnings are
// sentences about ONCED_ variables that mean nothing here: orchestrators
// inject such, so they are no error.
func loadSettings(cmd *cobra.Command, settings []setting, configFile string, environ []string) (values map[string]string, warnings []string, err error) {
	known := map[string]bool{}
	names := make([]string, 0, len(settings))
	for _, s := range settings {
		known[s.name] = true
		names = append(names, s.name)
	}
	k := koanf.New(".")
	if configFile != "" {
		if err := k.Load(file.Provider(configFile), toml.Parser()); err != nil {
			return nil, nil, refusef("--config %s: %v", configFile, err)
		}
		for _, key := range k.Keys() {
			if known[key] {
				continue
			}
			msg := fmt.Sprintf("--config %s: unknown key %s", configFile, quote(key))
			if near := nearest(key, names); near != "" {
				return nil, nil, &exitError{exitRefused, msg, "did you mean: " + near}
			}
			return nil, nil, &exitError{exitRefused, msg, "the keys are the flags of: onced server --help"}
		}
		if list, ok := k.Get("cluster").([]any); ok {
			parts := make([]string, len(list))
			for i, m := range list {
				parts[i] = fmt.Sprint(m)
			}
			if err := k.Set("cluster", strings.Join(parts, ",")); err != nil {
				return nil, nil, refusef("--config %s: cluster: %v", configFile, err)
			}
		}
	}
	if err := k.Load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-"))
			switch {
			case known[key] && name == envName(key):
				if value == "" { // as good as unset, as in most shells and orchestrators
					return "", nil
				}
				return key, value
			case slices.Contains(clientVariables, name):
				return "", nil
			}
			warning := "unknown environment variable " + name + " is ignored"
			if near := nearest(key, names); near != "" {
				warning += "; did you mean " + envName(near) + "?"
			}
			warnings = append(warnings, warning)
			return "", nil
		},
	}), nil); err != nil {
		return nil, nil, refusef("environment: %v", err)
	}
	sort.Strings(warnings)
	if err := k.Load(posflag.Provider(cmd.Flags(), ".", k), nil); err != nil {
		return nil, nil, refusef("flags: %v", err)
	}
	values = map[string]string{}
	for _, name := range names {
		values[name] = strings.TrimSpace(k.String(name))
	}
	return values, warnings, nil
}
