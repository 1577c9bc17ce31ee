package e2e

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// The fake exchange is this test binary again, told by these variables.
const (
	exchangeLedger = "E2E_EXCHANGE_LEDGER"
	exchangeListen = "E2E_EXCHANGE_LISTEN"
)

// webhook is an order as the exchange reads it.
type webhook struct {
	Key      string `json:"idempotencyKey"`
	Exchange string `json:"exchange"`
	Plan     string `json:"plan"` // what goes wrong
}

// TestGatewayExchangeProcess is no test: it is the exchange's own process, which
// fills orders into an append-only ledger, each synced before its answer.
func TestGatewayExchangeProcess(t *testing.T) {
	path := os.Getenv(exchangeLedger)
	if path == "" {
		return // nothing was asked of it
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", os.Getenv(exchangeListen))
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{file: file, soft: map[string]int{}}
	fmt.Println("exchange ready")
	_ = http.Serve(l, x)
}

type exchange struct {
	mu   sync.Mutex // guards all below
	file *os.File
	soft map[string]int
}

func (x *exchange) fill(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, err := fmt.Fprintln(x.file, key); err != nil {
		panic(err)
	}
	if err := syscall.Fdatasync(int(x.file.Fd())); err != nil {
		panic(err)
	}
}

func (x *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order webhook
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &order)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	hang := func() {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	switch order.Plan {
	case "soft": // fails softly twice, then fills
		x.mu.Lock()
		x.soft[order.Key]++
		n := x.soft[order.Key]
		x.mu.Unlock()
		if n <= 2 {
			fmt.Fprintf(w, `{"success":false,"try":%d}`, n)
			return
		}
	case "cut": // fills, and the connection breaks before a byte of the answer
		x.fill(order.Key)
		panic(http.ErrAbortHandler)
	case "half": // fills, and breaks inside the answer
		x.fill(order.Key)
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
		panic(http.ErrAbortHandler)
	case "slow": // fills, and never answers
		x.fill(order.Key)
		hang()
	case "lost": // does not fill, and never answers
		hang()
	case "chunked":
		x.fill(order.Key)
		fmt.Fprintf(w, `{"success":true,`)
		_ = http.NewResponseController(w).Flush()
		fmt.Fprintf(w, `"fill":%q}`, order.Key)
		return
	}
	x.fill(order.Key)
	raw := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())) // no two answers are the same by chance
	fmt.Fprintf(w, `{"success":true,"fill":%q,"id":"%x"}`, order.Key, raw)
}

// startExchange starts the exchange's process on a port.
func startExchange(t testing.TB, ledger, listen string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestGatewayExchangeProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), exchangeLedger+"="+ledger, exchangeListen+"="+listen)
	cmd.SysProcAttr = ownProcess()
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("exchange: %s", out.tail())
		}
	})
	eventually(t, "the exchange is ready", func() bool { return strings.Contains(out.String(), "exchange ready") })
}

// fills counts the lines of the ledger by key.
func fills(t testing.TB, ledger string) map[string]int {
	t.Helper()
	f, err := os.Open(ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		n[s.Text()]++
	}
	return n
}
