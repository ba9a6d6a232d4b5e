# What every suite of lk's commands starts from: $LK is the program, each test has a folder of its own and no LK_* of the caller.
# shellcheck shell=bash

bats_require_minimum_version 1.5.0

# The stores that every test of a suite runs over: `for store in $stores; do fresh_store "$store"; …`.
stores="sqlite redis"

load servers

setup() {
  : "${LK:?must be the path of the lk to test}"
  local name
  for name in ${!LK_@} ${!XDG_@}; do
    unset "$name"
  done
  unset NO_COLOR
  export TZ=UTC HOME="$BATS_TEST_TMPDIR/home"
  mkdir "$HOME"
  cd "$BATS_TEST_TMPDIR" || return
}

# Ends what the test left behind in the background, however the test ended.
teardown() {
  local children
  children=$(jobs -p)
  if [ -n "$children" ]; then
    # shellcheck disable=SC2086
    { kill -KILL $children && wait $children; } 2>"$BATS_TEST_TMPDIR/teardown.err" || true
  fi
  # A guardian that gives a lock back writes in the test's folder, which bats is about to remove.
  wait_until 2 no_lk_of_this_test 2>>"$BATS_TEST_TMPDIR/teardown.err" || {
    # shellcheck disable=SC2046
    kill -KILL $(lks_of_this_test) 2>>"$BATS_TEST_TMPDIR/teardown.err" || true
    wait_until 5 no_lk_of_this_test || true
  }
  end_all_redis
}

# The pids of all lk and guardians that this test started, in whatever way.
lks_of_this_test() {
  local pid
  for pid in $(pgrep -x 'lk|lock-guardian'); do
    ! grep -qzsxF "BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR" "/proc/$pid/environ" || echo "$pid"
  done
}
no_lk_of_this_test() { [ -z "$(lks_of_this_test)" ]; }

lk() {
  "$LK" "$@"
}

# An empty store of that kind, which LK_STORE then names.
fresh_store() {
  echo "store: $1"
  case $1 in
    sqlite)
      LK_STORE=$(mktemp -d "$BATS_TEST_TMPDIR/store.XXXXXX")/locks.db
      export LK_STORE
      ;;
    redis)
      if [ -n "${redis_pids[main]-}" ]; then
        ask_redis main FLUSHALL >"$BATS_TEST_TMPDIR/flushed"
      else
        start_redis main
      fi
      LK_STORE=$(url_of main)
      export LK_STORE
      ;;
    *)
      echo "unknown kind of store: $1" >&2
      return 1
      ;;
  esac
}

# wait_until SECONDS COMMAND...: runs the command again and again until it succeeds; fails when the time is over.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if ((SECONDS > end)); then
      echo "this never became true: $*" >&2
      return 1
    fi
    sleep 0.02
  done
}

# field KEY JQ_PATH: one field of the lock's JSON.
field() {
  { lk status --json --key "$1" || [ $? -eq 1 ]; } | jq -r ".[0]$2"
}

is_field() {
  [ "$(field "$1" "$2")" = "$3" ]
}

# Waits for a process of the background, and checks its status.
ends_with() {
  local status=0
  wait "$2" || status=$?
  echo "process $2 ended with $status"
  [ "$status" -eq "$1" ]
}

# On a terminal of its own, answering with the words on stdin.
on_terminal() {
  local line
  printf -v line '%q ' "$@"
  SHELL=/bin/bash script --quiet --return --echo never --command "$line" /dev/null
}
