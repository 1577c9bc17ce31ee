// Command middleware is a small service whose POST /orders is guarded: the same
// Idempotency-Key gets the same answer, and the order is placed once.
//
//	onced dev
//	go run ./examples/middleware
//	curl -i http://127.0.0.1:8080/orders -H 'Idempotency-Key: order-0001' -d '{"amount":10}'
//
// With -plain it is not guarded: put a gateway before it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onced/onced/client"
	"github.com/onced/onced/gateway"
)

func main() {
	endpoints := flag.String("endpoints", client.DefaultEndpoint, "nodes of the cluster, comma-separated")
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	plain := flag.Bool("plain", false, "serve without the middleware")
	flag.Parse()

	c, err := client.New(client.WithEndpoints(strings.Split(*endpoints, ",")...))
	if err != nil {
		log.Fatal(err)
	}
	guard, err := gateway.New(gateway.Config{Client: c, Rules: []gateway.Rule{{Path: "/orders"}}})
	if err != nil {
		log.Fatal(err)
	}

	var placed atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"order":%d}`+"\n", placed.Add(1))
	})
	mux.HandleFunc("GET /placed", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, placed.Load()) })

	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	server := &http.Server{Handler: guard.Middleware(mux), ReadHeaderTimeout: 5 * time.Second}
	if *plain {
		server.Handler = mux
	}
	stop, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	// What was answered before it could be recorded is recorded now.
	late, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := guard.Wait(late); err != nil {
		log.Fatal(err)
	}
}
