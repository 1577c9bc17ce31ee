package httpapi

import (
	"fmt"

	"github.com/onced/onced/fsm"
	"github.com/onced/onced/fsm/fsmpb"
	"github.com/onced/onced/idem"
)

type sweepBody struct {
	Limit *uint32 `json:"limit"`
}

// sweepAnswer counts what one sweep did: records removed, verdicts kept
// without their response, and due records left for the next sweep.
type sweepAnswer struct {
	Dropped    int `json:"dropped"`
	Tombstoned int `json:"tombstoned"`
	Remaining  int `json:"remaining"`
}

// serveSweep does one sweep now, bounded as those on the leader's timer are.
func (c *call) serveSweep() *reply {
	data, free, err := c.body(true)
	defer free()
	if err != nil {
		return c.refuse(err)
	}
	cmd := &fsm.Command{Op: fsmpb.Op_OP_SWEEP, Limit: fsm.DefaultSweepLimit}
	if data != nil {
		var b sweepBody
		if err := idem.Unmarshal(data, &b); err != nil {
			return c.refuse(err)
		}
		if b.Limit != nil {
			if *b.Limit < 1 || *b.Limit > fsm.MaxSweep {
				return c.refuse(invalid(fmt.Sprintf("limit must be a whole number from 1 to %d", fsm.MaxSweep)))
			}
			cmd.Limit = *b.Limit
		}
	}
	res, rep := c.decideOne(cmd)
	if rep != nil {
		return rep
	}
	rep = res.reply()
	rep.body = &sweepAnswer{res.result.Dropped, res.result.Tombstoned, res.result.Remaining}
	return rep
}
