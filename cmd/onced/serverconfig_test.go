package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onced/onced/cluster"
)

// serverValues gives the defaults of all settings, changed by "name=value".
func serverValues(changes ...string) map[string]string {
	values := map[string]string{}
	for _, s := range serverSettings {
		values[s.name] = s.value
	}
	values["data-dir"] = "d"
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		values[name] = value
	}
	return values
}

func TestServerConfigRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, changes, message string }{
		{"no data", "data-dir=", "--data-dir"},
		{"multiplier 0", "raft-multiplier=0", "--raft-multiplier"},
		{"multiplier 11", "raft-multiplier=11", "--raft-multiplier"},
		{"multiplier word", "raft-multiplier=x", "--raft-multiplier"},
		{"log store", "log-store=boltdb", "--log-store"},
		{"threshold 0", "snapshot-threshold=0", "--snapshot-threshold"},
		{"threshold negative", "snapshot-threshold=-1", "--snapshot-threshold"},
		{"timeout", "request-timeout=5", "--request-timeout"},
		{"timeout 0", "request-timeout=0s", "--request-timeout"},
		{"level", "log-level=loud", "--log-level"},
		{"level with offset", "log-level=INFO+3", "--log-level"},
		{"format", "log-format=xml", "--log-format"},
		{"insecure", "insecure=maybe", "--insecure"},
		{"http address", "http-addr=4747", "--http-addr"},
		{"http port 0", "http-addr=127.0.0.1:0", "--http-addr"},
		{"peer port", "peer-addr=127.0.0.1:65536", "--peer-addr"},
		{"cluster word", "cluster=n1", "--cluster"},
		{"cluster port", "cluster=n1=127.0.0.1", "--cluster"},
		{"open http port", "http-addr=0.0.0.0:4747", "--http-addr 127.0.0.1:4747, or give --insecure"},
		{"open http port, all hosts", "http-addr=:4747", "--insecure"},
		{"open http port, a host", "http-addr=10.0.0.1:4747", "--insecure"},
		{"open peer port", "peer-addr=[::]:4748", "--peer-addr 127.0.0.1:4748, or give --insecure"},
		{"advertises all hosts", "http-addr=0.0.0.0:4747 insecure=true", "--http-advertise"},
		{"advertises all hosts by flag", "http-advertise=http://0.0.0.0:1", "--http-advertise"},
		{"peer advertises all hosts", "peer-addr=0.0.0.0:4748 insecure=true", "--peer-advertise"},
		{"peer advertises all hosts by flag", "peer-advertise=[::]:4748", "--peer-advertise"},
		{"peer advertise malformed", "peer-advertise=here", "--peer-advertise"},
		{"http advertise malformed", "http-advertise=ftp://a", "--http-advertise"},
		{"http advertise with path", "http-advertise=http://a/v1", "--http-advertise"},
		{"loopback told to another host", "cluster=n1=127.0.0.1:4748,n2=10.0.0.2:4748", "--peer-advertise"},
		{"loopback API told to another host", "insecure=true peer-addr=10.0.0.1:4748 cluster=n1=10.0.0.1:4748,n2=10.0.0.2:4748", "--http-advertise"},
		{"listens on loopback, listed elsewhere", "cluster=n1=10.0.0.1:4748,n2=10.0.0.2:4748", "--peer-addr 10.0.0.1:4748"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseServerConfig(serverValues(strings.Fields(tc.changes)...))
			e, ok := err.(*exitError)
			if !ok || e.code != exitRefused || !strings.Contains(e.msg+" "+e.hint, tc.message) {
				t.Errorf("got %#v, want exit 78 and %q", err, tc.message)
			}
		})
	}
}

func TestServerConfigAddresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, changes, http, peer string }{
		{"alone", "", "http://127.0.0.1:4747", "127.0.0.1:4748"},
		{"from the cluster list", "node-id=n2 insecure=true http-addr=0.0.0.0:4747 http-advertise=b.example:80 peer-addr=0.0.0.0:4748 cluster=n1=a.example:4748,n2=b.example:4748", "http://b.example:80", "b.example:4748"},
		{"by flag", "peer-advertise=n1.example:1 http-advertise=https://n1.example/", "https://n1.example", "n1.example:1"},
		{"loopback by name", "peer-addr=localhost:4748 cluster=n1=localhost:4748,n2=localhost:4758", "http://127.0.0.1:4747", "localhost:4748"},
	} {
		c, err := parseServerConfig(serverValues(strings.Fields(tc.changes)...))
		if err != nil || c.httpAdvertise != tc.http || c.peerAdvertise != tc.peer {
			t.Errorf("%s: %s and %s, %v; want %s and %s", tc.name, c.httpAdvertise, c.peerAdvertise, err, tc.http, tc.peer)
		}
	}
}

func TestParseMembers(t *testing.T) {
	t.Parallel()
	got, err := parseMembers(" n1=127.0.0.1:1, n2=host:2,,n3=[::1]:3 ")
	want := []cluster.Member{{ID: "n1", Address: "127.0.0.1:1"}, {ID: "n2", Address: "host:2"}, {ID: "n3", Address: "[::1]:3"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
