package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The hoox flow, step by step: the gateway's process, the exchange's process and
// three nodes. What its preset adds and refuses is in gateway/trading_test.go.
func TestHooxFlow(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "--preset", "trading-webhook")
	filled := func(key string) int { return fills(t, f.ledger)[key] }
	is := func(a sent, status int, code string) sent {
		t.Helper()
		if a.err != nil || a.status != status || a.code != code {
			t.Fatalf("%+v, want %d %s", a, status, code)
		}
		return a
	}
	ctx := t.Context()

	// Reserved, committed; a webhook retry does not double-dispatch, on either
	// gateway.
	is(f.send(ctx, 0, webhookBody("alert-0001", "ok")), 200, "")
	is(f.send(ctx, 0, webhookBody("alert-0001", "ok")), 409, "idempotency_duplicate")
	is(f.send(ctx, 1, webhookBody("alert-0001", "ok")), 409, "idempotency_duplicate")

	// Concurrent duplicates: one dispatch, 409 for the others.
	var wg sync.WaitGroup
	answers := make(chan sent, 20)
	for i := range 20 {
		wg.Go(func() { answers <- f.send(ctx, i%2, webhookBody("alert-0002", "ok")) })
	}
	wg.Wait()
	close(answers)
	won := 0
	for a := range answers {
		if a.status == 200 {
			won++
		} else if a.status != 409 {
			t.Errorf("%+v", a)
		}
	}
	if won != 1 || filled("alert-0002") != 1 {
		t.Errorf("%d winners, %d fills", won, filled("alert-0002"))
	}

	// The order filled, the connection dropped: no double fill, and it shows.
	is(f.send(ctx, 0, webhookBody("alert-0003", "cut")), 502, "idempotency_uncertain")
	is(f.send(ctx, 1, webhookBody("alert-0003", "cut")), 409, "idempotency_in_flight")

	// success:false in a 2xx releases; a retry reserves again.
	for range 2 {
		is(f.send(ctx, 0, webhookBody("alert-0004", "soft")), 200, "")
	}
	is(f.send(ctx, 1, webhookBody("alert-0004", "soft")), 200, "")
	is(f.send(ctx, 0, webhookBody("alert-0004", "soft")), 409, "idempotency_duplicate")

	// Cold start: everything stops and starts, and the check goes on.
	f.stopAll()
	is(f.send(ctx, 0, webhookBody("alert-0005", "ok")), 503, "idempotency_unavailable") // fail closed
	f.startAll()
	f.awaitReady(0, 1, 2)
	is(f.send(ctx, 1, webhookBody("alert-0001", "ok")), 409, "idempotency_duplicate")
	is(f.send(ctx, 1, webhookBody("alert-0003", "cut")), 409, "idempotency_in_flight")
	is(f.send(ctx, 1, webhookBody("alert-0005", "ok")), 200, "")
	for _, key := range []string{"alert-0001", "alert-0002", "alert-0003", "alert-0004", "alert-0005"} {
		if n := filled(key); n != 1 {
			t.Errorf("%s: %d fills", key, n)
		}
	}
}

// SIGHUP: other rules from then on; a bad file is refused with line and reason,
// and the old rules stay.
func TestGatewayReload(t *testing.T) {
	t.Parallel()
	n := dev(t)
	base := freeBlock(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	startExchange(t, ledger, address(base+20))
	file := filepath.Join(t.TempDir(), "gateway.toml")
	write := func(text string) {
		t.Helper()
		text = fmt.Sprintf("listen = %q\nadmin-listen = %q\nendpoints = [%q]\nupstream = %q\n", address(base), address(base+1), "http://"+address(n.port[0]), "http://"+address(base+20)) + text
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[[routes]]\npath = \"/a\"\n")
	p := startProcess(t, "gateway", "gateway", "--config", file)
	eventually(t, "the gateway runs", func() bool { return strings.Contains(p.stdout.String(), "gateway on") })
	status := func(path string) int {
		req, _ := http.NewRequest("POST", "http://"+address(base)+path, strings.NewReader("{}"))
		res, err := n.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	hup := func(log string) {
		t.Helper()
		p.signal(syscall.SIGHUP)
		eventually(t, "the log says: "+log, func() bool { return strings.Contains(p.stderr.String(), log) })
	}
	if a, b := status("/a"), status("/b"); a != 400 || b != 404 { // no key; no route
		t.Fatalf("%d, %d", a, b)
	}
	write("[[routes]]\npath = \"/b\"\n")
	hup("reloaded")
	if a, b := status("/a"), status("/b"); a != 404 || b != 400 {
		t.Errorf("after the reload: %d, %d", a, b)
	}
	for bad, reason := range map[string]string{
		"[[routes]]\npath = \"/c\"\nmetods = [\"POST\"]\n":                          `line 7: unknown key \"routes.metods\"`,
		"[[routes]]\npath = \"/c\"\n\n[[routes]]\npath = \"/d\"\nwait = \"soon\"\n": `line 10: \"soon\" is not a duration`,
		"[[routes]]\npath = \"/c\"\n\n[[routes]]\npath = \"/c\"\n":                  "line 8: path /c: another rule has it already",
		"[[routes]]\npath = \"/c\"\npath = \"/d\"\n":                                "line 7: ",
		"[[routes]]\npath = \"/c\"\nnamespace = \"nowhere\"\n":                      "onced ns set nowhere",
	} {
		write(bad)
		before := strings.Count(p.stderr.String(), "reload refused, the old rules stay")
		p.signal(syscall.SIGHUP)
		eventually(t, "the bad file is refused", func() bool {
			return strings.Count(p.stderr.String(), "reload refused, the old rules stay") > before
		})
		if log := p.stderr.String(); !strings.Contains(log, reason) {
			t.Errorf("no %q in\n%s", reason, log)
		}
		if b, c := status("/b"), status("/c"); b != 400 || c != 404 {
			t.Errorf("after a refused reload: %d, %d", b, c)
		}
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	if len(fills(t, ledger)) != 0 {
		t.Error("filled")
	}
}

// A start that cannot work is refused with the command or the flag that mends
// it.
func TestGatewayRefusesToStart(t *testing.T) {
	t.Parallel()
	n := dev(t)
	n.policy("strictly", `{"preset":"gateway"}`)
	endpoint := "http://" + address(n.port[0])
	for want, args := range map[string][]string{
		"Set --upstream": {},
		"onced ns set strictly --on-duplicate replay": {"--upstream", "http://127.0.0.1:1", "--namespace", "strictly"},
		"onced ns set nowhere":                        {"--upstream", "http://127.0.0.1:1", "--namespace", "nowhere"},
		"--key":                                       {"--upstream", "http://127.0.0.1:1", "--key", "cookie:x"},
		"--soft-fail":                                 {"--upstream", "http://127.0.0.1:1", "--soft-fail", "success"},
		"--on-duplicate":                              {"--upstream", "http://127.0.0.1:1", "--on-duplicate", "maybe"},
		"--upstream:":                                 {"--upstream", "127.0.0.1:1"},
		"--token-file":                                {"--upstream", "http://127.0.0.1:1", "--token-file", "/no/such/file"},
		"--listen":                                    {"--upstream", "http://127.0.0.1:1", "--listen", address(n.port[0])},
	} {
		p := startProcess(t, "gateway", append([]string{"gateway", "--endpoints", endpoint}, args...)...)
		if code := p.exit(); code != 78 || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%v: exit %d, %s", args, code, p.stderr.String())
		}
	}
}
