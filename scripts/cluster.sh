#!/usr/bin/env bash
# Three onced server processes, n1 n2 n3, on this machine's loopback.
# Needs bash, and Go for `start` when CLUSTER_BIN is not given.
set -eu

usage() {
	cat <<'USAGE'
usage: cluster.sh COMMAND [-- SERVER-ARGUMENTS]

  start        build once, start what is not running, return when all are ready
  stop         stop all three in good order; data and logs stay
  status       one line a node
  endpoints    the three base URLs, one a line
  leader       the number of the leader alone, waiting up to 10 s for one
  kill N       end node N at once (-9)
  pause N      stop node N where it stands (STOP)
  resume N     let it go on (CONT)
  restart N    stop node N if it runs, start it on its data, return when it
               answers /healthz
  wipe N       remove the data of node N, which must be stopped

N is 2 or n2. Arguments after -- go to each server that start or restart N
starts; restart without any takes those of the last start.

  CLUSTER_DIR   data, logs and process ids   (default: .cluster in the project)
  CLUSTER_PORT  HTTP of n1; n2 and n3 on +10 and +20, peers on the port after
                each                          (default: 4747)
  CLUSTER_BIN   the onced binary              (default: built by start)
USAGE
}

fail() {
	echo "cluster.sh: $*" >&2
	exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${CLUSTER_DIR:-$root/.cluster}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# saved NAME: what the last start was told, for the commands after it.
saved() {
	if [ -f "$dir/$1" ]; then cat "$dir/$1"; fi
}

port=${CLUSTER_PORT:-}
if [ -z "$port" ] && { [ -d "$dir/n1" ] || [ -d "$dir/n2" ] || [ -d "$dir/n3" ]; }; then
	port=$(saved port) # the data there knows the nodes by their ports
fi
port=${port:-4747}
case $port in *[!0-9]*) fail "CLUSTER_PORT=$port is not a port" ;; esac
bin=${CLUSTER_BIN:-}
case $bin in
'') bin=$(saved bin-path) ;;
/*) ;;
*/*) bin=$PWD/$bin ;;
*) bin=$(command -v "$bin") || fail "CLUSTER_BIN=$CLUSTER_BIN is not there" ;;
esac

http_port() { echo $((port + 10 * ($1 - 1))); }
members() { echo "n1=127.0.0.1:$((port + 1)),n2=127.0.0.1:$((port + 11)),n3=127.0.0.1:$((port + 21))"; }

# stamp PID: when that process was started, empty when it is gone or only
# waits to be reaped. With the id it names one process for ever, so that an id
# that was given to another process is never signalled.
stamp() {
	local line
	if [ -r /proc/self/stat ]; then
		{ line=$(cat "/proc/$1/stat"); } 2>/dev/null || return 0
		line=${line##*) }
		# shellcheck disable=SC2086
		set -- $line
		[ "$1" = Z ] || [ "$1" = X ] || echo "${20}"
	else
		case $(ps -o stat= -p "$1" 2>/dev/null || true) in
		'' | Z*) ;;
		*) ps -o lstart= -p "$1" 2>/dev/null | tr -s ' ' _ || true ;;
		esac
	fi
}

# pid_of N: the id of node N's process if it is still the one we started.
pid_of() {
	local pid started
	[ -f "$dir/n$1.pid" ] || return 1
	read -r pid started <"$dir/n$1.pid" || return 1
	[ -n "$started" ] && [ "$(stamp "$pid")" = "$started" ] || return 1
	echo "$pid"
}

paused() {
	local line
	if [ -r /proc/self/stat ]; then
		{ line=$(cat "/proc/$1/stat"); } 2>/dev/null || return 1
		line=${line##*) }
		[ "${line%% *}" = T ]
	else
		case $(ps -o stat= -p "$1" 2>/dev/null || true) in T*) ;; *) return 1 ;; esac
	fi
}

# http N PATH: the body of node N's answer, its status code on a line of its
# own before it. Nothing from a node that is paused or not ours.
http() {
	local pid line='' head=1
	pid=$(pid_of "$1") && ! paused "$pid" || return 0
	{
		exec 3<>"/dev/tcp/127.0.0.1/$(http_port "$1")" || return 0
		printf 'GET %s HTTP/1.0\r\nHost: localhost\r\nOnced-Timeout: 300ms\r\n\r\n' "$2" >&3
		while IFS= read -r -t 1 line <&3 || [ -n "$line" ]; do
			line=${line%$'\r'}
			case $head$line in
			1HTTP/*) line=${line#* } && echo "${line%% *}" ;;
			1) head= ;;
			1*) ;;
			*) echo "$line" ;;
			esac
			line=
		done
	} 2>/dev/null
}

answers() { # N PATH: with 200
	[ "$(http "$1" "$2" | head -n 1)" = 200 ]
}

# claim N: "LEADER TERM" as node N sees it.
claim() {
	http "$1" /v1/cluster | sed -n 's/.*"leader" *: *"n\([123]\)".*"term" *: *\([0-9]*\).*/\1 \2/p'
}

# find_leader: the number of the node that leads in the highest term that any
# node knows of, if that node says so itself.
find_leader() {
	local n c best='' term=0 claims=()
	for n in 1 2 3; do
		c=$(claim "$n")
		claims[n]=$c
		if [ -n "$c" ] && [ "${c#* }" -gt "$term" ]; then
			term=${c#* }
			best=$c
		fi
	done
	[ -n "$best" ] && [ "${claims[${best% *}]}" = "$best" ] && echo "${best% *}"
}

number() {
	case ${1-} in
	1 | 2 | 3) echo "$1" ;;
	n1 | n2 | n3) echo "${1#n}" ;;
	*) fail "which node? Say 1, 2 or 3 (or n1, n2, n3)" ;;
	esac
}

running() { # N: its process id, or the end
	pid_of "$1" || fail "n$1 is not running"
}

log_tail() {
	echo "--- n$1, end of $dir/n$1.log" >&2
	tail -n 20 "$dir/n$1.log" >&2 || true
}

save_args() {
	if [ $# -gt 0 ]; then printf '%s\0' "$@" >"$dir/args"; else rm -f "$dir/args"; fi
}

launch() {
	local n=$1 pid arg args=()
	[ -n "$bin" ] && [ -x "$bin" ] || fail "no binary: run cluster.sh start first, or set CLUSTER_BIN"
	if [ -f "$dir/args" ]; then
		while IFS= read -r -d '' arg; do args+=("$arg"); done <"$dir/args"
	fi
	mkdir -p "$dir/n$n"
	rm -f "$dir/n$n.pid"
	# nohup: the nodes outlive the terminal they were started from.
	nohup "$bin" server --node-id "n$n" --data-dir "$dir/n$n" --cluster "$(members)" \
		--http-addr "127.0.0.1:$(http_port "$n")" --peer-addr "127.0.0.1:$(($(http_port "$n") + 1))" \
		${args[@]+"${args[@]}"} </dev/null >>"$dir/n$n.log" 2>&1 &
	pid=$!
	echo "$pid $(stamp "$pid")" >"$dir/n$n.pid"
}

# wait_gone PID SECONDS
wait_gone() {
	local until=$((SECONDS + $2)) started
	started=$(stamp "$1")
	[ -n "$started" ] || return 0
	while [ "$(stamp "$1")" = "$started" ]; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02
	done
}

terminate() { # N: asks it to end in good order, a paused one too
	local pid
	pid=$(pid_of "$1") || return 0
	kill -TERM "$pid" 2>/dev/null || true
	kill -CONT "$pid" 2>/dev/null || true
}

finish() { # N: waits for it to end
	local pid
	pid=$(pid_of "$1") || { rm -f "$dir/n$1.pid" && return 0; }
	if ! wait_gone "$pid" 15; then
		echo "n$1 did not end within 15 s: killed" >&2
		if pid=$(pid_of "$1"); then kill -9 "$pid" 2>/dev/null || true; fi
		wait_gone "$pid" 5 || fail "n$1 (process $pid) does not end"
	fi
	rm -f "$dir/n$1.pid"
}

# await PATH N...: until every node answers PATH with 200; ends with the logs'
# tails when one of them has ended, or after 30 s.
await() {
	local path=$1 n until=$((SECONDS + 30)) waiting ended
	shift
	while :; do
		waiting= ended=
		for n in "$@"; do
			answers "$n" "$path" || waiting="$waiting n$n"
			if ! pid_of "$n" >/dev/null; then
				log_tail "$n"
				ended="$ended n$n"
			fi
		done
		[ -z "$ended" ] || fail "ended instead of answering $path:$ended (what else runs is left running)"
		[ -n "$waiting" ] || return 0
		if [ "$SECONDS" -ge "$until" ]; then
			for n in "$@"; do log_tail "$n"; done
			fail "no 200 from $path within 30 s:$waiting (paused? cluster.sh resume N); what runs is left running"
		fi
		sleep 0.05
	done
}

start() {
	local n up='' started=''
	for n in 1 2 3; do if pid_of "$n" >/dev/null; then up="$up n$n"; fi; done
	if [ -n "$up" ] && [ "$(saved port)" != "$port" ]; then
		fail "running on CLUSTER_PORT=$(saved port) already:$up; stop them first"
	fi
	if [ "$up" = " n1 n2 n3" ]; then
		echo "already running"
		await /readyz 1 2 3
		return
	fi
	if [ -z "${CLUSTER_BIN:-}" ]; then
		bin=$dir/bin/onced
		(cd "$root" && go build -o "$bin" ./cmd/onced) || fail "the build failed"
	fi
	echo "$port" >"$dir/port"
	echo "$bin" >"$dir/bin-path"
	if [ -z "$up" ] || [ $# -gt 0 ]; then save_args "$@"; fi
	for n in 1 2 3; do
		if ! pid_of "$n" >/dev/null; then
			launch "$n"
			started="$started n$n"
		fi
	done
	await /readyz 1 2 3
	if [ -n "$up" ]; then echo "started$started; already running:$up"; else echo "started$started"; fi
	endpoints
}

stop() {
	local n
	for n in 1 2 3; do terminate "$n"; done
	for n in 1 2 3; do finish "$n"; done
}

endpoints() {
	local n
	for n in 1 2 3; do echo "http://127.0.0.1:$(http_port "$n")"; done
}

status_of() {
	local pid what
	if ! pid=$(pid_of "$1"); then
		echo "n$1  stopped"
		return
	fi
	if paused "$pid"; then
		what=paused
	elif answers "$1" /readyz; then
		what=ready
		case "$(claim "$1")" in "$1 "*) what="ready, leads" ;; esac
	elif answers "$1" /healthz; then
		what="alive, not ready"
	else
		what="not answering"
	fi
	echo "n$1  process $pid  http://127.0.0.1:$(http_port "$1")  $what"
}

status() {
	# Side by side: a node that hangs must not hold up the others' lines.
	exec 4< <(status_of 1) 5< <(status_of 2) 6< <(status_of 3)
	cat <&4 && cat <&5 && cat <&6
}

leader() {
	local until=$((SECONDS + 10))
	until find_leader; do
		[ "$SECONDS" -lt "$until" ] || fail "no leader within 10 s"
		sleep 0.05
	done
}

command=${1-}
[ $# -eq 0 ] || shift
node=
case $command in
kill | pause | resume | restart | wipe)
	node=$(number "${1-}")
	shift
	;;
esac
if [ "${1-}" = -- ]; then
	shift
	case $command in
	start | restart) ;;
	*) fail "$command takes no arguments for the servers" ;;
	esac
elif [ $# -gt 0 ]; then
	fail "what is $1? Arguments for the servers come after --"
fi

case $command in
start) start "$@" ;;
stop) stop ;;
status) status ;;
endpoints) endpoints ;;
leader) leader ;;
kill)
	pid=$(running "$node")
	kill -9 "$pid"
	wait_gone "$pid" 5 || fail "n$node (process $pid) does not end"
	rm -f "$dir/n$node.pid"
	;;
pause) pid=$(running "$node") && kill -STOP "$pid" ;;
resume) pid=$(running "$node") && kill -CONT "$pid" ;;
restart)
	terminate "$node"
	finish "$node"
	if [ $# -gt 0 ]; then save_args "$@"; fi
	launch "$node"
	await /healthz "$node"
	;;
wipe)
	if pid_of "$node" >/dev/null; then fail "n$node runs: its data is removed only when it is stopped"; fi
	rm -rf "${dir:?}/n$node"
	;;
help | -h | --help) usage ;;
'')
	usage >&2
	exit 2
	;;
*)
	usage >&2
	fail "unknown command $command"
	;;
esac
