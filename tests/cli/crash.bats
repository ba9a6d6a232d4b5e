#!/usr/bin/env bats
# Thousands of processes, some of them killed: nothing is counted twice, nothing gets lost, nobody is locked out.

load common
load guarded

keys=20

setup_file() {
  compile add_one
}

# crowd OPTION... WORDS...: the ends of all processes are in the file ends, what they say on stdout in the file said.
crowd() {
  python3 "$BATS_TEST_DIRNAME/../support/crowd.py" --ends ends "$@" >said
}

# The counters of all keys, in one line each.
counts() {
  local key
  for ((key = 0; key < keys; ++key)); do
    echo "$key $(count_in "count.$key")"
  done
}

@test "2,000 processes add one each under 20 locks: every count is exact, and no two were at it at once" { # S01
  for store in $stores; do
    fresh_store "$store"
    rm -f count.*
    crowd --processes 2000 --keys $keys --at-a-time 150 \
      "$LK" exec --key 'k{}' --wait forever --ttl 60 -- "$BATS_FILE_TMPDIR/add_one" 'count.{}' 2>err
    # Nobody was told that anything was locked, busy or late.
    [ ! -s err ]
    [ "$(grep -c ' 0$' ends)" -eq 2000 ]
    [ "$(counts | grep -c ' 100$')" -eq $keys ]
    [ "$(lk status --json)" = '[]' ]
    is_sound
  done
}

@test "the same while random ones are killed with -9: at most their own one is lost, and no key is blocked for its ttl" {
  for store in $stores; do
    fresh_store "$store"
    rm -f count.*
    began=$SECONDS
    crowd --processes 1000 --keys $keys --at-a-time 150 --kill 400 \
      "$LK" exec --key 'k{}' --wait forever --ttl 10m -- "$BATS_FILE_TMPDIR/add_one" 'count.{}' 2>err
    # All got their turn, so that no dead one kept its lock for the ttl.
    [ $((SECONDS - began)) -lt 600 ]
    cat err
    [ ! -s err ]
    run ! grep -vE ' (0|-9)$' ends
    killed=$(grep -c ' -9$' ends)
    echo "$killed killed"
    [ "$killed" -gt 200 ]
    counts >counted
    for ((key = 0; key < keys; ++key)); do
      count=$(awk -v key=$key '$1 == key { print $2 }' counted)
      done=$(grep -c "^$key 0$" ends)
      echo "key $key: $done ended, $count counted"
      [ "$count" -ge "$done" ]
      [ "$count" -le 50 ]
    done
    # The last of the killed ones' commands are gone as well, and so are their locks.
    nothing_held() { [ "$(lk status --json)" = '[]' ]; }
    wait_until 10 nothing_held
    is_sound
  done
}

@test "200 processes at the same moment on a new path all work, in one schema" { # S03 S04
  fresh_store sqlite
  rm -r "$(dirname "$LK_STORE")"
  crowd --processes 200 --keys 200 "$LK" acquire --key 'k{}' --ttl 600 2>err
  cat err
  [ ! -s err ]
  [ "$(grep -c ' 0$' ends)" -eq 200 ]
  [ "$(lk status --json | jq length)" -eq 200 ]
  is_sound
  rm -r "$(dirname "$LK_STORE")"
  crowd --processes 100 "$LK" exec --key k --wait forever --ttl 60 -- "$BATS_FILE_TMPDIR/add_one" count.0 2>err
  [ ! -s err ]
  [ "$(grep -c ' 0$' ends)" -eq 100 ]
  [ "$(count_in count.0)" -eq 100 ]
  is_sound
}

@test "a new path again and again: no first opening fails" { # S03
  for _ in {1..20}; do
    fresh_store sqlite
    crowd --processes 16 --keys 16 "$LK" acquire --key 'k{}' --ttl 600 2>err
    cat err
    [ ! -s err ]
    [ "$(grep -c ' 0$' ends)" -eq 16 ]
    is_sound
  done
}

@test "creators that are killed half-way: the next one finishes, and locks that were granted are there" { # S17
  for _ in {1..20}; do
    fresh_store sqlite
    crowd --processes 8 --keys 8 --at-a-time 8 --kill 8 "$LK" acquire --key 'k{}' --ttl 600 2>err
    cat err
    [ ! -s err ]
    run -0 lk acquire --key after --ttl 600
    is_sound
    while read -r key end; do
      [ "$end" -ne 0 ] || is_field "k$key" .state held
    done <ends
  done
}

@test "a command that ends while a renewal is under way: the lock is free all the same, at once" { # P40
  for store in $stores; do
    fresh_store "$store"
    for n in {1..60}; do
      # Renewals every 333 ms, ends at all distances from them.
      "$LK" exec --key "r$n" --ttl 1 -- sleep "0.$((250 + RANDOM % 500))" 3>&- &
      [ $((n % 20)) -ne 0 ] || wait
    done
    wait
    [ "$(lk status --json)" = '[]' ]
  done
}

@test "waiters killed with -9 are granted nothing and delay nobody" { # P08
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 600 --owner me >token
    waiters=()
    for n in 1 2 3 4 5 6 7 8 9 10; do
      "$LK" block --key k --ttl 600 >>granted 3>&- &
      waiters+=($!)
    done
    wait_until 20 is_field k .waiting 10
    kill -KILL "${waiters[@]}"
    for waiter in "${waiters[@]}"; do
      ends_with 137 "$waiter"
    done
    lk release --key k --owner me
    began=$(now_ms)
    run -0 lk block --key k --ttl 600 --wait 10
    [ $(($(now_ms) - began)) -lt 2000 ]
    [ ! -s granted ]
    is_field k .waiting 0
    # What they listened with is gone, too.
    [ ! -d "$LK_STORE-bells" ] || [ -z "$(ls "$LK_STORE-bells")" ]
  done
}

@test "an exec killed with -9 while it waits leaves neither a place nor a bell behind" { # P08
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 600 --owner me >token
    for n in 1 2 3; do
      start_exec --key k --ttl 600 --wait 1h -- touch ran
      wait_until 20 is_field k .waiting 1
      kill -KILL "$lk_pid"
      ends_with 137 "$lk_pid"
      wait_until 10 is_field k .waiting 0
    done
    run -0 lk release --key k --owner me
    run -0 lk acquire --key k --ttl 600
    [ ! -e ran ]
    [ ! -d "$LK_STORE-bells" ] || [ -z "$(ls "$LK_STORE-bells")" ]
  done
}

@test "more than a thousand one-off keys leave a file of a few pages, and a log of at most a MiB" {
  fresh_store sqlite
  in_use() { look 'SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size'; }
  few_pages() { [ "$(in_use)" -le 40000 ]; }
  log_is_small() { [ "$(stat -c %s "$LK_STORE-wal")" -le 1200000 ]; }
  for _ in {1..600}; do
    lk exec --key "once:$RANDOM$RANDOM" -- true
  done
  few_pages
  log_is_small
  # Never released: each grant sweeps some of those that expired, 10 s after their end.
  for _ in {1..600}; do
    lk acquire --key "left:$RANDOM$RANDOM" --ttl 100ms
  done >tokens
  swept() { lk exec --key sweeper -- true && few_pages; }
  wait_until 60 swept
  log_is_small
  # What was in use at one time is used again.
  size=$(stat -c %s "$LK_STORE")
  for _ in {1..300}; do
    lk exec --key "again:$RANDOM$RANDOM" -- true
  done
  [ "$(stat -c %s "$LK_STORE")" -le "$size" ]
  log_is_small
}
