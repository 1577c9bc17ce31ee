package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const composeFile = "../scripts/compose/docker-compose.yml"

// composed is scripts/compose on the Docker engine of this machine: three
// containers of the image that its build.sh made, under a project of the test's
// own.
type composed struct {
	*nodes
	compose []string // docker compose, or docker-compose
	project string
	image   string
	refused string    // name of a container that may not start
	id      [3]string // of the containers
}

// composeEngine gives the command that reads a compose file where there is an
// engine to bring it up on; otherwise the test is skipped and says why.
func composeEngine(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds an image and starts containers: not with -short")
	}
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skipf("no Docker here: %v", err)
	}
	kind, err := command(20*time.Second, nil, "docker", "info", "--format", "{{.OSType}}")
	if err != nil || kind != "linux" {
		t.Skipf("no Docker engine for Linux containers answers: %q, %v", kind, err)
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" && !strings.HasPrefix(host, "unix://") {
		t.Skipf("the Docker engine is elsewhere (DOCKER_HOST=%s): its loopback is not this one", host)
	}
	var why []string
	for _, c := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		_, err := command(20*time.Second, nil, append(c, "version")...)
		if err == nil {
			return c
		}
		why = append(why, err.Error())
	}
	t.Skipf("a Docker engine, and nothing that reads a compose file: %s", strings.Join(why, "; "))
	return nil
}

// command runs one to its end and gives its stdout, without white space around
// it. The error has its stderr.
func command(limit time.Duration, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), err
}

// startComposed builds the image, brings the file up on free ports and returns
// when Docker says that all three are healthy.
func startComposed(t *testing.T) *composed {
	t.Helper()
	project := fmt.Sprintf("onced-e2e-%d-%04x", os.Getpid(), rand.Uint32()&0xffff)
	c := &composed{compose: composeEngine(t), project: project, image: "onced:" + project, refused: project + "-refused"}
	c.removeAtEnd(t)

	began := time.Now()
	if _, err := command(5*time.Minute, c.env(), "../scripts/compose/build.sh"); err != nil {
		t.Fatal(err)
	}
	t.Logf("image built in %v, %s bytes", time.Since(began).Round(time.Millisecond), c.docker(t, "image", "inspect", "--format", "{{.Size}}", c.image))
	began = time.Now()
	for try := 1; ; try++ {
		c.nodes = newNodes(t, freeBlock(t))
		_, err := c.composing("up", "-d")
		if err == nil {
			break
		}
		if busy := strings.Contains(err.Error(), "already"); !busy || try == 3 { // allocated, in use
			t.Fatal(err)
		}
	}
	// A node that is paused holds its callers up: they go elsewhere in time.
	c.http.Timeout = 3 * time.Second
	c.awaitHealthy(t)
	t.Logf("up and healthy after %v", time.Since(began).Round(time.Millisecond))
	return c
}

// env is the environment for compose and build.sh.
func (c *composed) env() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ONCED_") && !strings.HasPrefix(v, "COMPOSE_") {
			env = append(env, v)
		}
	}
	env = append(env, "COMPOSE_PROJECT_NAME="+c.project, "ONCED_IMAGE="+c.image)
	if c.nodes != nil {
		for i, port := range c.port {
			env = append(env, fmt.Sprintf("N%d_PORT=%d", i+1, port))
		}
	}
	return env
}

func (c *composed) composing(args ...string) (string, error) {
	return command(2*time.Minute, c.env(), append(append(c.compose, "-f", composeFile), args...)...)
}

func (c *composed) docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := command(time.Minute, nil, append([]string{"docker"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// removal ends and removes everything of a project, once its input ends: when
// the test says so, and when the test dies, of a time limit too.
const removal = `trap '' INT TERM HUP
cat >/dev/null
for id in $(docker ps -aq --filter label=com.docker.compose.project=$PROJECT) $(docker ps -aq --filter name=$PROJECT-refused); do docker rm -f -v $id; done
"$@" down -v --remove-orphans -t 0
docker image rm -f $ONCED_IMAGE`

func (c *composed) removeAtEnd(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", removal, "removal"}, append(c.compose, "-f", composeFile)...)...)
	cmd.Env = append(c.env(), "PROJECT="+c.project)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for i, id := range c.id {
			if t.Failed() && id != "" {
				out, err := exec.Command("docker", "logs", "--tail", "25", id).CombinedOutput()
				t.Logf("n%d, end of its log (%v):\n%s", i+1, err, out)
			}
		}
		stdin.Close()
		_ = cmd.Wait()
		label := "label=com.docker.compose.project=" + c.project
		for _, left := range [][]string{
			{"ps", "-aq", "--filter", label},
			{"ps", "-aq", "--filter", "name=" + c.refused},
			{"network", "ls", "-q", "--filter", label},
			{"volume", "ls", "-q", "--filter", label},
			{"image", "ls", "-q", c.image},
		} {
			if out, err := command(time.Minute, nil, append([]string{"docker"}, left...)...); err != nil || out != "" {
				t.Errorf("left behind: docker %s: %q %v", strings.Join(left, " "), out, err)
			}
		}
	})
}

// awaitHealthy waits until Docker's own health check finds all nodes ready, and
// learns which containers they are.
func (c *composed) awaitHealthy(t *testing.T) {
	t.Helper()
	for i := range c.id {
		id, err := c.composing("ps", "-q", "n"+strconv.Itoa(i+1))
		if err != nil || id == "" {
			t.Fatalf("no container of n%d: %v", i+1, err)
		}
		c.id[i] = id
	}
	c.awaitReady(0, 1, 2)
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	eventually(t, "all three are healthy", func() bool {
		<-look.C
		return c.docker(t, "inspect", "--format", "{{.State.Health.Status}}", c.id[0], c.id[1], c.id[2]) == "healthy\nhealthy\nhealthy"
	})
}

func (c *composed) awaitReady(which ...int) {
	c.t.Helper()
	for _, i := range which {
		eventually(c.t, fmt.Sprintf("n%d is ready", i+1), func() bool { return c.get(i, "/readyz").status == 200 })
	}
}

// check runs `onced check` inside node i's container, which has no shell, and
// gives its exit code and what it said.
func (c *composed) check(t testing.TB, i int, args ...string) (int, string) {
	t.Helper()
	out, err := command(time.Minute, nil, append([]string{"docker", "exec", c.id[i], "onced", "check"}, args...)...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out + err.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, out
}

// address gives node i's address in a network of the project.
func (c *composed) address(t testing.TB, i int, network string) string {
	t.Helper()
	return c.docker(t, "inspect", "--format", fmt.Sprintf("{{(index .NetworkSettings.Networks %q).IPAddress}}", c.project+"_"+network), c.id[i])
}

// TestCompose: the three containers decide as one, through each of them, while
// one is cut from the peers, killed, paused, and all are restarted in turn:
// what was acknowledged is replayed the same by all, and no key was granted
// twice.
func TestCompose(t *testing.T) {
	c := startComposed(t)
	c.shape(t)
	for i := range 3 {
		m := map[string]any{"key": fmt.Sprintf("settled-by-n%d", i+1), "request": i}
		token := c.must(201, c.call(i, "default", "reserve", m)).Token
		c.must(200, c.call((i+1)%3, "default", "commit", map[string]any{"key": m["key"], "token": token, "response": i}))
		c.must(200, c.call((i+2)%3, "default", "reserve", m))
	}
	held := c.must(201, c.call(0, "default", "reserve", map[string]any{"key": "held-all-along", "lease": "1h"})).Token
	c.settledState(0, 1, 2)
	r := startRivals(t, c.nodes, 6)

	leader := c.leader()
	for _, victim := range []int{leader, (leader + 1) % 3} {
		c.cutOff(t, r, victim, held)
	}
	for _, fault := range []struct{ does, undoes string }{{"kill", "start"}, {"pause", "unpause"}} {
		for range 2 {
			victim := c.leader()
			began := time.Now()
			c.docker(t, fault.does, c.id[victim])
			took := c.othersGoOn(t, r, victim, fault.does).Sub(began)
			c.docker(t, fault.undoes, c.id[victim])
			c.awaitReady(victim)
			t.Logf("%s of the leader n%d: the others acknowledged writes within %v; ready again after %v",
				fault.does, victim+1, took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		}
	}
	began := time.Now()
	for i := range 3 {
		c.docker(t, "stop", c.id[i]) // SIGTERM, and the time that the file gives it
		if code := c.docker(t, "inspect", "--format", "{{.State.ExitCode}}", c.id[i]); code != "0" {
			t.Errorf("the stop of n%d ended it with %s", i+1, code)
		}
		c.docker(t, "start", c.id[i])
		c.awaitReady(i)
	}
	t.Logf("all three stopped and started in turn in %v", time.Since(began).Round(time.Millisecond))
	r.finish()
	c.http.Timeout = 30 * time.Second
	r.audit(t)
	t.Logf("%v", r)

	// New containers on the volumes of the old ones, as with a new image.
	before := c.id
	began = time.Now()
	if _, err := c.composing("up", "-d", "--force-recreate"); err != nil {
		t.Fatal(err)
	}
	c.awaitHealthy(t)
	for i := range 3 {
		if c.id[i] == before[i] {
			t.Errorf("n%d is the same container as before", i+1)
		}
	}
	t.Logf("recreated and healthy in %v", time.Since(began).Round(time.Millisecond))
	c.verify(t, r.acks)
	c.must(200, c.call(1, "default", "commit", map[string]any{"key": "held-all-along", "token": held}))
	if got := c.docker(t, "inspect", "--format", "{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}", c.refused); got != "exited 78 5" {
		t.Errorf("a node that may not start, under the file's restart policy: %s, want exited 78 5", got)
	}
}

// shape holds what is running against what the compose file is for.
func (c *composed) shape(t *testing.T) {
	t.Helper()
	if got := c.docker(t, "image", "inspect", "--format", "{{.Config.User}} {{len .RootFS.Layers}}", c.image); got != "65532:65532 2" {
		t.Errorf("the image's user and layers: %s", got)
	}
	policy := c.docker(t, "inspect", "--format", "{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}", c.id[0])
	// A start that is refused is not repeated for ever: looked at in the end.
	c.docker(t, "run", "-d", "--name", c.refused, "--restart", policy, c.image, "--cluster", "elsewhere")
	for i := range 3 {
		if code, out := c.check(t, i, "ready"); code != 0 {
			t.Errorf("onced check ready in n%d: %d, %s", i+1, code, out)
		}
		for port, binding := range map[string]string{"4747/tcp": "127.0.0.1:" + strconv.Itoa(c.port[i]), "4748/tcp": ""} {
			format := fmt.Sprintf("{{range index .NetworkSettings.Ports %q}}{{.HostIp}}:{{.HostPort}}{{end}}", port)
			if got := c.docker(t, "inspect", "--format", format, c.id[i]); got != binding {
				t.Errorf("n%d: %s is published at %q, want %q", i+1, port, got, binding)
			}
		}
	}
	// The peers' port is open where the peers are, and closed to clients.
	for network, refused := range map[string]bool{"peers": false, "clients": true} {
		_, out := c.check(t, 0, "live", "--endpoints", c.address(t, 1, network)+":4748")
		if strings.Contains(out, "connection refused") != refused {
			t.Errorf("port 4748 on the network %s: %s", network, out)
		}
	}
}

// cutOff takes a node off the network of the peers, and puts it back.
func (c *composed) cutOff(t *testing.T, r *rivals, victim int, held string) {
	t.Helper()
	network, name := c.project+"_peers", "n"+strconv.Itoa(victim+1)
	address := c.address(t, victim, "peers")
	began := time.Now()
	c.docker(t, "network", "disconnect", network, c.id[victim])
	took := c.othersGoOn(t, r, victim, "cut").Sub(began)
	eventually(t, "the cut node knows that it is alone", func() bool {
		a := c.get(victim, "/readyz")
		return a.status == 503 && strings.Contains(string(a.raw), "2 of 3 nodes do not answer")
	})
	if code, out := c.check(t, victim, "ready"); code != 3 {
		t.Errorf("onced check ready in the cut %s: %d, %s", name, code, out)
	}
	if code, out := c.check(t, victim, "live"); code != 0 {
		t.Errorf("onced check live in the cut %s: %d, %s", name, code, out)
	}
	lost := "never-granted-by-" + name
	for op, m := range map[string]map[string]any{
		"reserve": {"key": lost},
		"cancel":  {"key": lost, "reason": "r"},
		"commit":  {"key": "held-all-along", "token": held},
	} {
		a := c.call(victim, "default", op, m, "Onced-Timeout", "500ms")
		if a.status != 503 || a.Code != "idempotency_unavailable" || a.Applied != "no" {
			t.Errorf("%s at the cut %s: %s", op, name, a)
		}
	}
	for i := range 3 {
		a := c.call(victim, "default", "reserve", map[string]any{"key": fmt.Sprintf("settled-by-n%d", i+1), "request": i})
		if a.status != 200 || a.Outcome != "replayed" || string(a.Record.Response) != strconv.Itoa(i) {
			t.Errorf("a settled key at the cut %s: %s", name, a)
		}
	}

	c.docker(t, "network", "connect", "--alias", name+"-peers", network, c.id[victim])
	if now := c.address(t, victim, "peers"); now != address {
		// It listens on the address that it had. Engines give the same again if
		// nobody took it.
		t.Logf("%s was at %s and is at %s: restarted", name, address, now)
		c.docker(t, "restart", c.id[victim])
	}
	c.awaitReady(victim)
	if rec := c.record(victim, "default", lost); rec != nil {
		t.Errorf("answered 503 with applied no, and yet there is %s", show(rec))
	}
	t.Logf("%s cut from the peers: the others acknowledged writes within %v; healed after %v",
		name, took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// othersGoOn wants writes through both nodes that are not the victim, and tells
// when both had one acknowledged.
func (c *composed) othersGoOn(t *testing.T, r *rivals, victim int, fault string) time.Time {
	t.Helper()
	for _, i := range []int{(victim + 1) % 3, (victim + 2) % 3} {
		m := map[string]any{"key": fmt.Sprintf("%s-%d-%08x", fault, i, rand.Uint32()), "attemptId": "attempt-0123456789"}
		var a *answer
		eventually(t, "a reserve through the others", func() bool {
			a = c.call(i, "default", "reserve", m, "Onced-Timeout", "1s")
			return a.status == 201
		})
		m["token"] = a.Token
		eventually(t, "a commit through the others", func() bool {
			return c.call(i, "default", "commit", without(m, "attemptId"), "Onced-Timeout", "1s").status == 200
		})
	}
	wrote, before := time.Now(), r.count()
	eventually(t, "the rivals are served", func() bool { return r.count() > before+5 })
	return wrote
}

// rivals are clients that want the same keys at the same time, each through
// another node; whoever is granted one does its work, and commits.
type rivals struct {
	n     *nodes
	next  atomic.Int64 // ticket; three of them want one key
	seen  unsettled
	stop  chan struct{}
	end   sync.Once
	group sync.WaitGroup

	mu     sync.Mutex          // guards the rest
	work   map[string][]string // by key: the attempts that did its work
	acks   []ack
	losses map[string]int
}

func startRivals(t *testing.T, n *nodes, clients int) *rivals {
	r := &rivals{n: n, stop: make(chan struct{}), work: map[string][]string{}, losses: map[string]int{}}
	for client := range clients {
		r.group.Go(func() { r.run(t, client) })
	}
	t.Cleanup(r.finish)
	return r
}

func (r *rivals) run(t *testing.T, client int) {
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		ticket := int(r.next.Add(1) - 1)
		mine := ack{key: fmt.Sprintf("wanted-%06d", ticket/3), request: ticket / 3, response: fmt.Sprintf("done by %d", client)}
		attempt := fmt.Sprintf("attempt-%02d-%08d", client, ticket)
		got := r.n.until(t, ticket, "reserve", map[string]any{"key": mine.key, "request": mine.request, "attemptId": attempt, "lease": "10m"}, &r.seen)
		if got.status != 201 {
			r.mu.Lock()
			r.losses[fmt.Sprint(got.status, " ", got.says())]++
			r.mu.Unlock()
			continue
		}
		if got.Attempt != 1 || got.AttemptID != attempt {
			t.Errorf("%s as %s: %s", mine.key, attempt, got)
		}
		r.mu.Lock()
		r.work[mine.key] = append(r.work[mine.key], attempt)
		r.mu.Unlock()
		mine.token = got.Token
		done := r.n.until(t, ticket+1, "commit", map[string]any{"key": mine.key, "token": mine.token, "response": mine.response}, &r.seen)
		if done.status != 200 || done.Outcome != "committed" {
			t.Errorf("the commit of a held key: %s", done)
			continue
		}
		r.mu.Lock()
		r.acks = append(r.acks, mine)
		r.mu.Unlock()
	}
}

func (r *rivals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acks)
}

// finish stops the rivals; the calls under way come to their end first.
func (r *rivals) finish() {
	r.end.Do(func() { close(r.stop) })
	r.group.Wait()
}

// audit wants the work of each key done once, and each acknowledged outcome
// replayed the same by each node.
func (r *rivals) audit(t *testing.T) {
	t.Helper()
	for what := range r.losses {
		if what != "409 in_flight" && what != "200 replayed" {
			t.Errorf("a loser was told %s", what)
		}
	}
	for k := range (int(r.next.Load()) + 2) / 3 {
		key := fmt.Sprintf("wanted-%06d", k)
		if len(r.work[key]) != 1 {
			t.Errorf("the work of %s was done by %q", key, r.work[key])
		}
	}
	r.n.verify(t, r.acks)
}

func (r *rivals) String() string {
	return fmt.Sprintf("%d reserves of %d keys, %d commits acknowledged; losers %v; on the way %v",
		r.next.Load(), len(r.work), len(r.acks), r.losses, &r.seen)
}
