package chaos

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Fill is an effect in the outside world: the exchange filled an order.
type Fill struct {
	ID      int    `json:"id"`
	NS      string `json:"ns"`
	Key     string `json:"key"`
	Attempt string `json:"attemptId"`
	Token   string `json:"token"`
}

// ServeLedger is the exchange, in a process of its own so that nothing that
// happens to nodes or gateways touches it. It fills whatever it is asked to:
// it is a witness, not a guard. A fill is on disk before it is answered.
// POST / fills, GET /?ns=&key= gives the fills of a key. It serves until ctx
// ends.
func ServeLedger(ctx context.Context, l net.Listener, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := ReadLedger(path)
	if err != nil {
		return err
	}
	s := &ledgerServer{file: f, byKey: map[string][]Fill{}, next: len(old)}
	for _, fill := range old {
		s.byKey[fill.NS+"/"+fill.Key] = append(s.byKey[fill.NS+"/"+fill.Key], fill)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type ledgerServer struct {
	file *os.File

	fillsMu sync.Mutex // guards the two below, and the order of the file
	byKey   map[string][]Fill
	next    int
}

func (s *ledgerServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.fillsMu.Lock()
	defer s.fillsMu.Unlock()
	if r.Method == http.MethodGet {
		q := r.URL.Query()
		_ = json.MarshalWrite(w, s.byKey[q.Get("ns")+"/"+q.Get("key")])
		return
	}
	var f Fill
	if err := json.UnmarshalRead(r.Body, &f); err != nil || f.Key == "" {
		http.Error(w, "a fill names its key", http.StatusBadRequest)
		return
	}
	s.next++
	f.ID = s.next
	line, err := json.Marshal(f)
	if err == nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.byKey[f.NS+"/"+f.Key] = append(s.byKey[f.NS+"/"+f.Key], f)
	_, _ = w.Write(line)
}

// ReadLedger gives the fills of a ledger's file, in order.
func ReadLedger(path string) ([]Fill, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var fills []Fill
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var f Fill
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(fills)+1, err)
		}
		fills = append(fills, f)
	}
	return fills, lines.Err()
}

// exchange is the gateways' way to the ledger.
type exchange struct {
	url  string
	http *http.Client
}

func newExchange(address string) *exchange {
	return &exchange{"http://" + address, &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
}

// fill has an order filled. It is called once per granted attempt.
func (e *exchange) fill(ctx context.Context, f Fill) (Fill, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return f, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, struct{ io.Reader }{bytes.NewReader(b)})
	if err != nil {
		return f, err
	}
	res, err := e.http.Do(req)
	if err != nil {
		return f, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return f, fmt.Errorf("the exchange answered %d", res.StatusCode)
	}
	return f, json.UnmarshalRead(res.Body, &f)
}

// look gives the fills of a key.
func (e *exchange) look(ctx context.Context, ns, key string) (fills []Fill, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/?ns="+ns+"&key="+key, nil)
	if err != nil {
		return nil, err
	}
	res, err := e.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return fills, json.UnmarshalRead(res.Body, &fills)
}
