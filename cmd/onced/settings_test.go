package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// load runs loadSettings as server does, on a command line of its own.
func load(t *testing.T, fileText string, environ, args []string) (map[string]string, []string, error) {
	t.Helper()
	path := ""
	if fileText != "" {
		path = filepath.Join(t.TempDir(), "onced.toml")
		if err := os.WriteFile(path, []byte(fileText), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := &cobra.Command{Use: "server"}
	addSettingFlags(cmd, serverSettings)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return loadSettings(cmd, serverSettings, path, environ)
}

func TestSettingsPrecedence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, file string
		environ    []string
		args       []string
		want       string
	}{
		{"default", "", nil, nil, "5s"},
		{"file over default", `request-timeout = "6s"`, nil, nil, "6s"},
		{"environment over default", "", []string{"ONCED_REQUEST_TIMEOUT=7s"}, nil, "7s"},
		{"environment over file", `request-timeout = "6s"`, []string{"ONCED_REQUEST_TIMEOUT=7s"}, nil, "7s"},
		{"flag over environment", "", []string{"ONCED_REQUEST_TIMEOUT=7s"}, []string{"--request-timeout", "8s"}, "8s"},
		{"flag over file", `request-timeout = "6s"`, nil, []string{"--request-timeout", "8s"}, "8s"},
		{"flag over all", `request-timeout = "6s"`, []string{"ONCED_REQUEST_TIMEOUT=7s"}, []string{"--request-timeout", "8s"}, "8s"},
		{"flag at its default over all", `request-timeout = "6s"`, []string{"ONCED_REQUEST_TIMEOUT=7s"}, []string{"--request-timeout", "5s"}, "5s"},
		{"empty variable is unset", `request-timeout = "6s"`, []string{"ONCED_REQUEST_TIMEOUT="}, nil, "6s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			values, warnings, err := load(t, tc.file, tc.environ, tc.args)
			if err != nil || len(warnings) != 0 {
				t.Fatal(err, warnings)
			}
			if got := values["request-timeout"]; got != tc.want {
				t.Errorf("request-timeout = %s, want %s", got, tc.want)
			}
		})
	}
}

// Every setting has its flag, its variable and its key.
func TestSettingsEverySource(t *testing.T) {
	t.Parallel()
	for _, s := range serverSettings {
		value := "x1"
		if s.isBool {
			value = "true"
		}
		for _, source := range []struct {
			name, file    string
			environ, args []string
		}{
			{"file", s.name + ` = "` + value + `"`, nil, nil},
			{"environment", "", []string{"ONCED_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_")) + "=" + value}, nil},
			{"flag", "", nil, []string{"--" + s.name + "=" + value}},
		} {
			values, warnings, err := load(t, source.file, source.environ, source.args)
			if err != nil || len(warnings) != 0 || values[s.name] != value {
				t.Errorf("%s by %s: got %q, warnings %q, error %v", s.name, source.name, values[s.name], warnings, err)
			}
		}
	}
}

func TestSettingsTypesOfTheFile(t *testing.T) {
	t.Parallel()
	values, _, err := load(t, "raft-multiplier = 3\ninsecure = true\ncluster = [\"n1=a:1\", \"n2=b:2\"]\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{values["raft-multiplier"], values["insecure"], values["cluster"]}
	if diff := cmp.Diff([]string{"3", "true", "n1=a:1,n2=b:2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsUnknown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, message, hint string }{
		{`node_id = "n1"`, `unknown key "node_id"`, "did you mean: node-id"},
		{`http-adr = "127.0.0.1:1"`, `unknown key "http-adr"`, "did you mean: http-addr"},
		{`colour = "red"`, `unknown key "colour"`, "onced server --help"},
		{"[cluster]\nn1 = \"a:1\"", `unknown key "cluster.n1"`, ""},
		{`node-id = `, "onced.toml", ""},
	} {
		_, _, err := load(t, tc.file, nil, nil)
		e, ok := err.(*exitError)
		if !ok || e.code != exitRefused || !strings.Contains(e.msg, tc.message) || !strings.Contains(e.hint, tc.hint) {
			t.Errorf("%s: got %+v", tc.file, err)
		}
	}
	if _, _, err := loadSettings(&cobra.Command{}, nil, filepath.Join(t.TempDir(), "absent.toml"), nil); err == nil {
		t.Error("an absent --config file is no error")
	}

	// Orchestrators inject variables: a warning, never an error.
	_, warnings, err := load(t, "", []string{"ONCED_SERVICE_HOST=10.0.0.1", "ONCED_NODEID=n1", "ONCED_ENDPOINTS=http://a:1", "ONCED_node_id=n7", "HOME=/"}, nil)
	want := []string{
		"unknown environment variable ONCED_NODEID is ignored; did you mean ONCED_NODE_ID?",
		"unknown environment variable ONCED_SERVICE_HOST is ignored",
		"unknown environment variable ONCED_node_id is ignored; did you mean ONCED_NODE_ID?",
	}
	if diff := cmp.Diff(want, warnings); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
