package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
)

// refuses wants node i to end by itself, with this code and one sentence that
// says what to do, and no stack.
func (c *trio) refuses(t *testing.T, i, code int, says ...string) {
	t.Helper()
	got := c.proc[i].exit()
	text := c.proc[i].stderr.String()
	last := text[strings.LastIndex("\n"+strings.TrimRight(text, "\n"), "\n"):]
	if got != code {
		t.Errorf("n%d ended with %d, want %d: %s", i+1, got, code, last)
	}
	for _, s := range says {
		if !strings.Contains(last, s) {
			t.Errorf("n%d ended without saying %q: %s", i+1, s, last)
		}
	}
	if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") {
		t.Errorf("n%d ended with a stack:\n%s", i+1, c.proc[i].stderr.tail())
	}
	t.Logf("exit %d: %s", got, strings.TrimSpace(last))
}

// TestB09_LostData: a member whose data is gone stays out, an empty raft.db is
// refused, alone and on two nodes, and putting the old one back heals.
func TestB09_LostData(t *testing.T) {
	t.Parallel()
	c := startTrio(t)
	const held = `{"key":"damage-key-0001","attemptId":"attempt-0123456789","lease":"10m"}`
	token := c.must(201, c.do(0, "POST", "/v1/namespaces/default/reserve", held)).Token
	check := func(i int, when string) {
		t.Helper()
		if a := c.do(i, "POST", "/v1/namespaces/default/reserve", held); a.status != 201 || a.Token != token || !*a.Resumed {
			t.Errorf("%s, n%d: %s, want token %s", when, i+1, a, token)
		}
	}

	// Wiped: the disk is away.
	c.proc[2].kill()
	aside := filepath.Join(c.dir, "aside")
	move(t, c.data(2), aside)
	c.start(2)
	c.refuses(t, 2, 78, "n3 was a member of this cluster with other data", "Put the old disk back, or remove n3 and add the machine under a new id")
	check(0, "n3 wiped")
	check(1, "n3 wiped")
	// Again, with what the refused start left.
	c.start(2)
	c.refuses(t, 2, 78, "n3 was a member of this cluster with other data")
	if err := os.RemoveAll(c.data(2)); err != nil {
		t.Fatal(err)
	}
	move(t, aside, c.data(2))
	c.start(2)
	c.awaitReady(2)
	check(2, "old disk put back")

	// Truncated on two nodes, a quorum.
	c.stopAll()
	db := func(i int) string { return filepath.Join(c.data(i), "raft.db") }
	whole := [3][]byte{}
	for i := range 3 {
		whole[i] = read(t, db(i))
	}
	for _, size := range []int{0, 1, 4096, 8192, len(whole[0]) / 2} {
		for i := range 2 {
			write(t, db(i), whole[i][:min(size, len(whole[i]))])
		}
		c.startAll()
		// 78 where it is empty; a damaged one may also be told as 70.
		for i := range 2 {
			code := c.proc[i].exit()
			if code == 78 || size != 0 && code == 70 {
				c.refuses(t, i, code, fmt.Sprintf("n%d", i+1), "raft.db")
			} else {
				c.refuses(t, i, 78)
			}
		}
		// The third is whole and alone: it must not decide anything.
		a := c.do(2, "POST", "/v1/namespaces/default/reserve", held, "Onced-Timeout", "300ms")
		if a.err == nil && a.status != 503 {
			t.Errorf("raft.db of two nodes is cut to %d bytes, and the third answers %s", size, a)
		}
		c.proc[2].signal(syscall.SIGTERM)
		c.proc[2].exit()
	}
	for i := range 2 {
		write(t, db(i), whole[i])
	}
	c.startAll()
	c.awaitReady(0, 1, 2)
	for i := range 3 {
		check(i, "raft.db put back")
	}
	// All of n2's data but identity.json.
	c.proc[1].kill()
	if err := os.Remove(db(1)); err != nil {
		t.Fatal(err)
	}
	c.start(1)
	c.refuses(t, 1, 78, "n2 has started before")
	check(0, "raft.db of n2 removed")
}

// TestFlippedByte: a stored command that is not what was written halts the node
// that has it, with code 70, and is never applied; the others go on.
func TestFlippedByte(t *testing.T) {
	t.Parallel()
	c := startTrio(t)
	const many = 40
	var tokens [many]string
	for k := range many {
		key := fmt.Sprintf("flipped-key-%04d", k)
		tokens[k] = c.must(201, c.call(k%3, "default", "reserve", map[string]any{"key": key, "attemptId": "attempt-0123456789", "lease": "10m"})).Token
	}
	c.settledState(0, 1, 2)
	for round := range 3 {
		i := (c.leader() + round) % 3
		c.proc[i].kill()
		text := fmt.Sprintf("flipped-key-%04d", 10*round)
		path, whole, says := filepath.Join(c.data(i), "raft.db"), []byte(nil), ""
		if os.Getenv("ONCED_LOG_STORE") == "wal" {
			path, whole = flipSegment(t, filepath.Join(c.data(i), "wal"), text, round)
			says = filepath.Base(path)
		} else {
			whole = read(t, path)
			says = fmt.Sprint(flip(t, path, text, round))
		}
		c.start(i)
		c.refuses(t, i, 70, fmt.Sprintf("n%d", i+1), says)
		// Again: it stays out.
		c.start(i)
		c.refuses(t, i, 70, says)
		a := c.call((i+1)%3, "default", "reserve", map[string]any{"key": fmt.Sprintf("flipped-more-%04d", round), "lease": "10m"})
		if a.status != 201 {
			t.Errorf("the other two: %s", a)
		}
		write(t, path, whole)
		c.start(i)
		c.awaitReady(i)
		c.settledState(0, 1, 2)
		for k := range many {
			if r := c.look(i, "default", fmt.Sprintf("flipped-key-%04d", k), "local"); r == nil || r.Token != tokens[k] || r.Version != 1 {
				t.Errorf("n%d: %s", i+1, show(r))
			}
		}
	}
}

// flip changes one bit of the log entry that holds text, in the text itself,
// and gives its index. The file stays a whole bbolt file.
func flip(t *testing.T, path, text string, bit int) (index uint64) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		logs := tx.Bucket([]byte("logs"))
		cursor := logs.Cursor()
		for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
			if at := bytes.Index(value, []byte(text)); at >= 0 {
				changed := bytes.Clone(value)
				changed[at+len(text)-1] ^= 1 << bit
				index = binary.BigEndian.Uint64(key)
				return logs.Put(bytes.Clone(key), changed)
			}
		}
		return fmt.Errorf("no entry holds %s", text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// flipSegment does the same in the log segments of dir, and gives the segment
// and what was in it.
func flipSegment(t *testing.T, dir, text string, bit int) (path string, whole []byte) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.wal"))
	for _, path := range paths {
		whole := read(t, path)
		if at := bytes.Index(whole, []byte(text)); at >= 0 {
			changed := bytes.Clone(whole)
			changed[at+len(text)-1] ^= 1 << bit
			write(t, path, changed)
			return path, whole
		}
	}
	t.Fatalf("no segment of %d in %s holds %s", len(paths), dir, text)
	return "", nil
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
