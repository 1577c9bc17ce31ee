package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onced/onced/cluster"
)

// serverConfig is what server runs on, checked.
type serverConfig struct {
	nodeID            string
	dataDir           string
	httpAddr          string // to listen on
	peerAddr          string
	httpAdvertise     string // base URL
	peerAdvertise     string // host:port
	members           []cluster.Member
	multiplier        int
	logStore          string
	snapshotThreshold uint64
	requestTimeout    time.Duration
	drainDelay        time.Duration
	logLevel          slog.Level
	logJSON           bool
}

// parseServerConfig checks values (by setting name). Each error names the flag
// to set, and is a refusal to start: exit code 78.
func parseServerConfig(values map[string]string) (serverConfig, error) {
	c := serverConfig{
		nodeID:   values["node-id"],
		dataDir:  values["data-dir"],
		httpAddr: values["http-addr"],
		peerAddr: values["peer-addr"],
	}
	if c.dataDir == "" {
		return c, refusef("where does this node keep its data? Set --data-dir, as in: --data-dir ./%s-data", c.nodeID)
	}
	var err error
	if c.members, err = parseMembers(values["cluster"]); err != nil {
		return c, err
	}
	if c.multiplier, err = strconv.Atoi(values["raft-multiplier"]); err != nil || c.multiplier < 1 || c.multiplier > 10 {
		return c, refusef("--raft-multiplier %s: use 1 to 10", quote(values["raft-multiplier"]))
	}
	switch c.logStore = values["log-store"]; c.logStore {
	case cluster.LogStoreBolt, cluster.LogStoreWAL:
	default:
		return c, refusef("--log-store %s: use bolt or wal", quote(c.logStore))
	}
	if c.snapshotThreshold, err = strconv.ParseUint(values["snapshot-threshold"], 10, 64); err != nil || c.snapshotThreshold == 0 {
		return c, refusef("--snapshot-threshold %s: use a number of log entries, 1 or more", quote(values["snapshot-threshold"]))
	}
	if c.requestTimeout, err = time.ParseDuration(values["request-timeout"]); err != nil || c.requestTimeout <= 0 {
		return c, refusef("--request-timeout %s: use a duration above zero, as in 5s or 500ms", quote(values["request-timeout"]))
	}
	if c.drainDelay, err = time.ParseDuration(values["drain-delay"]); err != nil || c.drainDelay < 0 || c.drainDelay > time.Minute {
		return c, refusef("--drain-delay %s: use a duration from 0s to 1m", quote(values["drain-delay"]))
	}
	switch level := values["log-level"]; level {
	case "debug", "info", "warn", "error":
		_ = c.logLevel.UnmarshalText([]byte(level))
	default:
		return c, refusef("--log-level %s: use debug, info, warn or error", quote(level))
	}
	switch format := values["log-format"]; format {
	case "text":
	case "json":
		c.logJSON = true
	default:
		return c, refusef("--log-format %s: use text or json", quote(format))
	}
	insecure, err := strconv.ParseBool(values["insecure"])
	if err != nil {
		return c, refusef("--insecure %s: use true or false", quote(values["insecure"]))
	}
	return c.withAddresses(values["http-advertise"], values["peer-advertise"], insecure)
}

// parseMembers reads the list of --cluster; "" gives none.
func parseMembers(list string) ([]cluster.Member, error) {
	var members []cluster.Member
	for _, part := range strings.Split(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		id, address, ok := strings.Cut(part, "=")
		if !ok {
			return nil, refusef("--cluster: %s is not ID=HOST:PEERPORT, as in n1=10.0.0.1:4748", quote(part))
		}
		if err := checkAddress(address); err != nil {
			return nil, refusef("--cluster: %s: %v", quote(part), err)
		}
		members = append(members, cluster.Member{ID: id, Address: address})
	}
	return members, nil
}

// withAddresses decides what the node listens on and what it tells others, and
// refuses what could not work or would open it to strangers.
func (c serverConfig) withAddresses(httpAdvertise, peerAdvertise string, insecure bool) (serverConfig, error) {
	for _, l := range []struct{ flag, address string }{{"--http-addr", c.httpAddr}, {"--peer-addr", c.peerAddr}} {
		if err := checkAddress(l.address); err != nil {
			return c, refusef("%s %s: %v", l.flag, quote(l.address), err)
		}
		if host, port, _ := net.SplitHostPort(l.address); !isLoopback(host) && !insecure {
			return c, &exitError{
				exitRefused,
				fmt.Sprintf("%s %s would let every host that reaches it reserve and commit keys: nothing here asks who is calling", l.flag, l.address),
				fmt.Sprintf("serve loopback only with %s 127.0.0.1:%s, or give --insecure if every host of that network is trusted", l.flag, port),
			}
		}
	}
	if peerAdvertise == "" {
		peerAdvertise = c.peerAddr
		for _, m := range c.members {
			if m.ID != c.nodeID {
				continue
			}
			peerAdvertise = m.Address
			if isLoopback(hostOf(c.peerAddr)) && !isLoopback(hostOf(m.Address)) {
				return c, refusef("--cluster has %s at %s, but it listens on %s only: set --peer-addr %s", m.ID, m.Address, c.peerAddr, m.Address)
			}
		}
	} else if err := checkAddress(peerAdvertise); err != nil {
		return c, refusef("--peer-advertise %s: %v", quote(peerAdvertise), err)
	}
	if isUnspecified(hostOf(peerAdvertise)) {
		return c, refusef("the other nodes cannot reach this one at %s: set --peer-advertise HOST:PORT", peerAdvertise)
	}
	c.peerAdvertise = peerAdvertise

	base, err := baseURL(httpAdvertise, c.httpAddr)
	if err != nil {
		return c, err
	}
	c.httpAdvertise = base.String()
	for _, m := range c.members {
		if m.ID == c.nodeID || isLoopback(hostOf(m.Address)) {
			continue
		}
		if isLoopback(hostOf(c.peerAdvertise)) {
			return c, refusef("%s at %s cannot reach this node at %s: set --peer-advertise HOST:PORT", m.ID, m.Address, c.peerAdvertise)
		}
		if isLoopback(base.Hostname()) {
			return c, refusef("clients on other hosts, such as that of %s (%s), cannot reach this node at %s: set --http-advertise HOST:PORT", m.ID, m.Address, c.httpAdvertise)
		}
	}
	return c, nil
}

// baseURL gives what clients are told, from --http-advertise or else from what
// the node listens on.
func baseURL(advertise, listen string) (*url.URL, error) {
	given := advertise
	if given == "" {
		given = listen
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, refusef("--http-advertise %s: use host:port, or a base URL such as https://onced.example.com", quote(advertise))
	}
	u.Path = ""
	if isUnspecified(u.Hostname()) {
		return nil, refusef("clients cannot reach %s: set --http-advertise HOST:PORT", u.Host)
	}
	return u, nil
}

// checkAddress tells what is wrong with a host:port.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("use host:port, as in 127.0.0.1:4747")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("port %s: use 1 to 65535", quote(port))
	}
	return nil
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func isUnspecified(host string) bool {
	if host == "" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}
