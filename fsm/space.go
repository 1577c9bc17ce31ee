package fsm

// space is a namespace with the running counts of its records. Unlike the
// Namespace in it, it changes in place and never leaves the machine.
type space struct {
	ns      *Namespace
	number  uint32 // in packed records of this machine; another one after a restore
	records int64
	bytes   int64
	count   [6]int64 // by stored status
	dropped [6]int64 // of these, the ones whose ttl was over at a sweep

	horizon Time // within a sweep: what it raises the namespace's to
}

func (sp *space) add(r *Record, n int64) {
	sp.records += n
	sp.bytes += n * Size(r)
	sp.count[r.Status] += n
	if r.Dropped {
		sp.dropped[r.Status] += n
	}
}

// recordBase is what Size counts for the parts of a record that are there in
// each: times, counters and the places in the indexes.
const recordBase = 512

// Size is what r counts against maxBytes: 512 bytes and the length of every
// text and of the response; 64 more for a previous attempt. It is a function
// of the record alone, alike on every node and in every version, and more than
// what it costs in memory (packed.go).
func Size(r *Record) int64 {
	n := recordBase + len(r.Key) + len(r.Operation) + len(r.RequestDigest) + len(r.AttemptID) +
		len(r.Response) + len(r.ErrorCode) + len(r.OutcomeDigest) + len(r.CorrelationID) + len(r.Fingerprint)
	for _, p := range r.Redacted {
		n += 16 + len(p)
	}
	if r.Previous != nil {
		n += 64 + len(r.Previous.CorrelationID)
	}
	return int64(n)
}
