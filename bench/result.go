package bench

// Result are the figures of one run. Its JSON is what `onced bench -o json`
// prints, and what --compare reads.
type Result struct {
	Workload     string           `json:"workload"`
	Clients      int              `json:"clients"`
	Seconds      float64          `json:"seconds"`    // measured, to the end of the last call
	Operations   int64            `json:"operations"` // guarded operations done
	OpsPerSecond float64          `json:"opsPerSecond"`
	Errors       map[string]int64 `json:"errors"` // calls, by code
	LatencyMs    Latency          `json:"latencyMs"`
	ClientCpuUs  float64          `json:"clientCpuUs,omitzero"` // of this process, microseconds for each operation
	ServerCpuUs  float64          `json:"serverCpuUs,omitzero"` // of all servers together; 0: not known

	Storm        *StormCount `json:"storm,omitzero"`        // of a workload with a storm, or beside one
	WithoutStorm *Result     `json:"withoutStorm,omitzero"` // the same load before a storm was beside it
}

// Failed gives how many calls failed.
func (r *Result) Failed() (n int64) {
	for _, errors := range r.Errors {
		n += errors
	}
	return n
}

// IsUnanswered tells whether an error of that code is a call that got no answer.
func IsUnanswered(code string) bool {
	switch code {
	case codeNoConnection, codeLost, codeTimeout, notSentCode:
		return true
	}
	return false
}

// Unanswered tells whether there were calls, and none of them got an answer.
func (r *Result) Unanswered() bool {
	for code, n := range r.Errors {
		if n > 0 && !IsUnanswered(code) {
			return false
		}
	}
	return r.Operations == 0 && r.Failed() > 0
}

// Latency is how long calls took, in milliseconds. A call that failed is not in
// it.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}
