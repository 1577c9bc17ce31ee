package main

import "slices"

// The systems, by the names that --systems takes.
const (
	nameOnced    = "onced"     // with --log-store bolt, the default
	nameOncedWAL = "onced-wal" // with --log-store wal
	nameEtcd     = "etcd"
	nameRedis    = "redis"
	namePostgres = "postgres"
)

var systemNames = []string{nameOnced, nameOncedWAL, nameEtcd, nameRedis, namePostgres}

// step is one work that some systems do in turn, so that what is compared was
// measured within seconds of each other.
type step struct {
	clients int
	turns   []turn
}

type turn struct {
	system string
	work   work
}

// plan is one round. Duplicates and batches say little of a log store: one is not
// asked, or syncs seldom.
var plan = []step{
	{1, []turn{{nameOnced, guard}, {nameOncedWAL, guard}, {nameEtcd, guard}, {nameRedis, guard}, {namePostgres, guard}}},
	{64, []turn{
		{nameOnced, guard},
		{nameOncedWAL, guard},
		{nameOnced, guardAny},
		{nameEtcd, guard},
		{nameRedis, guard},
		{namePostgres, guard},
		{nameEtcd, guardHonest},
		{nameRedis, guardHonest},
	}},
	{256, []turn{
		{nameOnced, guard},
		{nameOncedWAL, guard},
		{nameOnced, guardAny},
		{nameEtcd, guard},
		{nameRedis, guard},
		{namePostgres, guard},
	}},
	{1, []turn{{nameOnced, reserve}, {nameOncedWAL, reserve}}},
	{1, []turn{{nameOnced, duplicateAny}, {nameRedis, duplicate}, {nameEtcd, duplicate}, {namePostgres, duplicate}}},
	{64, []turn{
		{nameOnced, duplicateAny},
		{nameOnced, duplicate},
		{nameRedis, duplicate},
		{nameEtcd, duplicate},
		{nameEtcd, duplicateTxn},
		{namePostgres, duplicate},
	}},
	{16, []turn{{nameOnced, guardBatch}, {nameRedis, guardBatch}}},
	{16, []turn{{nameOnced, dupBatch}, {nameRedis, dupBatch}}},
}

// turnsOf gives the turns of the systems that take part, beginning in each round
// at another one: whoever comes first in a step has no advantage over the run.
func (s step) turnsOf(systems []string, round int) []turn {
	var turns []turn
	for _, t := range s.turns {
		if slices.Contains(systems, t.system) {
			turns = append(turns, t)
		}
	}
	if len(turns) == 0 {
		return nil
	}
	first := round % len(turns)
	return append(slices.Clone(turns[first:]), turns[:first]...)
}
