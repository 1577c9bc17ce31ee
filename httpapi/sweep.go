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
	b, err := c.body(true)
	defer b.free()
	if err != nil {
		return c.refuse(err)
	}
	cmd := &fsm.Command{Op: fsmpb.Op_OP_SWEEP, Limit: fsm.DefaultSweepLimit}
	if b != nil {
		var sweep sweepBody
		if err := idem.Unmarshal(b.data, &sweep); err != nil {
			return c.refuse(err)
		}
		if sweep.Limit != nil {
			if *sweep.Limit < 1 || *sweep.Limit > fsm.MaxSweep {
				return c.refuse(invalid(fmt.Sprintf("limit must be a whole number from 1 to %d", fsm.MaxSweep)))
			}
			cmd.Limit = *sweep.Limit
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
