#!/usr/bin/env bash
# The proof: real nodes under faults, every answer checked. Each run ends with a
# line of verdict; the script ends with the sum of them, and 0 only if all passed.
#
#   scripts/chaos.sh quick   60 s of kills, stops and cuts; no root
#   scripts/chaos.sh ci      about ten minutes; as root with network namespaces, disks,
#                            25 power cuts, damage, limits and clocks; and a node
#                            started on 1,000 damaged copies of its data
#   scripts/chaos.sh soak    the same over and over, for SOAK_MINUTES (60)
#
# SEED=N sets the first seed, any by default. WRITE=1 has the runs that pass
# write their tables into docs/RELIABILITY.md. A run that fails keeps its
# directory and says what to type to run it again.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=${1:-quick}
seed=${SEED:-$RANDOM}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=false
[ "$(id -u)" -eq 0 ] && root=true

need() { # PROGRAM PACKAGE: as root on a bare machine it is installed
	command -v "$1" >/dev/null && return
	if $root && command -v apt-get >/dev/null; then
		apt-get update -qq && apt-get install -y -qq "$2" >/dev/null
	fi
	command -v "$1" >/dev/null || {
		echo "chaos: $1 is needed (package $2)" >&2
		exit 1
	}
}

# Wall clocks can only be moved in a build of its own.
go build -tags chaos -o "$work/onced" ./cmd/onced

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

runs=0 failed=0 operations=0 faults=0 powercuts=0 damages=0
proof() { # a command of onced chaos, whose last line is a verdict
	local code=0
	"$work/onced" chaos "$@" | tee "$work/out" || code=$?
	line=$(tail -n 1 "$work/out")
	runs=$((runs + 1))
	seed=$((seed + 1))
	if [ "$code" -eq 130 ]; then exit 130; fi
	if [ "$code" -ne 0 ] || [ "${line%% *}" != PASS ]; then failed=$((failed + 1)); fi
}

figure() { # NAME: of the last verdict
	sed -n "s/.* $1=\([0-9]*\).*/\1/p" <<<"$line " | grep . || echo 0
}

run() { # BLOCK LENGTH FAULTS WORKLOAD AT_LEAST: that many faults, however long it takes
	local into=()
	if [ "${WRITE:-}" = 1 ]; then into=(--into "docs/RELIABILITY.md#$1"); fi
	echo "=== $1: $2 of $3 under $4, seed $seed"
	proof run --commit "$commit" --for "$2" --at-least "$5" --faults "$3" --workload "$4" --seed "$seed" ${into[@]+"${into[@]}"}
	operations=$((operations + $(figure operations)))
	faults=$((faults + $(figure faults)))
	if [ "$1" = power ]; then powercuts=$((powercuts + $(figure faults))); fi
}

damage() { # TIMES
	echo "=== damage: a node on $1 damaged copies of its data, seed $seed"
	proof damage --times "$1" --seed "$seed"
	damages=$((damages + $(figure damages)))
}

as_root() { # LENGTH of each run, FAULTS and POWER CUTS at least
	need ip iproute2
	need nft nftables
	need nsenter util-linux
	need mkfs.ext4 e2fsprogs
	need xfs_io xfsprogs
	need strace strace
	run net "$1" net mixed "$2"
	run disk "$1" disk mixed "$2"
	run machine "$1" damage,limit,clock mixed "$2"
	run power "$1" power mixed "$3"
}

set -o pipefail
began=$SECONDS
case $mode in
quick) run quick 60s basic order-once 0 ;;
ci)
	damage 1000
	run failover 60s kill,pause,isolate order-once 20
	run links 60s basic mixed 16
	if $root; then as_root 60s 14 25; else echo "=== network namespaces, disks, limits and clocks: skipped, they need root"; fi
	;;
soak)
	while [ $((SECONDS - began)) -lt $((${SOAK_MINUTES:-60} * 60)) ]; do
		run quick 5m basic order-once 0
		run failover 5m kill,pause,isolate order-once 0
		run links 5m basic mixed 0
		if $root; then as_root 5m 0 0; fi
		damage 10000
	done
	;;
*)
	sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

word=PASS
if [ "$failed" -gt 0 ]; then word=FAIL; fi
echo "$word chaos $mode: $runs runs, $failed failed, $operations operations, $faults faults, $powercuts power cuts, $damages damaged starts, $((SECONDS - began)) s"
[ "$failed" -eq 0 ]
