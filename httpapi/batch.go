package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/idem"
)

type batchBody struct {
	Operations []jsontext.Value `json:"operations"`
}

// batchResult is the answer to one item, as if it had been sent alone.
type batchResult struct {
	status int
	body   any
}

type batchAnswer struct{ results []batchResult }

func (a *batchAnswer) write(e *encoder) {
	e.raw(`{"results":[`)
	for i := range a.results {
		if i > 0 {
			e.raw(",")
		}
		e.raw("{")
		e.number(`"status":`, uint64(a.results[i].status))
		e.name(`"body":`)
		e.body(a.results[i].body)
		e.raw("}")
	}
	e.raw("]}")
}

// serveBatch has a list of independent operations decided in one entry. A
// malformed list is refused whole; a malformed item gets its own 400 while the
// others go on. Without a decision each item that was to be decided says so.
func (c *call) serveBatch() *reply {
	b, err := c.body(false)
	defer b.free()
	if err != nil {
		return c.refuse(err)
	}
	for _, name := range []string{"Idempotency-Key", "If-Match"} {
		if len(c.r.Header[name]) > 0 {
			return c.refuse(invalid(name + " header is not taken by a batch: each item names its own"))
		}
	}
	if err := b.list(); err != nil {
		return c.refuse(err)
	}
	if n := len(b.items); n < 1 || n > MaxBatchOperations {
		return c.refuse(invalid(fmt.Sprintf("operations has %d items, 1 to %d are allowed", n, MaxBatchOperations)))
	}
	c.slab = make([]fsm.Command, len(b.items))
	items := make([]item, len(b.items))
	results := make([]batchResult, len(b.items))
	cmds := make([]*fsm.Command, 0, len(b.items))
	decided := make([]int, 0, len(b.items))
	for i := range b.items {
		items[i].correlation = c.correlation
		if err := items[i].decode(c, &b.items[i]); err != nil {
			place := *err
			place.Detail = "operations[" + strconv.Itoa(i) + "]: " + place.Detail
			results[i] = c.batchResult(&items[i], c.refuseItem(&items[i], &place))
			continue
		}
		cmds = append(cmds, items[i].cmd)
		decided = append(decided, i)
	}
	rep := &reply{status: http.StatusOK, outcome: "batch", body: &batchAnswer{results}}
	if len(cmds) == 0 {
		return rep
	}
	ctx := c.context(0, true)
	defer ctx.end()
	d, fault := c.srv.node.Decide(ctx, cmds, 0)
	var refused *idem.Error
	if fault != nil {
		refused = c.asError(fault)
	} else if len(d.Results) != len(cmds) {
		refused = c.fault("node gave %d results to %d commands", len(d.Results), len(cmds))
	}
	for n, i := range decided {
		if refused != nil {
			results[i] = c.batchResult(&items[i], c.refuseItem(&items[i], refused))
		} else {
			results[i] = c.batchResult(&items[i], c.answer(&items[i], d, &d.Results[n]))
		}
	}
	if refused == nil {
		rep.index, rep.at = d.Index, d.Time
	}
	return rep
}

// list finds the items of a batch: in one pass when all is plain, else with the
// strict decoder, which also refuses.
func (b *body) list() *idem.Error {
	var ok bool
	if b.items, b.members, ok = idem.PlainList(b.items[:0], b.members[:0], b.data, "operations"); ok {
		return nil
	}
	var list batchBody
	if err := idem.Unmarshal(b.data, &list); err != nil {
		return err
	}
	b.items, b.members = b.items[:0], b.members[:0]
	for _, data := range list.Operations {
		it := idem.Item{Data: data}
		first := len(b.members)
		if b.members, ok = idem.PlainMembers(b.members, data); ok {
			it.Members = b.members[first:len(b.members):len(b.members)]
		} else {
			b.members = b.members[:first]
		}
		b.items = append(b.items, it)
	}
	return nil
}

// decode reads one item: its op, then what that operation takes.
func (it *item) decode(c *call, from *idem.Item) *idem.Error {
	in := input{data: from.Data, batch: true, members: from.Members, plain: from.Members != nil}
	op, err := in.op()
	if err != nil {
		return err
	}
	decode, ok := decoders[op]
	if !ok {
		return invalid("op must be reserve, commit, fail, release, extend, cancel or resolve")
	}
	it.op = op
	return decode(c, &in, it)
}

// op finds the op of an item.
func (in *input) op() (string, *idem.Error) {
	for i := range in.members {
		if string(in.members[i].Name) == "op" {
			op, _, err := stringMember("op", in.members[i].Value)
			return op, err
		}
	}
	return itemOp(in.data)
}

// itemOp finds the op of an item without reading the rest.
func itemOp(data jsontext.Value) (string, *idem.Error) {
	if data.Kind() != '{' {
		return "", invalid("an item must be an object")
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	_, _ = dec.ReadToken()
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			break
		}
		if name.String() != "op" {
			if err := dec.SkipValue(); err != nil {
				break
			}
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			break
		}
		op, _, bad := stringMember("op", v)
		return op, bad
	}
	return "", invalid("op is missing")
}

// batchResult keeps what an answer would have said alone, and counts it.
func (c *call) batchResult(it *item, rep *reply) batchResult {
	if it.op != "" {
		c.srv.metrics.count(it.op, rep.outcome, c.namespace)
	}
	return batchResult{rep.status, rep.body}
}
