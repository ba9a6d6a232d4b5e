#!/usr/bin/env bats
# lk and other programs at the same key of a Redis server: redis-py's Lock, and what other libraries write, by hand.

load common
load guarded

setup_file() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import redis' 2>"$BATS_FILE_TMPDIR/import.err"; then
      export PYTHON=$python
      return
    fi
  done
}

# other NAME TTL|never TOKEN|- VERB...: see support/other_lock.py.
other() {
  "$PYTHON" "$BATS_TEST_DIRNAME/../support/other_lock.py" "$(socket_of main)" "$@"
}
need_redis_py() {
  [ -n "${PYTHON-}" ] || skip "needs redis-py: $(tail -n 1 "$BATS_FILE_TMPDIR/import.err")"
}

# A fresh server, keys as they are.
fresh_keys() {
  fresh_store redis
  export LK_PREFIX=''
}

# start_other NAME TTL: it holds the lock until end_other; its token is in $token.
start_other() {
  rm -f other.in other.out
  mkfifo other.in
  other "$1" "$2" - try token wait release <other.in >other.out 3>&- &
  other_pid=$!
  exec 5>other.in
  wait_until 20 has_lines 2
  [ "$(head -n 1 other.out)" = 'got it' ]
  token=$(sed -n 2p other.out)
}
has_lines() { [ "$(wc -l <other.out)" -ge "$1" ]; }
end_other() {
  echo >&5
  exec 5>&-
  ends_with 0 "$other_pid"
}

shows() { grep -Eq "$1" <<<"$output"; }

# --- redis-py ---------------------------------------------------------------------------------------------------------

@test "a lock of redis-py's keeps lk out, is shown with its token and the time left, and its release lets a waiter in" {
  need_redis_py
  fresh_keys
  start_other job 60
  refusal="job is held by another program \(owner $token\), lease ends in (1m|5[0-9]s)"
  run -75 --separate-stderr lk acquire --key job --ttl 5
  [ -z "$output" ]
  [[ $stderr =~ ^"lk: "$refusal$ ]]
  run -75 --separate-stderr lk exec --key job -- touch ran
  [[ $stderr =~ ^"lk: "$refusal$ ]]
  run -75 --separate-stderr lk exec --key job --wait 300ms -- touch ran
  [[ $stderr =~ ^"lk: gave up after "[0-9.]+m?"s: "$refusal$ ]]
  for words in renew release; do
    run -75 --separate-stderr lk "$words" --key job --owner me
    [[ $stderr =~ ^"lk: not yours: "$refusal$ ]]
  done
  run -0 lk status job
  shows '^state +held$'
  shows '^holder +another program$'
  shows "^owner +$token$"
  shows '^fence +none$'
  shows '^expires +20[0-9-]+T[0-9:]+\+00:00 \(in (1m|5[0-9]s)\)$'
  run -0 lk status job --json
  [ "$(jq -r '.[0] | [.state, .owner, .fence, .pid, .since, .type] | map(tostring) | join(" ")' <<<"$output")" = "held $token null null null null" ]
  [ "$(jq '.[0].left_ms' <<<"$output")" -gt 50000 ]
  "$LK" block --key job --ttl 60 --owner next >waited 3>&- &
  waiter=$!
  wait_until 5 is_field job .waiting 1
  end_other
  [ "$(tail -n 1 other.out)" = released ]
  began=$(now_ms)
  ends_with 0 "$waiter"
  [ $(($(now_ms) - began)) -lt 1500 ]
  is_field job .owner next
  [ ! -e ran ]
}

@test "a lock of lk's keeps redis-py out, and it has it as soon as lk is done" {
  need_redis_py
  fresh_keys
  start_guarded --key job --ttl 60
  [ "$(other job 60 - try)" = busy ]
  other job 60 - block release >other.out 3>&- &
  waiting=$!
  sleep 0.2
  runs "$waiting"
  [ ! -s other.out ]
  let_go
  ends_with 0 "$lk_pid"
  ends_with 0 "$waiting"
  [ "$(paste -sd' ' other.out)" = 'got it released' ]
  # acquire's as well, until its end.
  lk acquire --key job --ttl 5 >token
  [ "$(other job 60 - try block | paste -sd' ')" = 'busy got it' ]
}

@test "the value at the key is lk's owner token, and nothing else: each can end what the other holds, if it knows that" {
  need_redis_py
  fresh_keys
  lk acquire --key job --ttl 60 --owner worker-7 >token
  [ "$(ask_redis main GET job)" = worker-7 ]
  [ "$(other job 60 wrong owned extend release | paste -sd' ')" = 'not owned LockNotOwnedError LockNotOwnedError' ]
  is_field job .owner worker-7
  [ "$(other job 60 worker-7 owned extend release | paste -sd' ')" = 'owned extended released' ]
  is_field job .state free
  # The other way round.
  start_other job 60
  run -0 --separate-stderr lk renew --key job --owner "$token" --ttl 1h
  [ "$(field job .left_ms)" -gt 3500000 ]
  run -0 --separate-stderr lk release --key job --owner "$token"
  [ -z "$output$stderr" ]
  is_field job .state free
  end_other
  [ "$(tail -n 1 other.out)" = LockNotOwnedError ]
}

@test "a command whose lock another program releases is stopped: 79" {
  need_redis_py
  fresh_keys
  start_guarded --key job --ttl 1 --owner worker-7 2>err
  [ "$(other job 60 worker-7 release)" = released ]
  ends_with 79 "$lk_pid"
  grep -q '^lk: lost job: it is gone from ' err
}

@test "a lock without an end is shown as one, is never given an end or removed by itself, and its owner or force frees it" { # R07
  need_redis_py
  fresh_keys
  for how in "release --key job --owner" 'release --key job --force --yes'; do
    start_other job never
    refusal="job is held by another program (owner $token), never expires"
    run -75 --separate-stderr lk acquire --key job --ttl 1
    [ "$stderr" = "lk: $refusal" ]
    run -75 --separate-stderr lk block --key job --ttl 1 --wait 300ms
    [[ $stderr == 'lk: gave up after '*": $refusal" ]]
    run -0 lk renew --key job --owner "$token" --ttl 1
    run -0 lk status job
    shows '^expires +never$'
    [ "$(field job .left_ms)" = null ]
    run -0 lk status job nobody
    shows "^job +held +another program \($token\) +\? +never +0 +-"
    [ "$(ask_redis main PTTL job)" = -1 ]
    # shellcheck disable=SC2086
    case $how in
      *force*)
        run -0 --separate-stderr lk $how
        [ "$stderr" = 'lk: job is free now; the program that held it does not learn of it' ]
        ;;
      *) run -0 lk $how "$token" ;;
    esac
    is_field job .state free
    end_other
  done
}

# --- By hand ----------------------------------------------------------------------------------------------------------

@test "what other libraries write is held, whatever the value" {
  fresh_keys
  values=('ADDED:2026-01-01T00:00:00.000Z@host:0e1d2c3b' 'AbCdEfGh+/==' '3' 'host_4711_6ba7b810' 's:16:"abcdefghijklmnop";' ' ' '-1' 'a b')
  for value in "${values[@]}"; do
    ask_redis main SET k "$value" PX 60000 NX >answer
    [ "$(cat answer)" = OK ]
    is_field k .owner "$value"
    run -75 lk acquire --key k
    run -75 lk release --key k --owner "${value}x"
    run -0 lk release --key k --owner "$value"
    is_field k .state free
  done
  # An empty value is held, too; no token can name it.
  ask_redis main SET k '' >answer
  run -75 lk acquire --key k
  run -64 lk release --key k --owner ''
  run -0 lk release --key k --force --yes
}

@test "a value that is no text is shown escaped, in one line, and can be removed" {
  fresh_keys
  printf '\xff\xfe\x00\x1b[31m\nlk: forged\t\xc3\xbc' | ask_redis main -x SET k >answer
  shown='\xff\xfe\x00\e[31m\nlk: forged\tü'
  run -75 --separate-stderr lk acquire --key k
  [ "$stderr" = "lk: k is held by another program (owner $shown), never expires" ]
  [ "${#stderr_lines[@]}" -eq 1 ]
  run -0 lk status k
  grep -Fxq "owner    $shown" <<<"$output"
  run -0 lk status k nobody
  [ "${#lines[@]}" -eq 3 ]
  grep -Fq "another program ($shown)" <<<"$output"
  [ "$(lk status --json --key k | LC_ALL=C tr -d '\n -~' | wc -c)" -eq 0 ]
  run -75 lk release --key k --owner "$shown"
  run -0 lk release --key k --force --yes
  is_field k .state free
}

@test "a key of another type is held, a foreign format; only force removes it" { # R45
  fresh_keys
  here='key +k
state +foreign
holder +another program \(redis TYPE\)'
  # Redisson's, Symfony's, a queue of somebody's, and the rest.
  for words in 'HSET k 8743c9c0-0795-4907-87fd-6c719a6b4586:1 1' 'ZADD k 1764500000000 dG9rZW4=' 'RPUSH k a b' 'SADD k a' 'XADD k * a b'; do
    # shellcheck disable=SC2086
    (set -f; ask_redis main $words >answer)
    type=$(ask_redis main TYPE k)
    before=$(ask_redis main --no-raw DUMP k)
    refusal="k is held by another program (redis $type), never expires"
    run -75 --separate-stderr lk acquire --key k --ttl 5
    [ "$stderr" = "lk: $refusal" ]
    run -75 --separate-stderr lk exec --key k -- touch ran
    [ "$stderr" = "lk: $refusal" ]
    run -75 --separate-stderr lk block --key k --wait 200ms
    [[ $stderr == "lk: gave up after "*": $refusal" ]]
    for command in renew release; do
      run -75 --separate-stderr lk "$command" --key k --owner me
      [ "$stderr" = "lk: not yours: $refusal" ]
    done
    run -0 lk status k
    [[ $output =~ ^${here/TYPE/$type} ]]
    shows '^expires +never$'
    is_field k .state foreign
    is_field k .type "$type"
    is_field k .owner null
    run -0 lk status k nobody
    shows "^k +foreign +another program \(redis $type\) +- +never +0 +-"
    run -64 lk release --key k --force </dev/null
    run -75 lk release --key k --force --yes --fence 1
    # Nothing of that has changed it.
    [ "$(ask_redis main --no-raw DUMP k)" = "$before" ]
    [ "$(ask_redis main PTTL k)" = -1 ]
    # With an end that is shown, too.
    ask_redis main PEXPIRE k 41500 >answer
    run -75 --separate-stderr lk acquire --key k
    [[ $stderr == "lk: k is held by another program (redis $type), expires in 4"?s ]]
    run -0 --separate-stderr lk release --key k --force --yes
    [ "$stderr" = 'lk: k is free now; the program that held it does not learn of it' ]
    [ "$(ask_redis main EXISTS k)" = 0 ]
  done
  [ ! -e ran ]
}

@test "--force shows a foreign holder and does not remove another one that came meanwhile" {
  fresh_keys
  ask_redis main ZADD k 1 first >answer
  mkfifo answers
  on_terminal "$LK" release --key k --force <answers >out 3>&- &
  asking=$!
  exec 5>answers
  wait_until 5 grep -q 'remove it' out
  ask_redis main ZADD k 2 second >answer
  echo y >&5
  ends_with 75 "$asking"
  exec 5>&-
  grep -Fq 'lk: k is held by another program (redis zset), never expires' out
  grep -Fq 'nothing was removed: the holder of k changed meanwhile; k is held by another program (redis zset), never expires' out
  [ "$(ask_redis main ZCARD k)" = 2 ]
}

@test "a waiter behind a foreign format gets the lock when that is gone" {
  fresh_keys
  ask_redis main HSET k a b >answer
  "$LK" block --key k --ttl 60 --owner next >token 3>&- &
  waiter=$!
  wait_until 5 is_field k .waiting 1
  run -0 lk status k
  shows ' 1\. .*, waiting for '
  ask_redis main DEL k >answer
  ends_with 0 "$waiter"
  [ "$(ask_redis main GET k)" = next ]
}

@test "an empty prefix takes keys exactly as they are, and lk's helpers hide no data" {
  fresh_keys
  for key in job 'laravel_database_laravel_cache_job' ':1:job' 'job-lock:default:job' '{job}' 'a}b' 'ü' 'redlock:job' 'a b'; do
    lk acquire --key "$key" --ttl 60 --owner me --raw-key >token
    [ "$(ask_redis main GET "$key")" = me ]
    [ "$(ask_redis main TYPE "$key")" = string ]
    left=$(ask_redis main PTTL "$key")
    [ "$left" -gt 50000 ]
    [ "$left" -le 60000 ]
    # What lk keeps beside it is in the slot of the lock.
    helper=$(ask_redis main --scan --pattern '*#lk:meta')
    [ "$(wc -l <<<"$helper")" -eq 1 ]
    run -0 lk release --key "$key" --owner me
    [ "$(ask_redis main EXISTS "$key")" = 0 ]
    ask_redis main FLUSHALL >answer
  done
  # Of a server full of data a list shows what lk holds, and says so.
  ask_redis main MSET user:1 a user:2 b >answer
  run -1 --separate-stderr lk status
  [ "$stderr" = "lk: no locks of lk's in $LK_STORE (to see another program's, name its key)" ]
  run -1 --separate-stderr lk status 'x*'
  [ "$stderr" = "lk: no locks of lk's match 'x*' in $LK_STORE (to see another program's, name its key)" ]
  lk acquire --key job --ttl 60 >token
  [ "$(lk status --json | jq -r '.[].key' | paste -sd' ')" = job ]
  run -0 lk status user:1
  # A hash tag is part of the name.
  "$LK" block --key job --ttl 60 >waited 3>&- &
  waiter=$!
  wait_until 5 is_field job .waiting 1
  run -0 --separate-stderr lk exec --key '{job}' -- true
  [ -z "$stderr" ]
  lk release --key job --owner "$(cat token)"
  ends_with 0 "$waiter"
}

@test "python-redis-lock's waiters are woken: its signal list gets its one element" {
  fresh_keys
  signals() { ask_redis main LLEN lock-signal:job; }
  one_signal() { [ "$(signals)" = 1 ] && [ "$(ask_redis main LINDEX lock-signal:job 0)" = 1 ]; }
  # A waiter sleeps on the list, as that library does.
  wait_for_signal() {
    ask_redis main BLPOP lock-signal:job 20 >popped 3>&- &
    popper=$!
    is_blocked() { [[ $(ask_redis main INFO clients) == *blocked_clients:1* ]]; }
    wait_until 10 is_blocked
  }
  wait_for_signal
  lk acquire --key lock:job --ttl 60 --owner me >token
  runs "$popper"
  lk release --key lock:job --owner me
  ends_with 0 "$popper"
  [ "$(paste -sd' ' popped)" = 'lock-signal:job 1' ]
  # Nobody waits: one element is there, whoever came before, and it goes by itself.
  for how in released forced; do
    ask_redis main RPUSH lock-signal:job stale stale >answer
    case $how in
      forced)
        ask_redis main SET lock:job another >answer
        lk release --key lock:job --force --yes -q
        ;;
      *) lk exec --key lock:job -- true ;;
    esac
    one_signal
    left=$(ask_redis main PTTL lock-signal:job)
    [ "$left" -gt 0 ]
    [ "$left" -le 1000 ]
  done
  # Of others nothing is made.
  lk exec --key job -- true
  lk exec --key unlock:job -- true
  ask_redis main DEL lock-signal:job >answer
  lk exec --key job -- true
  [ "$(ask_redis main --scan --pattern 'lock-signal*' | wc -l)" -eq 0 ]
}
