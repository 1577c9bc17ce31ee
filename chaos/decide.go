package chaos

// decided is what the contract says to a call: the state after it, and the
// words of the answer.
type decided struct {
	s    state
	t    span
	says string
	col  column // what the call met
	// shows tells that the answer carries the record.
	shows bool
	// grant tells a reserve's answer from others: a claim, new or resumed.
	grant, resumed bool
	// wrote tells that the call changed the record, not time alone.
	wrote bool
}

// decide gives all that may come of o at a time within t: the matrix of
// semantics.md section 11, transcribed.
func (s state) decide(o *Op, t span, p *Policy, birth int64) (out []decided) {
	for _, v := range s.views(t, p, birth) {
		v.s.now = max(v.s.now, v.t.earliest())
		from := len(out)
		switch o.Kind {
		case Reserve:
			out = append(out, v.reserve(o, p)...)
		case Cancel:
			out = append(out, v.cancel(p))
		case Get:
			out = append(out, v.get())
		default:
			out = append(out, v.withToken(o, p)...)
		}
		for i := from; i < len(out); i++ { // every change raises the version
			out[i].wrote = out[i].s.version != v.s.version
		}
	}
	return out
}

func (v view) says(says string) decided {
	return decided{s: v.s, t: v.t, says: says, col: v.col, shows: v.s.phase != absent}
}

func (v view) reserve(o *Op, p *Policy) []decided {
	same := v.s.claimed && v.s.attemptID == o.AttemptID
	switch v.col {
	case colA:
		return []decided{v.claim(o, p, "")}
	case colH, colE:
		return []decided{v.says("expired")}
	case colC, colK:
		return []decided{v.says("cancelled")}
	case colX:
		return []decided{v.claim(o, p, "expired")}
	}
	if v.s.request != o.Request {
		d := v.says("conflict")
		d.shows = false
		return []decided{d}
	}
	switch {
	case v.col == colS && p.RejectRepeats:
		return []decided{v.says("duplicate")}
	case v.col == colS:
		return []decided{v.says("replayed")}
	case v.col == colR && same:
		return []decided{v.says("attempt_spent")}
	case v.col == colR && v.s.notApplied:
		return []decided{v.claim(o, p, "not_applied")}
	case v.col == colR:
		return []decided{v.claim(o, p, "released")}
	case same:
		return v.renewed(o, p, func(d *decided) { d.says, d.grant, d.resumed = "reserved", true, true })
	case v.col == colP:
		return []decided{v.says("in_flight")}
	case v.col == colL:
		return []decided{v.claim(o, p, "lapsed")}
	}
	return []decided{v.says("uncertain")}
}

func (v view) claim(o *Op, p *Policy, ended string) decided {
	n := state{
		phase: pending, claimed: true, request: o.Request, attemptID: o.AttemptID,
		attempt: v.s.attempt + 1, version: v.s.version + 1, ended: ended,
		ttl: p.TTL, retention: p.Retention, lease: v.t.add(leaseOf(o, p)),
		now: v.s.now, maxToken: v.s.maxToken, gone: v.s.gone, past: v.s.past,
	}
	if o.TTL != 0 {
		n.ttl = o.TTL
	}
	return decided{s: n, t: v.t, says: "reserved", col: v.col, shows: true, grant: true}
}

func leaseOf(o *Op, p *Policy) int64 {
	if o.Lease == 0 {
		return min(p.Lease, p.MaxLease)
	}
	return min(o.Lease, p.MaxLease)
}

// renewed counts the lease from now and never shortens it. With an end known
// only as a span, both may be so.
func (v view) renewed(o *Op, p *Policy, say func(*decided)) (out []decided) {
	end := v.t.add(leaseOf(o, p))
	if later := end.above(v.s.lease); !later.empty() {
		d := v.says("")
		d.s.version++
		d.s.lease = later
		say(&d)
		out = append(out, d)
	}
	if kept := v.s.lease.above(end); !kept.empty() {
		d := v.says("")
		d.s.lease = kept
		say(&d)
		out = append(out, d)
	}
	return out
}

func (v view) withToken(o *Op, p *Policy) []decided {
	if v.s.phase == absent {
		return []decided{v.says("not_found")}
	}
	if !v.s.claimed || v.s.token != o.Token {
		return []decided{v.says("stale_token")}
	}
	switch o.Kind {
	case Commit, Fail:
		return []decided{v.settle(o)}
	case Release:
		return []decided{v.release(o)}
	case Extend:
		return v.extend(o, p)
	}
	return []decided{v.resolve(o)}
}

func (v view) stale(o *Op) bool { return o.ExpectedVersion != 0 && o.ExpectedVersion != v.s.version }

func (v view) settle(o *Op) decided {
	done := map[string]string{Commit: "committed", Fail: "failed"}[o.Kind]
	switch v.col {
	case colS, colE, colX:
		if v.s.outcome == o.outcome() {
			return v.says(done)
		}
		return v.says("already_settled")
	}
	if v.stale(o) {
		return v.says("stale_version")
	}
	return v.settled(o, done)
}

func (v view) settled(o *Op, says string) decided {
	d := v.says(says)
	d.s.phase = settled
	d.s.dropped, d.s.notApplied = false, false
	d.s.version++
	d.s.outcome = o.outcome()
	d.s.expires = v.t.add(v.s.ttl)
	d.s.retained = d.s.expires.add(v.s.retention)
	d.s.lease = span{}
	return d
}

func (v view) release(o *Op) decided {
	switch v.col {
	case colS, colE, colX:
		return v.says("already_settled")
	case colR:
		return v.says("released")
	case colC, colK:
		return v.says("stale_token")
	}
	if v.stale(o) {
		return v.says("stale_version")
	}
	return v.free("released", false)
}

func (v view) free(says string, notApplied bool) decided {
	d := v.says(says)
	d.s.phase = released
	d.s.notApplied = notApplied
	d.s.version++
	d.s.expires = v.t.add(v.s.ttl)
	d.s.retained = d.s.expires
	d.s.lease = span{}
	return d
}

func (v view) extend(o *Op, p *Policy) []decided {
	switch v.col {
	case colS, colE, colX:
		return []decided{v.says("already_settled")}
	case colR, colC, colK:
		return []decided{v.says("stale_token")}
	}
	if v.stale(o) {
		return []decided{v.says("stale_version")}
	}
	return v.renewed(o, p, func(d *decided) { d.says = "extended" })
}

func (v view) resolve(o *Op) decided {
	notApplied := o.Verdict == "not_applied"
	switch v.col {
	case colS, colE, colX:
		// A verdict alone agrees with any outcome of its kind.
		alone := o.ErrorCode == "" && o.Response == "" && v.s.verdict() == o.Verdict
		if !notApplied && (alone || v.s.outcome == o.outcome()) {
			return v.says("resolved")
		}
		return v.says("already_settled")
	case colP:
		return v.says("in_flight")
	case colR:
		if notApplied {
			return v.says("resolved")
		}
	case colK:
		if notApplied {
			return v.says("stale_token")
		}
	}
	if v.stale(o) {
		return v.says("stale_version")
	}
	if notApplied {
		return v.free("resolved", true)
	}
	return v.settled(o, "resolved")
}

func (v view) cancel(p *Policy) decided {
	switch v.col {
	case colH, colE:
		return v.says("expired")
	case colP:
		return v.says("in_flight")
	case colU, colL:
		return v.says("uncertain")
	case colS:
		return v.says("already_settled")
	case colC, colK:
		return v.says("cancelled")
	}
	d := v.says("cancelled")
	d.shows = true
	if v.col != colR { // it begins anew
		d.s = state{version: v.s.version, now: v.s.now, maxToken: v.s.maxToken, past: v.s.past, retention: p.Retention, ttl: p.TTL}
	}
	d.s.phase = cancelled
	d.s.notApplied = false
	d.s.version++
	d.s.expires = v.t.add(p.TTL)
	d.s.retained = d.s.expires.add(p.Retention)
	return d
}

func (v view) get() decided {
	if v.s.phase == absent {
		return v.says("not_found")
	}
	return v.says("ok")
}
