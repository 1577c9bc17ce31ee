#!/usr/bin/env bash
# Builds the product without one safeguard at a time (build tag mutant_NAME) and
# shows which test fails then. A mutant that no test catches, or that does not
# build, is a failure: the safeguard it takes out would be held by nothing.
# Usage: scripts/mutants.sh [NAME...]
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# name, package, the tests that are to catch it, what it leaves out
mutants() {
	cat <<'LIST'
fastpath       ./cluster TestB01               heartbeats past raft's main loop (hashicorp/raft#695)
readfence      ./cluster TestB66|TestB13       reads that do not wait for an entry of their own
relayedfence   ./cluster TestARelayedFence      a reader that rides with duplicates, answered from the leader's memory
olddisk        ./cluster TestNoReplayFromAnOldDisk  replays by a node that has heard nothing since its start
await          ./cluster TestAwait             waiting for a future that raft never answers (hashicorp/raft#498)
onedelete      ./cluster TestLogStoreDelete    a log compacted in one transaction
nowatchdog     ./cluster TestB04               a leader that holds the others while its disk hangs (hashicorp/raft#503)
nocrc          ./cluster TestB29               stored entries without their checksum
nomarker       ./cluster TestB09               an emptied raft.db taken for a new node
shorttrail     ./cluster TestDamagedNewest     too little log behind a damaged snapshot
ackearly       ./cluster TestWaiting           acknowledged before it is applied
newattempt     ./cluster TestB35               a lost answer of the leader repeated as another attempt
stepclock      ./cluster TestM_LogTime         log time that steps with a wall clock
nosync         ./cluster TestB23               a log that is not synced
replaysapply   ./cluster TestReplaysAre        replays counted by every node that applies them
anytoken       ./fsm     .                     any token settles
resolveany     ./fsm     .                     resolve without the token it judges
wallclock      ./fsm     .                     time.Now in Apply
maporder       ./fsm     .                     records of a snapshot in map order
sweepversion   ./fsm     .                     a sweep that changes a record and not its version
anyoperation   ./fsm     .                     a digest that ignores the operation
nospaces       ./fsm     .                     a key that is not scoped by its namespace
nocopy         ./fsm     .                     a snapshot taken without a copy
notombstone    ./fsm     .                     an outcome removed without a tombstone
attemptfirst   ./fsm     .                     the same attempt answered before its request is compared
ttlreserve     ./fsm     .                     a ttl that counts from the reserve
localrerun     ./fsm     .                     what may be re-run answered from memory
horizonleft    ./fsm     .                     a horizon at the oldest record left
tokencounter   ./fsm     .                     tokens from a counter alone
policynow      ./fsm     .                     a policy that reaches back into live claims
sweepuncertain ./fsm     .                     an uncertain record swept
entrycrc       ./fsm     .                     an entry's checksum not compared
absolutelease  ./client  .                     a lease taken as an absolute time
LIST
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
began=$SECONDS total=0 caught=0
while read -r name package tests what; do
	if [ $# -gt 0 ]; then
		case " $* " in *" $name "*) ;; *) continue ;; esac
	fi
	total=$((total + 1))
	since=$SECONDS
	if ! go test -tags "mutant_$name" -count=1 -vet=off -run '^$' "$package" >"$log" 2>&1; then
		echo "$name: DOES NOT BUILD"
		tail -n 5 "$log"
		continue
	fi
	if go test -tags "mutant_$name" -count=1 -short -failfast -vet=off -timeout 120s -run "$tests" "$package" >"$log" 2>&1; then
		echo "$name: NOT CAUGHT by $tests ($what)"
		continue
	fi
	by=$(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p; s/^panic: test timed out.*/a test that hangs/p; s/^panic: .*/a panic/p' "$log" | head -n 1)
	if [ -z "$by" ]; then
		echo "$name: NOT CAUGHT: the tests did not end as tests do"
		tail -n 5 "$log"
		continue
	fi
	caught=$((caught + 1))
	echo "$name: caught by $by in $((SECONDS - since)) s ($what)"
done < <(mutants)
echo "$caught of $total mutants caught in $((SECONDS - began)) s"
[ "$total" -gt 0 ] && [ "$caught" -eq "$total" ]
