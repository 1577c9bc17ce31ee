package chaos

// Policy is what the workload sets a namespace to and the model decides by;
// durations in milliseconds. It is not changed during a run.
type Policy struct {
	Name          string
	TTL           int64
	Retention     int64
	Lease         int64
	MaxLease      int64
	RerunLease    bool  // onLeaseExpiry: rerun
	RerunExpired  bool  // onExpired: rerun
	RejectRepeats bool  // onDuplicate: reject
	Window        int64 // fingerprintWindow; 0: the default
}

// The namespaces of the workloads.
var policies = []*Policy{
	// Orders: nothing runs twice, everything is kept.
	{Name: "orders", TTL: 24 * 3600_000, Retention: 7 * 24 * 3600_000, Lease: 30_000, MaxLease: 3600_000},
	// Trades, by fingerprints.
	{Name: tradesNS, TTL: 1800_000, Retention: 1800_000, Lease: 500, MaxLease: 5000, Window: printWindow},
	// The same rules with short times: leases lapse, outcomes expire and are
	// removed within a run.
	{Name: "short", TTL: 1500, Retention: 2500, Lease: 400, MaxLease: 5000},
	// Everything may be taken over and run again.
	{Name: "rerun", TTL: 1000, Retention: 1500, Lease: 300, MaxLease: 2000, RerunLease: true, RerunExpired: true},
	// Takeover of a lapsed claim, no second run of an outcome; duplicates refused.
	{Name: "mixed", TTL: 2000, Retention: 2000, Lease: 300, MaxLease: 2000, RerunLease: true, RejectRepeats: true},
}

// policyOf gives the policy of a namespace of the workload.
func policyOf(ns string) *Policy {
	for _, p := range policies {
		if p.Name == ns {
			return p
		}
	}
	return nil
}

// json gives the body of the PUT that sets p.
func (p *Policy) json() string {
	rule := func(on bool, yes, no string) string {
		if on {
			return yes
		}
		return no
	}
	window := ""
	if p.Window != 0 {
		window = `,"fingerprintWindow":"` + millis(p.Window) + `"`
	}
	return `{"ttl":"` + millis(p.TTL) + `","retention":"` + millis(p.Retention) + `","lease":"` + millis(p.Lease) +
		`","maxLease":"` + millis(p.MaxLease) + `","onLeaseExpiry":"` + rule(p.RerunLease, "rerun", "uncertain") +
		`","onExpired":"` + rule(p.RerunExpired, "rerun", "reject") +
		`","onDuplicate":"` + rule(p.RejectRepeats, "reject", "replay") + `","redact":false` + window + `}`
}
