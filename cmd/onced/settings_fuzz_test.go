package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever stands in the file, the environment and a flag: a configuration, or
// one sentence and exit code 78; and a configuration that is taken is taken
// again when it is written down.
func FuzzSettings(f *testing.F) {
	f.Add("node-id = \"n1\"\ndata-dir = \"d\"\n", "ONCED_LOG_LEVEL", "debug", "127.0.0.1:4747")
	f.Add("cluster = [\"n1=127.0.0.1:4748\", \"n2=127.0.0.1:4758\"]\ndata-dir = \"d\"", "ONCED_DRAIN_DELAY", "5s", "[::1]:1")
	f.Add("data-dir = 7\ninsecure = true\n[node-id]\na = 1", "ONCED_INSECURE", "yes", "0.0.0.0:4747")
	f.Add("raft-multiplier = 1e3\nnode_id = \"x\"", "ONCED_CLUSTER", "n1=,=,n2", ":")
	f.Add("data-dir = \"\\u0000\"\nhttp-advertise = \"https://[::1%25a]:1/\"", "ONCED_", "=", "localhost:http")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, toml, name, value, address string) {
		file := filepath.Join(dir, "onced.toml")
		if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
		load := func(environ []string, args ...string) (map[string]string, error) {
			cmd := (&app{}).serverCommand()
			if err := cmd.ParseFlags(args); err != nil {
				t.Fatal(err)
			}
			values, _, err := loadSettings(cmd, serverSettings, file, environ)
			if err == nil {
				_, err = parseServerConfig(values)
			}
			if e, ok := errors.AsType[*exitError](err); err != nil && (!ok || e.code != exitRefused || e.msg == "") {
				t.Fatalf("refused with %#v", err)
			}
			return values, err
		}
		values, err := load([]string{name + "=" + value}, "--http-addr="+address)
		if err != nil {
			return
		}
		var args []string
		for name, value := range values {
			args = append(args, "--"+name+"="+value)
		}
		again, err := load(nil, args...)
		if err != nil {
			t.Fatalf("taken once as %q, then refused: %v", values, err)
		}
		for name, value := range values {
			if again[name] != value && strings.TrimSpace(again[name]) != strings.TrimSpace(value) {
				t.Errorf("%s was %q, is %q", name, value, again[name])
			}
		}
	})
}
