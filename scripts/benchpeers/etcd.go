package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/onced/onced/bench"
)

// etcd is a cluster of three.
type etcd struct {
	nodes     []*process
	endpoints []string
	keys      kept
}

func (e *etcd) begin(ctx context.Context, dir string) error {
	ports, err := freePorts(6)
	if err != nil {
		return err
	}
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("n%d=http://127.0.0.1:%d", i+1, ports[3+i]))
		e.endpoints = append(e.endpoints, fmt.Sprintf("http://127.0.0.1:%d", ports[i]))
	}
	for i := range 3 {
		name, peer := fmt.Sprintf("n%d", i+1), fmt.Sprintf("http://127.0.0.1:%d", ports[3+i])
		p, err := launch(dir, name, nil, "etcd", "--name", name, "--data-dir", name+".data",
			"--listen-client-urls", e.endpoints[i], "--advertise-client-urls", e.endpoints[i],
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
			"--logger", "zap", "--log-level", "warn", "--quota-backend-bytes", databaseMax)
		if err != nil {
			return err
		}
		e.nodes = append(e.nodes, p)
	}
	return await(ctx, "etcd", e.nodes, func(ctx context.Context) error {
		_, err := e.leader(ctx)
		return err
	})
}

func (e *etcd) end() { stop(syscall.SIGTERM, e.nodes...) }

func (e *etcd) pids() []int { return pidsOf(e.nodes) }

func (e *etcd) facts() facts {
	said, _ := output("etcd", "--version")
	return facts{"etcd", version(said, "etcd Version:"), "three nodes, its defaults"}
}

func (e *etcd) dial(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// leader is the endpoint of the node that leads, once all three answer.
func (e *etcd) leader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leads := ""
	for _, endpoint := range e.endpoints {
		c, err := e.dial(endpoint)
		if err != nil {
			return "", err
		}
		s, err := c.Status(ctx, endpoint)
		c.Close()
		if err != nil {
			return "", err
		}
		if s.Leader != 0 && s.Leader == s.Header.MemberId {
			leads = endpoint
		}
	}
	if leads == "" {
		return "", errors.New("no node leads")
	}
	return leads, nil
}

// etcdClaim makes of t the transaction that claims a key which is not there, or
// gives what is.
func etcdClaim(t clientv3.Txn, key string, opts ...clientv3.OpOption) clientv3.Txn {
	return t.If(clientv3.Compare(clientv3.Version(key), "=", 0)).
		Then(clientv3.OpPut(key, claim(key), opts...)).Else(clientv3.OpGet(key))
}

// etcdGuard is W1: claim the key, and settle it if nobody has touched it since.
// With a lease the key goes by itself after its ttl; without one it stays until
// somebody removes it.
func etcdGuard(ctx context.Context, c *clientv3.Client, key string, lease bool) error {
	var opts []clientv3.OpOption
	if lease {
		granted, err := c.Grant(ctx, ttlSeconds)
		if err != nil {
			return err
		}
		opts = append(opts, clientv3.WithLease(granted.ID))
	}
	claimed, err := etcdClaim(c.Txn(ctx), key, opts...).Commit()
	if err != nil {
		return err
	}
	settled, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", claimed.Header.Revision)).
		Then(clientv3.OpPut(key, response, opts...)).Commit()
	if err == nil && (!claimed.Succeeded || !settled.Succeeded) {
		err = errWrong
	}
	return err
}

func (e *etcd) load(ctx context.Context, w work) (load, error) {
	leader, err := e.leader(ctx)
	if err != nil {
		return load{}, err
	}
	// All clients share one connection, which holds many calls at a time: with 4,
	// 16 or 64 of them etcd did less, and took more processor time for it.
	c, err := e.dial(leader)
	if err != nil {
		return load{}, err
	}
	if w == duplicate || w == duplicateTxn {
		err := e.keys.commit(ctx, func(ctx context.Context, key string) error { return etcdGuard(ctx, c, key, false) })
		if err != nil {
			c.Close()
			return load{}, err
		}
	}
	return load{close: func() { c.Close() }, start: func(client int) (bench.Op, error) {
		next := e.keys.inTurn(client)
		switch w {
		case guard, guardHonest:
			return func(ctx context.Context) (int, error) {
				return count(1, etcdGuard(ctx, c, freshKey(), w == guardHonest), true)
			}, nil
		case duplicate: // a linearizable read
			return func(ctx context.Context) (int, error) {
				got, err := c.Get(ctx, next())
				return count(1, err, err == nil && len(got.Kvs) == 1 && string(got.Kvs[0].Value) == response)
			}, nil
		case duplicateTxn:
			return func(ctx context.Context) (int, error) {
				got, err := etcdClaim(c.Txn(ctx), next()).Commit()
				return count(1, err, err == nil && !got.Succeeded && string(got.Responses[0].GetResponseRange().Kvs[0].Value) == response)
			}, nil
		}
		return nil, fmt.Errorf("no %s of etcd", w)
	}}, nil
}
