package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onced/onced/idem"
)

// ErrNoAnswer is that none of the endpoints answered.
var ErrNoAnswer = errors.New("no endpoint answered")

// probeTime bounds one question to one endpoint.
const probeTime = 3 * time.Second

func get(ctx context.Context, url string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d", url, res.StatusCode)
	}
	return res.Header, b, err
}

// Leader gives the endpoints with that of the leader first. When the leader is
// none of them, its address as the nodes know it is put before them. The error
// wraps ErrNoAnswer when no endpoint answers.
func Leader(ctx context.Context, endpoints []string) ([]string, error) {
	leader, address := "", ""
	answered := false
	var cause error
	nodes := map[string]string{} // node id: endpoint
	for _, e := range endpoints {
		header, body, err := get(ctx, e+"/v1/cluster")
		var status idem.ClusterStatus
		if err == nil {
			err = json.Unmarshal(body, &status)
		}
		if err != nil {
			cause = err
			continue
		}
		answered = true
		if id := header.Get("Onced-Node"); id != "" {
			nodes[id] = e
		}
		if status.Leader == nil || leader != "" {
			continue
		}
		leader = *status.Leader
		for _, n := range status.Nodes {
			if n.ID == leader {
				address = n.HTTPAddress
			}
		}
	}
	if !answered {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, cause)
	}
	if e, ok := nodes[leader]; ok {
		address = e
	}
	if address == "" {
		return nil, errors.New("the cluster has no leader now")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	others := slices.DeleteFunc(slices.Clone(endpoints), func(e string) bool { return e == address })
	return append([]string{address}, others...), nil
}

// Answering asks every endpoint whether it is there. The error wraps
// ErrNoAnswer when none is.
func Answering(ctx context.Context, endpoints []string) error {
	var cause error
	for _, e := range endpoints {
		if _, _, err := get(ctx, e+"/healthz"); err == nil {
			return nil
		} else {
			cause = err
		}
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, cause)
}

// figures are what one process tells of itself on /metrics.
type figures struct {
	cpu     time.Duration
	started float64 // seconds since 1970
	mallocs float64
}

// CPUOfServers gives a function for Load.CPU: the processor time of all
// processes behind the endpoints since they began, as their /metrics tell it.
// Endpoints of one process, as onced dev has, count once. It is an error when
// one endpoint does not tell.
func CPUOfServers(endpoints []string) func() (time.Duration, error) {
	var processes []string // one endpoint of each
	return func() (sum time.Duration, err error) {
		if processes == nil {
			if processes, err = onePerProcess(endpoints); err != nil {
				return 0, err
			}
		}
		for _, e := range processes {
			f, err := readFigures(e)
			if err != nil {
				return 0, err
			}
			sum += f.cpu
		}
		return sum, nil
	}
}

// onePerProcess leaves out endpoints of a process that another one is of, too:
// it began in the same tick, and its counts lie between those that the other
// told before and after.
func onePerProcess(endpoints []string) (processes []string, err error) {
	for _, e := range endpoints {
		same := false
		for _, p := range processes {
			var f [3]figures
			for i, from := range []string{p, e, p} {
				if f[i], err = readFigures(from); err != nil {
					return nil, err
				}
			}
			same = same || f[0].started == f[1].started &&
				f[0].mallocs <= f[1].mallocs && f[1].mallocs <= f[2].mallocs && f[0].cpu <= f[1].cpu && f[1].cpu <= f[2].cpu
		}
		if !same {
			processes = append(processes, e)
		}
	}
	return processes, nil
}

func readFigures(endpoint string) (f figures, err error) {
	_, body, err := get(context.Background(), endpoint+"/metrics")
	if err != nil {
		return f, err
	}
	cpu := math.NaN()
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	lines.Buffer(nil, len(body)+1)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		var to *float64
		switch name {
		case "process_cpu_seconds_total":
			to = &cpu
		case "process_start_time_seconds":
			to = &f.started
		case "go_memstats_mallocs_total":
			to = &f.mallocs
		default:
			continue
		}
		if *to, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
			return f, err
		}
	}
	if math.IsNaN(cpu) {
		return f, fmt.Errorf("%s/metrics does not tell the processor time", endpoint)
	}
	f.cpu = time.Duration(cpu * float64(time.Second))
	return f, nil
}
