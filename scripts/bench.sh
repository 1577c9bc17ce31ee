#!/usr/bin/env bash
# Figures of this machine, all of one run: compare them with each other, and not
# with those of another run or another machine.
set -eu

usage() {
	cat <<'USAGE'
usage: bench.sh gateway [-- ARGUMENTS]

  gateway   what the reverse proxy adds to an upstream: three nodes with disks,
            one gateway and the bare upstream, asked in turn. Arguments:
            -rounds N (default 5), -per N requests a round (300), -clients N (1)
USAGE
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
case ${1:-} in
gateway) shift ;;
*)
	usage
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
