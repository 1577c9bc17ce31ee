package httpapi

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

// input is one operation as it was sent: the body of a call, or an item of a
// batch. An item has no headers of its own.
type input struct {
	data       []byte
	members    []idem.Member // when plain: those of data
	plain      bool
	batch      bool
	header     []string // Idempotency-Key
	ifMatch    uint64
	hasIfMatch bool
}

// item is one operation on its way to a decision. A decoder fills it as far as
// it comes, so that a refusal can name the key.
type item struct {
	op          string
	cmd         *fsm.Command
	wait        time.Duration
	made        string // attemptId that was made here
	key         string
	correlation string
}

// decoder turns an input into a command. It checks everything that can be
// checked before the log, and changes nothing.
type decoder func(c *call, in *input, it *item) *idem.Error

// decoders has an entry for each operation that a batch may hold.
var decoders = map[string]decoder{
	"reserve": decodeReserve,
	"commit":  decodeCommit,
	"fail":    decodeFail,
	"release": decodeRelease,
	"extend":  decodeExtend,
	"cancel":  decodeCancel,
	"resolve": decodeResolve,
}

// opMember lets an item of a batch carry its op; alone, op is unknown.
type opMember struct {
	Op *string `json:"op"`
}

// common are the members of every operation.
type common struct {
	keyMembers
	CorrelationID *string `json:"correlationId"`
}

// begin starts the command of it and takes what all operations share. required
// says that nothing but a key can name the record.
func (it *item) begin(c *call, in *input, op fsmpb.Op, m *common, required bool) *idem.Error {
	it.cmd = c.newCommand()
	it.cmd.Op, it.cmd.Namespace = op, c.namespace
	it.correlation = c.correlation
	if m.CorrelationID != nil {
		if err := idem.CheckCorrelationID(*m.CorrelationID); err != nil {
			return err
		}
		it.correlation = *m.CorrelationID
	}
	it.cmd.CorrelationId = it.correlation
	key, err := m.resolve(in.header)
	if err != nil {
		return err
	}
	if key == "" && required {
		return &idem.Error{Code: idem.CodeKeyMissing, Detail: "key is missing: name it in the body or in the Idempotency-Key header"}
	}
	it.key, it.cmd.Key = key, key
	return nil
}

// takeToken reads the holder's token, without which nothing is settled.
func (it *item) takeToken(v jsontext.Value) *idem.Error {
	s, _, err := stringMember("token", v)
	if err != nil {
		return err
	}
	it.cmd.Token, err = idem.ParseToken(s)
	return err
}

// takeVersion reads expectedVersion and If-Match, which must agree.
func (it *item) takeVersion(in *input, expected *uint64) *idem.Error {
	it.cmd.ExpectedVersion = in.ifMatch
	if expected == nil {
		return nil
	}
	if *expected == 0 {
		return invalid("expectedVersion must be at least 1")
	}
	if in.hasIfMatch && in.ifMatch != *expected {
		return invalid("expectedVersion and the If-Match header differ: send one of them")
	}
	it.cmd.ExpectedVersion = *expected
	return nil
}

// takeOutcome puts the response of a commit or fail into the command, or that
// its holder had one that is too large to send. That is an outcome of its own:
// it is not the same as having none.
func (it *item) takeOutcome(c *call, kind string, response jsontext.Value, omitted bool) *idem.Error {
	if !omitted {
		return it.takeResponse(c, kind, response)
	}
	if response != nil {
		return invalid("responseOmitted says that response is left out, but response is there: send one of them")
	}
	it.cmd.ResponseOmitted = true
	var err *idem.Error
	it.cmd.OutcomeDigest, err = idem.OutcomeDigest(kind+", omitted", it.cmd.ErrorCode, nil, false)
	return err
}

// takeResponse puts a response into the command: redacted if the namespace
// says so, digested whole, and left out when it is larger than any namespace
// keeps. White space between tokens goes, everything else stays as sent.
func (it *item) takeResponse(c *call, kind string, response jsontext.Value) *idem.Error {
	present := response != nil
	if present {
		redact, err := c.redacts()
		if err != nil {
			return err
		}
		if redact {
			if response, it.cmd.Redacted, err = idem.Redact(response); err != nil {
				return err
			}
		}
	}
	var err *idem.Error
	if it.cmd.OutcomeDigest, err = idem.OutcomeDigest(kind, it.cmd.ErrorCode, response, present); err != nil {
		return err
	}
	if !present {
		return nil
	}
	response = response.Clone() // of the body it must not keep a part
	if !idem.PlainCompact(response) {
		if err := response.Compact(); err != nil {
			return invalid("response is not well-formed JSON")
		}
	}
	it.cmd.HasResponse = true
	if len(response) > fsm.MaxResponseBytes {
		it.cmd.ResponseOmitted = true
		return nil
	}
	it.cmd.Response = response
	return nil
}

// redacts tells whether the namespace of the call redacts responses. A node
// that does not know the namespace yet asks for the fresh state: to guess
// would either lose a response or leak a secret.
func (c *call) redacts() (bool, *idem.Error) {
	if c.redact != nil {
		return *c.redact, nil
	}
	var ns *fsm.Namespace
	var missing *idem.Error
	look := func(m *fsm.Machine, _ fsm.Time) { ns, missing = namespaceError(m, c.namespace) }
	if _, _, err := c.read(fsm.ReadOptions{}, look); err != nil {
		return false, err
	}
	if missing != nil {
		if _, _, err := c.read(fsm.ReadOptions{Strong: true}, look); err != nil {
			return false, err
		}
	}
	if missing != nil {
		return false, missing
	}
	c.redact = &ns.Policy.Redact
	return *c.redact, nil
}

// serveSingle answers one operation that came alone.
func (c *call) serveSingle(op string, decode decoder) *reply {
	b, err := c.body(false)
	defer b.free()
	if err != nil {
		return c.refuse(err)
	}
	in := input{data: b.data, header: c.r.Header["Idempotency-Key"]}
	b.members, in.plain = idem.PlainMembers(b.members, b.data)
	in.members = b.members
	if in.ifMatch, err = versionHeader(c.r.Header); err != nil {
		return c.refuse(err)
	}
	in.hasIfMatch = in.ifMatch != 0
	if in.hasIfMatch && (op == "reserve" || op == "cancel") {
		return c.refuse(invalid("If-Match header is not taken by " + op))
	}
	it := item{op: op}
	if err := decode(c, &in, &it); err != nil {
		if it.correlation != "" {
			c.correlation = it.correlation
		}
		c.key = it.key
		return c.refuseItem(&it, err)
	}
	c.correlation, c.key = it.correlation, it.key
	ctx := c.context(it.wait, !tokenless(op))
	defer ctx.end()
	d, fault := c.srv.node.Decide(ctx, []*fsm.Command{it.cmd}, it.wait)
	if fault != nil {
		return c.refuseItem(&it, c.asError(fault))
	}
	if len(d.Results) != 1 {
		return c.refuseItem(&it, c.fault("node gave %d results to 1 command", len(d.Results)))
	}
	return c.answer(&it, d, &d.Results[0])
}

// tokenless tells that op starts or forbids something: nobody must find it
// done after its caller has gone away unanswered. The others record what is
// already a fact.
func tokenless(op string) bool { return op == "reserve" || op == "cancel" }
