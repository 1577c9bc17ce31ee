// Command gatewaybench measures what a gateway adds to an upstream. In each
// round it asks, in turn: the upstream itself, the gateway for keys that are new
// (a first request), the gateway for the same keys again (a replay), and a node
// for a reserve and a commit. scripts/bench.sh gateway starts what it needs.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// kinds are what is measured, in the order of a round.
var kinds = []string{"upstream alone", "first request", "replay", "reserve and commit at a node"}

type bench struct {
	http     *http.Client
	upstream string
	gateway  string
	node     string
	clients  int
	per      int
}

func main() {
	log.SetFlags(0)
	onced := flag.String("onced", "bin/onced", "the binary")
	endpoints := flag.String("endpoints", "http://127.0.0.1:4747", "nodes, comma-separated")
	rounds := flag.Int("rounds", 5, "rounds")
	per := flag.Int("per", 300, "requests of each kind in a round")
	clients := flag.Int("clients", 1, "requests at a time")
	flag.Parse()
	if err := run(*onced, *endpoints, *rounds, *per, *clients); err != nil {
		log.Fatal("gatewaybench: ", err)
	}
}

func run(onced, endpoints string, rounds, per, clients int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, http.HandlerFunc(serveUpstream)) }()
	b := &bench{
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}},
		upstream: "http://" + l.Addr().String(), node: strings.Split(endpoints, ",")[0], clients: clients, per: per,
	}
	cmd := exec.Command(onced, "gateway", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--upstream", b.upstream,
		"--endpoints", endpoints, "--drain-delay", "0s", "--log-level", "error")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the gateway did not start: %w", err)
	}
	_, rest, _ := strings.Cut(line, "gateway on ")
	address, _, _ := strings.Cut(rest, ",")
	b.gateway = "http://" + address

	if _, err := b.round(-1); err != nil { // connections, caches
		return err
	}
	all := make([][]time.Duration, len(kinds))
	for r := range rounds {
		took, err := b.round(r)
		if err != nil {
			return err
		}
		for k := range kinds {
			all[k] = append(all[k], took[k]...)
		}
	}
	fmt.Printf("%d rounds of %d requests of each kind, %d at a time; milliseconds\n\n", rounds, per, clients)
	fmt.Printf("%-30s %8s %8s %8s %14s\n", "", "p50", "p90", "p99", "added to p50")
	bare := quantile(all[0], 0.5)
	for k, name := range kinds {
		added := ""
		if k == 1 || k == 2 {
			added = fmt.Sprintf("%+.2f", ms(quantile(all[k], 0.5)-bare))
		}
		fmt.Printf("%-30s %8.2f %8.2f %8.2f %14s\n", name, ms(quantile(all[k], 0.5)), ms(quantile(all[k], 0.9)), ms(quantile(all[k], 0.99)), added)
	}
	fmt.Printf("\nof what is added to a first request, %.2f is not the cluster's\n",
		ms(quantile(all[1], 0.5)-bare-quantile(all[3], 0.5)))
	return nil
}

func serveUpstream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"success":true,"order":"0123456789abcdef0123456789abcdef"}`))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(d []time.Duration, q float64) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[int(float64(len(s)-1)*q)]
}

// round asks each kind in turn and gives how long each request took.
func (b *bench) round(r int) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(kinds))
	calls := []func(key string) error{
		func(key string) error { return b.post(b.upstream+"/orders", key, "") },
		func(key string) error { return b.post(b.gateway+"/orders", key, "false") },
		func(key string) error { return b.post(b.gateway+"/orders", key, "true") },
		b.claim,
	}
	run := time.Now().UnixNano()
	for k, call := range calls {
		var mu sync.Mutex // guards next and failed
		next, failed := 0, error(nil)
		took[k] = make([]time.Duration, b.per)
		var wg sync.WaitGroup
		for range b.clients {
			wg.Go(func() {
				for {
					mu.Lock()
					n := next
					next++
					mu.Unlock()
					if n >= b.per {
						return
					}
					began := time.Now()
					err := call(fmt.Sprintf("bench-%d-%03d-%06d-%s", run, r+1, n, []string{"u", "g", "g", "n"}[k]))
					took[k][n] = time.Since(began)
					if err != nil {
						mu.Lock()
						failed = errors.Join(failed, fmt.Errorf("%s: %w", kinds[k], err))
						mu.Unlock()
						return
					}
				}
			})
		}
		wg.Wait()
		if failed != nil {
			return nil, failed
		}
	}
	return took, nil
}

func (b *bench) do(url, key, body string) (*http.Response, []byte, error) {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := b.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("answered %d %s", res.StatusCode, answer)
	}
	return res, answer, err
}

func (b *bench) post(url, key, replayed string) error {
	res, _, err := b.do(url, key, `{"amount":10,"currency":"EUR"}`)
	if err == nil && res.Header.Get("Idempotent-Replayed") != replayed {
		err = fmt.Errorf("Idempotent-Replayed is %q", res.Header.Get("Idempotent-Replayed"))
	}
	return err
}

// claim is what a gateway asks of the cluster for a first request.
func (b *bench) claim(key string) error {
	_, answer, err := b.do(b.node+"/v1/namespaces/default/reserve", "", `{"key":"`+key+`"}`)
	if err != nil {
		return err
	}
	var a idem.Answer
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	_, _, err = b.do(b.node+"/v1/namespaces/default/commit", "",
		`{"key":"`+key+`","token":"`+a.Token+`","response":{"status":200,"body":"0123456789abcdef0123456789abcdef"}}`)
	return err
}
