#!/usr/bin/env bash
# Figures of this machine, all of one run: compare them with each other, and not
# with those of another run or another machine.
set -eu

usage() {
	cat <<'USAGE'
usage: bench.sh COMMAND [ARGUMENTS]

  peers     onced, with each of its log stores, beside etcd, Redis and
            PostgreSQL, each asked in turn, and the ratios against the project's
            targets. A full run takes about 15 minutes on a quiet machine and
            writes the tables of docs/BENCHMARKS.md; only if it measures all
            systems. Needs etcd, redis-server and postgresql (Debian: apt-get
            install etcd-server redis-server postgresql). Arguments:
            --quick          one round of short measurements, nothing written
            --rounds N (5)   --for LENGTH (3s)   --warmup LENGTH (1s)
            --systems LIST   onced,onced-wal,etcd,redis,postgres
            --onced-args S   more arguments for each node of onced and onced-wal
            --document FILE  where the tables go; "" for nowhere
            -o FILE          the raw figures as JSON (default: a new file in
                             TMPDIR, named at the end)
  floor     the machine's own limits: a synced write, a commit of bbolt, an echo
            over net/http. Arguments: --rounds N (3), --for LENGTH (1s)
  gateway   what the reverse proxy adds to an upstream: three nodes with disks,
            one gateway and the bare upstream, asked in turn. Arguments:
            -rounds N (default 5), -per N requests a round (300), -clients N (1)
  scale     onced by the records it holds, by its nodes, and by what fails. A full
            run takes about 20 minutes on a quiet machine with 24 GB of memory
            and 30 GB of disk. Arguments: --quick, --records LIST, --nodes LIST,
            --only PARTS, -o FILE; --help tells more

All data goes to TMPDIR (default /tmp), which must be on a disk.
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
command=${1:-}
case $command in
gateway) shift ;;
# The others replace this shell: a signal must reach the program that ends the
# servers.
floor | peers) # the peers' clients are in a module of their own
	shift
	(cd scripts/benchpeers && go build -o ../../bin/benchpeers .)
	[ "$command" = peers ] || exec bin/benchpeers floor "$@"
	commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
	if [ -n "$(git status --porcelain -- '*.go' go.mod 2>/dev/null)" ]; then commit="$commit and changes"; fi
	go build -o bin/ ./cmd/onced
	exec bin/benchpeers peers --onced bin/onced --commit "$commit" --document docs/BENCHMARKS.md "$@"
	;;
scale)
	shift
	go build -buildvcs=auto -o bin/ ./cmd/onced ./scripts/benchscale
	exec bin/benchscale -onced bin/onced -document docs/BENCHMARKS.md "$@"
	;;
*)
	usage >&2
	exit 2
	;;
esac
[ "${1:-}" != -- ] || shift

CLUSTER_DIR=$(mktemp -d)
CLUSTER_BIN=$CLUSTER_DIR/onced
CLUSTER_PORT=${CLUSTER_PORT:-14647}
export CLUSTER_DIR CLUSTER_BIN CLUSTER_PORT
end() {
	scripts/cluster.sh stop >/dev/null 2>&1 || true
	rm -rf "$CLUSTER_DIR"
}
trap end EXIT
trap 'exit 130' INT TERM
go build -o "$CLUSTER_BIN" ./cmd/onced
go build -o "$CLUSTER_DIR/gatewaybench" ./scripts/gatewaybench
scripts/cluster.sh start >/dev/null
"$CLUSTER_DIR/gatewaybench" -onced "$CLUSTER_BIN" -endpoints "$(scripts/cluster.sh endpoints | paste -sd, -)" "$@"
