package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/onced/onced/bench"
)

// postgres is one server with synchronous commit.
type postgres struct {
	server *process
	url    string
	keys   kept
}

// No checkpoint and no vacuum in a run: they would work while others are
// measured, and not while it is.
var postgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on", "wal_sync_method=fdatasync", "shared_buffers=1GB",
	"max_connections=400", "checkpoint_timeout=1h", "max_wal_size=16GB", "autovacuum=off",
	"dynamic_shared_memory_type=mmap", // in its directory, which goes
}

func (p *postgres) begin(ctx context.Context, dir string) error {
	bin, err := postgresBin()
	if err != nil {
		return err
	}
	owner, err := postgresOwner(dir)
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	initdb, err := launch(dir, "initdb", owner, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
	if err != nil {
		return err
	}
	select {
	case <-initdb.gone:
	case <-ctx.Done():
		stop(syscall.SIGTERM, initdb)
		return ctx.Err()
	}
	if !initdb.cmd.ProcessState.Success() {
		return initdb.ended()
	}
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	args := []string{"-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(ports[0]), "-k", ""}
	for _, s := range postgresSettings {
		args = append(args, "-c", s)
	}
	if p.server, err = launch(dir, "postgres", owner, filepath.Join(bin, "postgres"), args...); err != nil {
		return err
	}
	p.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", ports[0])
	return await(ctx, "PostgreSQL", []*process{p.server}, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, `CREATE TABLE guarded (key text PRIMARY KEY, token text NOT NULL, settled boolean NOT NULL, response bytea, expires timestamptz NOT NULL)`)
		return err
	})
}

// postgresBin is the directory of the server's programs, which Debian keeps out
// of PATH.
func postgresBin() (string, error) {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(all) > 0 {
		return filepath.Dir(all[len(all)-1]), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("no PostgreSQL server: install the package postgresql")
	}
	return filepath.Dir(path), nil
}

// postgresOwner gives whom the server runs as, and dir to them: it refuses to
// run as root.
func postgresOwner(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

func (p *postgres) end() {
	if p.server != nil {
		stop(syscall.SIGQUIT, p.server) // at once: nobody needs its data any more
	}
}

func (p *postgres) pids() []int { return []int{p.server.pid()} }

func (p *postgres) facts() facts {
	bin, _ := postgresBin()
	said, _ := output(filepath.Join(bin, "postgres"), "--version")
	return facts{"PostgreSQL", version(said, "(PostgreSQL)"), "one node, `" + strings.Join(postgresSettings, "`, `") + "`"}
}

const (
	claimRow  = `INSERT INTO guarded (key, token, settled, expires) VALUES ($1, $2, false, now() + interval '24 hours') ON CONFLICT (key) DO NOTHING RETURNING token`
	settleRow = `UPDATE guarded SET settled = true, response = $3 WHERE key = $1 AND token = $2 AND NOT settled`
	readRow   = `SELECT settled, response FROM guarded WHERE key = $1`
)

// guardRow is W1 on one connection, in two transactions as a caller has to: what
// is guarded happens between them.
func guardRow(ctx context.Context, c *pgx.Conn, key string) error {
	var token string
	if err := c.QueryRow(ctx, claimRow, key, claim(key)).Scan(&token); err != nil {
		return err
	}
	done, err := c.Exec(ctx, settleRow, key, token, []byte(response))
	if err == nil && done.RowsAffected() != 1 {
		err = errWrong
	}
	return err
}

func (p *postgres) load(ctx context.Context, w work) (load, error) {
	if w == duplicate {
		c, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return load{}, err
		}
		defer c.Close(ctx)
		err = p.keys.commit(ctx, func(ctx context.Context, key string) error { return guardRow(ctx, c, key) })
		if err != nil {
			return load{}, err
		}
	}
	var mu sync.Mutex // guards conns
	var conns []*pgx.Conn
	return load{
		start: func(client int) (bench.Op, error) {
			c, err := pgx.Connect(ctx, p.url)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			next := p.keys.inTurn(client)
			switch w {
			case guard:
				return func(ctx context.Context) (int, error) { return count(1, guardRow(ctx, c, freshKey()), true) }, nil
			case duplicate:
				return func(ctx context.Context) (int, error) {
					var settled bool
					var got []byte
					err := c.QueryRow(ctx, readRow, next()).Scan(&settled, &got)
					return count(1, err, settled && string(got) == response)
				}, nil
			}
			return nil, fmt.Errorf("no %s of PostgreSQL", w)
		},
		close: func() {
			for _, c := range conns {
				c.Close(context.Background())
			}
		},
	}, nil
}
