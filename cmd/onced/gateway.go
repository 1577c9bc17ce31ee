package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/onced/onced/gateway"
)

const (
	// gatewayDrain is how long requests that are under way may take to end.
	gatewayDrain = 40 * time.Second
	// firstCheck is how long a start waits for the cluster's word on the rules.
	firstCheck = 3 * time.Second
)

func (a *app) gatewayCommand() *cobra.Command {
	var configFile string
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Guard an HTTP service: each request with a key has its effect once",
		Long: `Guard an HTTP service: each request with a key has its effect once, and whoever
sends it again is given the first answer. The service needs no change.

When the cluster does not decide, the answer is 503 and the service is not
called. A time-out or a broken connection after the request was sent leaves the
key uncertain: it is not sent again until somebody says what happened, with
onced resolve.

The flags are for one route; --config names a TOML file with [[routes]]. SIGHUP
reads that file again: a bad one is refused with its line, and the old rules
stay. SIGTERM: /readyz answers 503 for --drain-delay, then the requests under
way end, and it exits 0.`,
		Example: `  onced gateway --upstream http://127.0.0.1:8080
  onced gateway --upstream http://127.0.0.1:8080 --preset trading-webhook --namespace trading
  onced gateway --upstream http://127.0.0.1:8080 --key header:Idempotency-Key,body:/id --on-duplicate wait
  onced gateway --config gateway.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (*gatewayConfig, []string, error) { return a.loadGateway(cmd, configFile) }
			c, warnings, err := load()
			if err != nil {
				return err
			}
			logger := newLogger(a.stderr, c.logLevel, c.logJSON)
			for _, w := range warnings {
				logger.Warn(w)
			}
			g := &gatewayProcess{app: a, logger: logger, load: load, admin: newGatewayAdmin()}
			return g.serve(cmd.Context(), c)
		},
	}
	addSettingFlags(cmd, gatewaySettings)
	cmd.Flags().StringVar(&configFile, "config", "", "TOML file with the same keys as the flags, and [[routes]]")
	return cmd
}

// gatewayProcess is a gateway that runs.
type gatewayProcess struct {
	*app
	logger *slog.Logger
	load   func() (*gatewayConfig, []string, error)
	guard  *gateway.Guard
	admin  *gatewayAdmin
}

// serve runs the gateway until ctx ends, and then stops it in good order.
func (g *gatewayProcess) serve(ctx context.Context, c *gatewayConfig) error {
	cl, err := c.client(g.logger)
	if err != nil {
		return err
	}
	defer cl.Close()
	g.guard, err = gateway.New(gateway.Config{Client: cl, Rules: c.rules, Logger: g.logger, Observe: g.admin.observe})
	if err != nil {
		return c.ruleError(err)
	}
	g.admin.guard = g.guard
	if err := g.check(ctx, c.rules); err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	public, err := listenOn("--listen", c.listen)
	if err != nil {
		return err
	}
	private, err := listenOn("--admin-listen", c.admin)
	if err != nil {
		public.Close()
		return err
	}
	errorLog := slog.NewLogLogger(g.logger.Handler(), slog.LevelDebug)
	server := &http.Server{
		Handler: g.closing(g.guard.Proxy()), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 60 * time.Second,
		MaxHeaderBytes: 64 << 10, ErrorLog: errorLog,
	}
	admin := &http.Server{Handler: g.admin.handler(), ReadHeaderTimeout: 5 * time.Second, ErrorLog: errorLog}
	failed := make(chan error, 2)
	for s, l := range map[*http.Server]net.Listener{server: public, admin: private} {
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	fmt.Fprintf(g.stdout, "onced %s: gateway on %s, admin on %s: %s\n", buildVersion(), public.Addr(), private.Addr(), describeRules(c.rules))
	for {
		select {
		case <-hangups:
			g.reload(ctx, c)
		case err := <-failed:
			server.Close()
			admin.Close()
			return &exitError{exitInternal, fmt.Sprintf("the gateway stopped: %v", err), ""}
		case <-ctx.Done():
			return g.stop(server, admin, c.drainDelay)
		}
	}
}

func listenOn(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, busy(flag, address, err)
	}
	return l, nil
}

// check asks the cluster whether the rules can work. One that does not answer is
// no reason not to start: requests are refused until it does, and /readyz says
// so.
func (g *gatewayProcess) check(ctx context.Context, rules []gateway.Rule) error {
	ctx, cancel := context.WithTimeout(ctx, firstCheck)
	defer cancel()
	err := g.guard.CheckRules(ctx, rules)
	if policy, ok := errors.AsType[*gateway.PolicyError](err); ok {
		return &exitError{exitRefused, "namespace " + policy.Namespace + " " + policy.Problem, "set it with: " + policy.Command}
	}
	if err != nil {
		g.logger.Warn("the cluster does not answer: requests are refused until it does", "cause", err)
	}
	return nil
}

// reload puts the rules of the file into force, or says why not and keeps the
// old ones.
func (g *gatewayProcess) reload(ctx context.Context, old *gatewayConfig) {
	c, _, err := g.load()
	if err == nil {
		if _, err = g.checked(c); err == nil {
			err = g.check(ctx, c.rules)
		}
	}
	if err == nil {
		if err = g.guard.SetRules(c.rules); err != nil {
			err = c.ruleError(err)
		}
	}
	if err != nil {
		g.admin.reloads.WithLabelValues("refused").Inc()
		hint := ""
		if e, ok := errors.AsType[*exitError](err); ok {
			hint = e.hint
		}
		g.logger.Error("reload refused, the old rules stay", "reason", err, "hint", hint)
		return
	}
	g.admin.reloads.WithLabelValues("ok").Inc()
	if c.listen != old.listen || c.admin != old.admin || c.token != old.token || fmt.Sprint(c.endpoints) != fmt.Sprint(old.endpoints) {
		g.logger.Warn("listen, admin-listen, endpoints and token-file are taken at a start only")
	}
	g.logger.Info("reloaded", "rules", describeRules(c.rules))
}

// checked holds the rules against themselves, before the cluster is asked.
func (g *gatewayProcess) checked(c *gatewayConfig) (*gateway.Guard, error) {
	cl, err := c.client(g.logger)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	guard, err := gateway.New(gateway.Config{Client: cl, Rules: c.rules})
	if err != nil {
		return nil, c.ruleError(err)
	}
	return guard, nil
}

// closing closes connections after their answer once the gateway is going, so
// that nobody meets a closed port (drain.go).
func (g *gatewayProcess) closing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.admin.going.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// stop lets the requests that are under way end, and be settled.
func (g *gatewayProcess) stop(server, admin *http.Server, delay time.Duration) error {
	g.admin.going.Store(true)
	g.logger.Info("stopping: not ready from now on, serving for the drain delay", "delay", delay)
	timer := time.NewTimer(delay)
	<-timer.C
	ctx, cancel := context.WithTimeout(context.Background(), gatewayDrain)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		err = g.guard.Wait(ctx)
	}
	admin.Close()
	if err != nil {
		server.Close()
		return &exitError{exitInternal, fmt.Sprintf("stopped, but not cleanly: requests were under way after %s; their keys become uncertain", gatewayDrain), ""}
	}
	g.logger.Info("stopped")
	return nil
}
