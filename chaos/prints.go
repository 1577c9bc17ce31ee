package chaos

import (
	"context"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"time"
)

// The namespace of trades: reserves there name no key but a fingerprint, and the
// answer says which key that was. The search for orders takes such a call as one
// on the key that it was told, one of unknown fate as one that may have been on
// any key of its fingerprint. checkPrints holds which key it had to be.
const (
	tradesNS    = "trades"
	printWindow = 400 // milliseconds
	printsAlive = 6   // fingerprints that are traded at once
)

// printOf gives the fingerprint's members for the trade of a symbol.
func printOf(symbol string) map[string]any {
	return map[string]any{"kind": "trade", "exchange": "chaos", "symbol": symbol, "action": "BUY", "quantity": "1", "mode": "live"}
}

// minuteOf gives the minute that a fingerprint's key ends with; -1 for no such key.
func minuteOf(key string) int64 {
	n, err := strconv.ParseInt(key[strings.LastIndexByte(key, ':')+1:], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// trade reserves by a fingerprint and settles what it is granted, most of the
// time, and judges what others have left.
func (w *load) trade(ctx context.Context, client int, rng *rand.Rand) {
	symbol := "S" + strconv.FormatUint(w.seed, 10) + "x" + strconv.Itoa(rng.IntN(printsAlive))
	o := &Op{Client: client, NS: tradesNS, Fingerprint: symbol, Kind: Reserve, Request: "t|", AttemptID: newAttempt(rng)}
	for {
		if w.call(ctx, rng, o) != nil {
			return
		}
		if o.Fate == Known || rng.IntN(4) == 0 {
			break
		}
		o = o.again()
		o.Key = ""
	}
	if o.Fate != Known || o.Key == "" {
		return
	}
	settle := &Op{Client: client, NS: tradesNS, Key: o.Key, Kind: Commit, Verdict: "committed", Response: `{"by":"` + o.AttemptID + `"}`}
	switch o.Answer.Says {
	case "reserved":
		_ = pause(ctx, between(rng, 0, 60*time.Millisecond))
		settle.Token = o.Answer.Token
		switch rng.IntN(12) {
		case 0:
			return // dies
		case 1:
			settle.Kind, settle.Verdict, settle.Response = Release, "", ""
		}
	case "uncertain":
		look := &Op{Client: client, NS: tradesNS, Key: o.Key, Kind: Get}
		if w.call(ctx, rng, look) != nil || look.Fate != Known || look.Answer.Record == nil || look.Answer.Record.Token == "" {
			return
		}
		settle.Kind, settle.Token = Resolve, look.Answer.Record.Token
	default:
		_ = pause(ctx, between(rng, 0, 150*time.Millisecond))
		return
	}
	_ = w.call(ctx, rng, settle)
}

// checkPrints holds the keys of fingerprints against the contract: while the
// latest claim is pending or uncertain, or was settled less than the window ago,
// a fingerprint means that claim's key; else the key of the minute.
func (f *Findings) checkPrints(ops []*Op) {
	claims := map[string][]*Op{}
	byKey := map[string][]*Op{}
	for _, o := range ops {
		if o.NS == tradesNS && o.Key != "" {
			byKey[o.Key] = append(byKey[o.Key], o)
		}
		if o.Fingerprint == "" || o.Fate != Known {
			continue
		}
		switch {
		case o.Key == "":
			f.wrong(nil, "call %d by the fingerprint %s was not told which key it means: %s", o.ID, o.Fingerprint, o)
			continue
		case o.grants() && !o.Answer.Resumed:
			claims[o.Fingerprint] = append(claims[o.Fingerprint], o)
		}
		now := o.Answer.Time / 60_000
		switch m := minuteOf(o.Key); {
		case m > now || m < 0:
			f.wrong(nil, "call %d by the fingerprint %s was decided in minute %d, and told the key %s", o.ID, o.Fingerprint, now, o.Key)
		case m < now && o.Answer.Record.Settled != 0 && o.Answer.Time > o.Answer.Record.Settled+printWindow+1:
			f.wrong(nil, "call %d by the fingerprint %s was told %s, which was settled more than the window before", o.ID, o.Fingerprint, o.Key)
		}
	}
	for print, list := range claims {
		sort.SliceStable(list, func(i, j int) bool { return list[i].Answer.Index < list[j].Answer.Index })
		for i, o := range list[min(1, len(list)):] {
			if before := list[i]; before.Key != o.Key && !over(byKey[before.Key], o) {
				f.wrong(&f.DoubleGrants, "the fingerprint %s was granted to call %d as %s, while %s of call %d was neither settled for the window nor given back", print, o.ID, o.Key, before.Key, before.ID)
			}
		}
	}
}

// over tells whether one of the calls on a key may have ended its claim, early
// enough for a claim of another key of the fingerprint.
func over(calls []*Op, claim *Op) bool {
	for _, o := range calls {
		if o.Kind == Reserve || o.Kind == Get || o.Kind == Extend || o.Call > claim.Return {
			continue
		}
		switch {
		case o.Fate == Unknown:
			return true
		case !o.acknowledged() || o.Answer.Index > claim.Answer.Index:
		case o.Kind == Release || o.Verdict == "not_applied":
			return true
		default:
			settled := o.Answer.Time
			if r := o.Answer.Record; r != nil && r.Settled != 0 {
				settled = r.Settled
			}
			if claim.Answer.Time >= settled+printWindow-1 {
				return true
			}
		}
	}
	return false
}

// spread gives ops with every call of unknown fate that named a fingerprint once
// for each key of it.
func spread(ops []*Op) []*Op {
	keys := map[string]map[string]bool{}
	for _, o := range ops {
		if o.Fingerprint != "" && o.Key != "" {
			if keys[o.Fingerprint] == nil {
				keys[o.Fingerprint] = map[string]bool{}
			}
			keys[o.Fingerprint][o.Key] = true
		}
	}
	if len(keys) == 0 {
		return ops
	}
	out := make([]*Op, 0, len(ops))
	for _, o := range ops {
		switch {
		case o.Fingerprint == "" || o.Fate == Known && o.Key != "":
			out = append(out, o)
		case o.Fate == Unknown:
			for key := range keys[o.Fingerprint] {
				x := *o
				x.Key = key
				out = append(out, &x)
			}
		}
	}
	return out
}
