#!/usr/bin/env bats
# A Redis server that fails, forgets or changes its mind while a command runs under a lock of its, and while others wait.

load common
load guarded

# start_ticking OPTION...: lk exec of a command that writes the time every 20 ms, and on TERM a word, and ends then.
start_ticking() {
  rm -f ticks
  start_exec --key k "$@" -- bash -c '
    exec 2>child.err
    trap "echo TERM >>signals; exit 0" TERM
    echo $$ >child
    for n in {1..3000}; do
      echo "${EPOCHREALTIME/./}" >>ticks
      [ ! -e go ] || exit 0
      sleep 0.02
    done' 2>err
  wait_until 20 has_child
}
last_tick_ms() { echo $(($(tail -n 1 ticks) / 1000)); }

# The lock was granted or renewed a moment ago, so that the next renewal is some time away: just_renewed TTL.
just_renewed() { wait_until 10 has_left $(($1 * 1000 - 300)); }
has_left() { [ "$(ask_redis main PTTL lk:k)" -gt "$1" ]; }

# lost_by REASON: the command was stopped and lk says 79 and why, in one line; other lines, of failed renewals, may come before.
lost_by() {
  ends_with 79 "$lk_pid" && is_gone "$(cat child)" && cat err &&
    [ "$(grep -c '^lk: lost k: ' err)" -eq 1 ] &&
    grep -Fq "lk: lost k: $1; stopping the command (TERM, KILL after " err
}

# --- The data is gone ---------------------------------------------------------------------------------------------------

@test "the server restarts without its data: the command is stopped, 79, and the lock is not made anew" { # R03 R08
  fresh_store redis
  start_ticking --ttl 3
  kill_redis main
  start_redis main
  lost_by "it is gone from $LK_STORE"
  [ "$(cat signals)" = TERM ]
  [ "$(ask_redis main DBSIZE)" = 0 ]
}

@test "a spare takes the primary's place and never had the lock: the holder is stopped, 79" { # R08 R29
  fresh_store redis
  start_ticking --ttl 3
  fence=$(field k .fence)
  start_redis spare
  kill_redis main
  mv "$(socket_of spare)" "$(socket_of main)"
  # Its promise is that of one primary; who comes next is told apart by its fence.
  run -0 lk acquire --key k --ttl 60 --owner next --output json
  [ "$(jq .fence <<<"$output")" -gt "$fence" ]
  lost_by 'another holder has it now'
  is_field k .owner next
}

@test "the server restarts with its data: the command lives, and ends with 0" { # R10
  start_redis main
  LK_STORE=$(url_of main)
  export LK_STORE
  start_ticking --ttl 4
  just_renewed 4
  ask_redis main SAVE >answer
  kill_redis main
  start_redis main
  began=$(now_ms)
  while (($(now_ms) - began < 3000)); do
    is_field k .state held
    sleep 0.1
  done
  let_go
  ends_with 0 "$lk_pid"
  is_field k .state free
  [ ! -e signals ]
}

@test "a server that forgets its scripts is sent them again" { # R10
  fresh_store redis
  start_ticking --ttl 2
  began=$(now_ms)
  while (($(now_ms) - began < 3000)); do
    ask_redis main SCRIPT FLUSH >answer
    is_field k .state held
    sleep 0.1
  done
  ask_redis main SCRIPT FLUSH >answer
  let_go
  ends_with 0 "$lk_pid"
  [ "$(ask_redis main EXISTS lk:k)" = 0 ]
  [ ! -s err ]
}

@test "FLUSHALL, DEL by hand, an end that comes early: the command is stopped, 79, and no renewal brings the lock back" { # R03 R50
  fresh_store redis
  for words in FLUSHALL 'DEL lk:k' 'PEXPIRE lk:k 1' 'UNLINK lk:k' 'RENAME lk:k lk:elsewhere'; do
    rm -f signals
    start_ticking --ttl 3
    # shellcheck disable=SC2086
    ask_redis main $words >answer
    wait_until 5 is_field k .state free
    while runs "$lk_pid"; do
      [ "$(ask_redis main EXISTS lk:k)" = 0 ]
    done
    lost_by "it is gone from $LK_STORE"
    [ "$(cat signals)" = TERM ]
    ask_redis main FLUSHALL >answer
  done
}

@test "memory runs out and the lock is evicted: the command is stopped, 79" { # R14
  fresh_store redis
  start_ticking --ttl 3
  used=$(ask_redis main INFO memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p')
  ask_redis main CONFIG SET maxmemory-policy volatile-ttl >answer
  ask_redis main CONFIG SET maxmemory $((used + 2000000)) >answer
  head -c 100000 /dev/zero | tr '\0' x >filler
  for n in {1..60}; do
    ask_redis main -x SET "filler$n" <filler
  done >answers
  grep -q OOM answers
  [ "$(ask_redis main EXISTS lk:k)" = 0 ]
  lost_by "it is gone from $LK_STORE"
}

# --- The lock is another's ----------------------------------------------------------------------------------------------

@test "another value stands at the key: the command is stopped, 79, and that value and its time are left alone" { # R04
  fresh_store redis
  start_ticking --ttl 3
  ask_redis main SET lk:k stranger PX 20000 >answer
  lost_by 'another holder has it now'
  [ "$(ask_redis main GET lk:k)" = stranger ]
  left=$(ask_redis main PTTL lk:k)
  [ "$left" -gt 10000 ] && [ "$left" -lt 20000 ]
  # One without an end gets none.
  start_redis other
  LK_STORE=$(url_of other)
  start_ticking --ttl 3
  ask_redis other SET lk:k stranger >answer
  lost_by 'another holder has it now'
  [ "$(ask_redis other PTTL lk:k)" = -1 ]
}

@test "something that is no lock stands at the key: 79, and it is left alone" { # R45
  fresh_store redis
  for words in 'RPUSH lk:k a b' 'HSET lk:k a b' 'ZADD lk:k 1 a'; do
    start_ticking --ttl 3
    ask_redis main DEL lk:k >answer
    # shellcheck disable=SC2086
    ask_redis main $words >answer
    before=$(ask_redis main --no-raw DUMP lk:k)
    lost_by 'another holder has it now'
    [ "$(ask_redis main --no-raw DUMP lk:k)" = "$before" ]
    [ "$(ask_redis main PTTL lk:k)" = -1 ]
    ask_redis main FLUSHALL >answer
  done
}

@test "data of another type comes to where lk keeps its own: renewals fail, 79 in time; what cannot be released is said" {
  fresh_store redis
  sentence_of() { echo "$LK_STORE has data of another type (string) where lk keeps its own for the lock k: delete the key {lk:k}#lk:$1"; }
  start_ticking --ttl 3
  just_renewed 3
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  ask_redis main SET '{lk:k}#lk:meta' x >answer
  lost_by "no renewal in time ($(sentence_of meta))"
  [ "$(last_tick_ms)" -lt "$ends" ]
  [ "$(sed -n 1p err)" = "lk: cannot renew k: $(sentence_of meta); trying again" ]
  ask_redis main FLUSHALL >answer
  # The line is nothing that a holder needs; the end of a grant is told to it.
  for min_hold in 0 50s; do
    start_exec --key k --ttl 60 --min-hold "$min_hold" -- sh -c "$guarded; exit 7" 2>err
    wait_until 20 has_child
    ask_redis main SET '{lk:k}#lk:line' x >answer
    let_go
    ends_with 7 "$lk_pid"
    [ "$(cat err)" = "lk: cannot release k: $(sentence_of line); it stays held until its ttl ends" ]
    [ "$(ask_redis main PTTL lk:k)" -gt 50000 ]
    ask_redis main FLUSHALL >answer
  done
}

@test "a stopped lk that wakes after its time does not touch the next holder's lock" { # R04
  fresh_store redis
  start_ticking --ttl 2
  kill -STOP "$lk_pid"
  wait_until 10 lk acquire --key k --ttl 20 --owner next -q
  left=$(ask_redis main PTTL lk:k)
  kill -CONT "$lk_pid"
  ends_with 79 "$lk_pid"
  [ "$(ask_redis main GET lk:k)" = next ]
  [ "$(ask_redis main PTTL lk:k)" -le "$left" ]
}

# --- The server cannot be asked -----------------------------------------------------------------------------------------

@test "the server hangs for half the ttl: the command lives, and ends with 0" { # R33
  fresh_store redis
  start_ticking --ttl 4
  just_renewed 4
  stop_redis main
  began=$(now_ms)
  while (($(now_ms) - began < 2000)); do
    sleep 0.1
  done
  go_on_redis main
  just_renewed 4
  runs "$(cat child)"
  let_go
  ends_with 0 "$lk_pid"
  [ ! -e signals ]
  is_field k .state free
  run ! grep -v '^lk: cannot renew k: .* did not answer within .*; trying again$' err
}

@test "the server hangs for longer than the ttl: the command is stopped before the lock can end, 79" { # R33 R34
  fresh_store redis
  for on_lost in term kill; do
    rm -f signals
    start_ticking --ttl 3 --on-lost "$on_lost"
    just_renewed 3
    ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
    stop_redis main
    ends_with 79 "$lk_pid"
    is_gone "$(cat child)"
    [ "$(last_tick_ms)" -lt "$ends" ]
    cat err
    grep -q '^lk: cannot renew k: .* did not answer within .*; trying again$' err
    grep -Eq '^lk: lost k: no renewal in time \(.* did not answer within [0-9]+ms\); (stopping|killing) the command' err
    case $on_lost in
      term) [ "$(cat signals)" = TERM ] ;;
      kill) [ ! -e signals ] ;;
    esac
    go_on_redis main
    wait_until 5 is_field k .state free
  done
}

@test "a command that ignores TERM is dead before the lock can end, also if the server hangs" { # R34
  fresh_store redis
  start_exec --key k --ttl 3 -- bash -c 'trap "" TERM; echo $$ >child; for n in {1..3000}; do echo "${EPOCHREALTIME/./}" >>ticks; sleep 0.02; done' 2>err
  wait_until 20 has_child
  just_renewed 3
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  stop_redis main
  ends_with 79 "$lk_pid"
  is_gone "$(cat child)"
  [ "$(last_tick_ms)" -lt "$ends" ]
}

@test "the server is gone: the same; what cannot be released is said, once" {
  fresh_store redis
  start_ticking --ttl 3
  just_renewed 3
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  kill_redis main
  gone="there is no socket at $LK_STORE"
  lost_by "no renewal in time ($gone)"
  [ "$(last_tick_ms)" -lt "$ends" ]
  [ "$(sed -n 1p err)" = "lk: cannot renew k: $gone; trying again" ]
  [ "$(tail -n 1 err)" = "lk: cannot release k: $gone; a background process tries on until its ttl ends" ]
  [ "$(wc -l <err)" -eq 3 ]
}

@test "a command that ends while the server is gone keeps its status; the lock is given back when it is there again" {
  fresh_store redis
  start_exec --key k --ttl 60 -- sh -c "$guarded; exit 7" 2>err
  wait_until 20 has_child
  stop_redis main
  began=$(now_ms)
  let_go
  ends_with 7 "$lk_pid"
  # Giving back may take two seconds.
  [ $(($(now_ms) - began)) -lt 4000 ]
  [ "$(cat err)" = "lk: cannot release k: $LK_STORE did not answer within 2s; a background process tries on until its ttl ends" ]
  go_on_redis main
  wait_until 10 is_field k .state free
}

@test "the server is a replica for a moment: the command lives; for longer: 79" { # R11
  fresh_store redis
  start_ticking --ttl 4
  just_renewed 4
  ask_redis main REPLICAOF 127.0.0.1 1 >answer
  readonly="$LK_STORE is a read-only replica (READONLY): name the primary"
  wait_until 10 grep -Fxq "lk: cannot renew k: $readonly; trying again" err
  ask_redis main REPLICAOF NO ONE >answer
  just_renewed 4
  let_go
  ends_with 0 "$lk_pid"
  [ ! -e signals ]
  start_ticking --ttl 3
  just_renewed 3
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  ask_redis main REPLICAOF 127.0.0.1 1 >answer
  lost_by "no renewal in time ($readonly)"
  [ "$(last_tick_ms)" -lt "$ends" ]
}

@test "the password changes under a running command: said without it, 79 in time; changed back: it lives" { # R54
  start_redis main --requirepass old-secret
  LK_STORE=$(url_of main)
  export LK_STORE LK_REDIS_PASSWORD=old-secret
  # redis-cli reads it from here.
  export REDISCLI_AUTH=old-secret
  change_to() {
    ask_redis main CONFIG SET requirepass "$1" >answer
    REDISCLI_AUTH=$1
    ask_redis main CLIENT KILL TYPE normal >killed
  }
  start_ticking --ttl 4
  just_renewed 4
  change_to new-secret
  wait_until 10 grep -Fxq "lk: cannot renew k: $LK_STORE refused the password (WRONGPASS); trying again" err
  change_to old-secret
  just_renewed 4
  runs "$(cat child)"
  just_renewed 4
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  change_to new-secret
  lost_by "no renewal in time ($LK_STORE refused the password (WRONGPASS))"
  [ "$(last_tick_ms)" -lt "$ends" ]
  run ! grep -q secret err
}

@test "while a command runs its lock never gets near its end" { # R40
  fresh_store redis
  start_guarded --key k --ttl 3
  for _ in {1..120}; do
    ask_redis main PTTL lk:k
    sleep 0.03
  done >left
  let_go
  ends_with 0 "$lk_pid"
  echo "the least that was left: $(sort -n left | head -n 1) ms"
  [ "$(sort -n left | head -n 1)" -gt 1000 ]
}

# --- lk dies ------------------------------------------------------------------------------------------------------------

@test "lk, its guardian and its command killed together: the lock is free at its ttl, neither before nor long after" {
  fresh_store redis
  start_guarded --key k --ttl 3
  guardian=$(guardian_of "$lk_pid")
  "$LK" block --key k --ttl 60 --owner next >token 3>&- &
  waiter=$!
  wait_until 5 is_field k .waiting 1
  just_renewed 3
  ends=$(($(now_ms) + $(ask_redis main PTTL lk:k)))
  # None of them sees another one die.
  kill -STOP "$guardian"
  kill -KILL "$lk_pid" "$(cat child)" "$guardian"
  ends_with 137 "$lk_pid"
  ends_with 0 "$waiter"
  late=$(($(now_ms) - ends))
  echo "$late ms late"
  [ "$late" -ge -50 ]
  [ "$late" -lt 1000 ]
}

@test "lk killed with -9 while the server hangs: the command is ended, and the guardian gives back what it can" {
  fresh_store redis
  start_guarded --key k --ttl 60 --kill-after 1s
  stop_redis main
  kill -KILL "$lk_pid"
  ends_with 137 "$lk_pid"
  wait_until 10 is_gone "$(cat child)"
  go_on_redis main
  wait_until 10 is_field k .state free
}

@test "lk acquire killed with -9 at any moment leaves no key without an end" { # R06
  fresh_store redis
  for n in {1..150}; do
    "$LK" acquire --key "k$n" --ttl 30 >>tokens 3>&- &
    pid=$!
    sleep "0.00$((RANDOM % 9))"
    kill -KILL "$pid" 2>kill.err || true
    wait "$pid" 2>wait.err || true
  done
  ask_redis main --scan >keys
  # Some were killed before their grant, some after.
  granted=$(grep -c '^lk:k' keys)
  echo "$granted granted"
  [ "$granted" -gt 0 ]
  while read -r key; do
    [ "$(ask_redis main PTTL "$key")" -gt 0 ]
  done <keys
}

# --- Others wait --------------------------------------------------------------------------------------------------------

# start_waiter OWNER: and its place is taken.
start_waiter() {
  "$LK" block --key k --ttl 60 --owner "$1" >"token.$1" 2>"err.$1" 3>&- &
  waiter=$!
  wait_until 5 has_place "$1"
}
has_place() { is_field k ".line | map(.owner) | index(\"$1\") != null" true; }

# WORDS... let the waiter have the lock: within LIMIT ms.
within() {
  local limit=$1 began
  shift
  began=$(now_ms)
  "$@" >answer
  ends_with 0 "$waiter"
  echo "$*: the waiter had it after $(($(now_ms) - began)) ms"
  [ $(($(now_ms) - began)) -lt "$limit" ]
}

@test "what nobody announces is noticed within a second: DEL, FLUSHALL, another program's release, the end of a ttl" { # R43
  fresh_store redis
  release='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
  by_another_program() { ask_redis main EVAL "$release" 1 lk:k first; }
  for words in 'ask_redis main DEL lk:k' 'ask_redis main FLUSHALL' 'ask_redis main PEXPIRE lk:k 1' by_another_program; do
    lk acquire --key k --ttl 60 --owner first >token
    start_waiter next
    # shellcheck disable=SC2086
    within 1700 $words
    ask_redis main FLUSHALL >answer
  done
}

@test "a waiter that loses its connections, its bell too, gets the lock all the same, and soon" { # R43
  fresh_store redis
  lk acquire --key k --ttl 60 --owner first >token
  start_waiter next
  ask_redis main CLIENT KILL TYPE pubsub >killed
  ask_redis main CLIENT KILL TYPE normal >killed
  within 1700 lk release --key k --owner first
}

@test "a release is never missed by one that has just begun to wait" { # R42
  fresh_store redis
  for n in {1..100}; do
    lk acquire --key k --ttl 60 --owner "first$n" >token
    "$LK" block --key k --ttl 60 --wait 10 --owner "next$n" >token 3>&- &
    waiter=$!
    sleep "0.00$((RANDOM % 9))"
    began=$(now_ms)
    lk release --key k --owner "first$n"
    ends_with 0 "$waiter"
    took=$(($(now_ms) - began))
    [ "$took" -lt 900 ] || echo "round $n took $took ms"
    echo "$took" >>took
    lk release --key k --owner "next$n"
  done
  sort -n took | tail -n 3
  # Not one had to find out by its own look after a second.
  [ "$(sort -n took | tail -n 1)" -lt 900 ]
}

@test "a waiter goes on waiting while the server restarts without its data, and takes the lock then" {
  fresh_store redis
  lk acquire --key k --ttl 60 --owner first >token
  start_waiter next
  kill_redis main
  wait_until 10 grep -q 'still trying' err.next
  start_redis main
  ends_with 0 "$waiter"
  is_field k .owner next
  cat err.next
  [ "$(wc -l <err.next)" -eq 1 ]
  grep -q '^lk: .*; still trying$' err.next
}

# --- What is left in the server -----------------------------------------------------------------------------------------

@test "every verb is one command of lk's, and all that it does is done in one step" { # R02
  fresh_store redis
  for words in 'acquire --key k --ttl 60 --owner me' 'renew --key k --owner me --ttl 100' 'status k' 'release --key k --owner me'; do
    # shellcheck disable=SC2086
    lk $words >out 2>err || true
  done
  redis-cli -s "$(socket_of main)" MONITOR >monitor 2>&1 3>&- &
  monitor=$!
  is_watching() { grep -q OK monitor; }
  wait_until 5 is_watching
  lk acquire --key k --ttl 60 --owner me >token
  lk renew --key k --owner me --ttl 100
  lk status k >card
  lk exec --key j -- true
  lk release --key k --owner me
  ask_redis main ECHO over >answer
  wait_until 5 grep -q '"ECHO" "over"' monitor
  kill "$monitor"
  # acquire, renew, status, exec's two, release.
  grep -v -e ' lua\] ' -e '"ECHO"' -e '^OK$' monitor >commands
  cat commands
  [ "$(wc -l <commands)" -eq 6 ]
  [ "$(grep -c '"EVALSHA"' commands)" -eq 6 ]
}

@test "whatever happened, every key that lk leaves has an end, and there are few" { # R51
  fresh_store redis
  for n in {1..50}; do
    lk exec --key "job:$n" --ttl 5 -- true
  done
  # The last fence of a lock is kept for ten minutes, nothing else.
  [ "$(ask_redis main DBSIZE)" = 50 ]
  [ "$(ask_redis main --scan --pattern '{lk:job:*}#lk:meta' | wc -l)" -eq 50 ]
  lk acquire --key k --ttl 60 --owner first >token
  waiters=()
  for n in 1 2 3; do
    "$LK" block --key k --ttl 60 --wait 20 >token 3>&- &
    waiters+=($!)
  done
  run -75 lk block --key k --wait 300ms
  wait_until 5 is_field k .waiting 3
  kill -KILL "${waiters[0]}"
  kill -TERM "${waiters[1]}"
  ask_redis main --scan >keys
  [ "$(grep -c . keys)" -eq 54 ]
  while read -r key; do
    left=$(ask_redis main PTTL "$key")
    echo "$key: $left"
    [ "$left" -gt 0 ]
    [ "$left" -le 660000 ]
  done <keys
  lk release --key k --owner first
  ends_with 0 "${waiters[2]}"
  is_field k .waiting 0
  [ "$(ask_redis main --scan --pattern '*#lk:line' | wc -l)" -eq 0 ]
  [ "$(ask_redis main --scan --pattern '*#lk:places' | wc -l)" -eq 0 ]
}
