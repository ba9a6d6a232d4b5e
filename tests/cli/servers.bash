# Redis servers of one test. They end with it, and with its shell should that be killed.
# shellcheck shell=bash

# In a function (load) a plain declare would be local to it.
declare -gA redis_pids=()
redis_folder=

# start_redis NAME OPTION...: a server that is empty and saves nothing, unless its options say otherwise. It has answered,
# if only that it wants a password or is loading.
start_redis() {
  local name=$1
  shift
  if [ -z "$redis_folder" ]; then
    redis_folder=$(mktemp -d "$BATS_RUN_TMPDIR/redis.XXXXXX")
    # The path of a socket has at most 107 bytes.
    ((${#redis_folder} < 90)) || redis_folder=$(mktemp -d /tmp/lk.XXXXXX)
  fi
  mkdir -p "$redis_folder/$name"
  setpriv --pdeathsig KILL redis-server --daemonize no --port 0 --unixsocket "$(socket_of "$name")" --save '' \
    --appendonly no --dir "$redis_folder/$name" "$@" >"$redis_folder/$name/log" 2>&1 </dev/null 3>&- 5>&- 6>&- 7>&- &
  redis_pids[$name]=$!
  # A test's own `wait` is not for it.
  disown "${redis_pids[$name]}"
  wait_until 20 has_answered_or_ended "$name"
  has_answered "$name" || {
    unset "redis_pids[$name]"
    cat "$redis_folder/$name/log"
    return 1
  }
}

# start_redis_at OPTION NAME OPTION...: OPTION is --port or --tls-port; which one it is, is in $port.
start_redis_at() {
  local option=$1 name=$2
  shift 2
  for _ in 1 2 3 4 5; do
    # Between this and the server somebody else may take it.
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    ((port < 55536)) || continue # a cluster node needs its port + 10000 too
    start_redis "$name" "$option" "$port" "$@" && return
    grep -q 'Address already in use' "$redis_folder/$name/log" || return
  done
  return 1
}

socket_of() { echo "$redis_folder/$1/s"; }
url_of() { echo "redis+unix://$(socket_of "$1")"; }
has_answered() { redis-cli -s "$(socket_of "$1")" ping >"$BATS_TEST_TMPDIR/ping" 2>&1; }
has_answered_or_ended() { has_answered "$1" || is_no_process "${redis_pids[$1]}"; }

# ask_redis NAME WORDS...: what the server answers.
ask_redis() {
  redis-cli -s "$(socket_of "$1")" "${@:2}"
}

# No trace is left of it, and nothing is saved.
kill_redis() {
  kill -KILL "${redis_pids[$1]}"
  wait_until 10 is_no_process "${redis_pids[$1]}"
  unset "redis_pids[$1]"
  rm -f "$(socket_of "$1")"
}
is_no_process() { ! kill -0 "$1" 2>"$BATS_TEST_TMPDIR/kill.err"; }

# The machine hangs: connections stay, nothing is answered.
stop_redis() { kill -STOP "${redis_pids[$1]}"; }
go_on_redis() { kill -CONT "${redis_pids[$1]}"; }

end_all_redis() {
  local name
  for name in "${!redis_pids[@]}"; do
    kill -KILL "${redis_pids[$name]}" || true
  done
  [ -z "$redis_folder" ] || rm -rf "$redis_folder"
}
