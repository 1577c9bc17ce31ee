package fsm

import "github.com/onced/onced/fsm/fsmpb"

// Proto gives r as it travels between nodes.
func (r *Result) Proto() *fsmpb.Result { return &fsmpb.Result{} }

// ResultFromProto reads what Proto gave. The result may be shown, not stored.
func ResultFromProto(p *fsmpb.Result) Result { return Result{} }
