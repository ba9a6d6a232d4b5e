#!/usr/bin/env bats
# Everyday trouble from public reports that belongs to no single command.

load common
load guarded
load worlds

# --- Lines ------------------------------------------------------------------------------------------------------------

# How often the processes went to sleep by themselves, which is how often they woke; memory of the processes in kB.
sleeps_of() {
  local pid
  for pid in "$@"; do
    awk '$1 == "voluntary_ctxt_switches:" { print $2 }' "/proc/$pid/status"
  done | awk '{ sum += $1 } END { print sum }'
}
memory_of() {
  local pid
  for pid in "$@"; do
    awk '$1 == "Pss:" { print $2 }' "/proc/$pid/smaps_rollup"
  done | awk '{ sum += $1 } END { print sum }'
}

@test "a hundred waiters behind a hung job cost next to nothing, and TERM ends them all" { # C15
  [ -e /proc/self/smaps_rollup ] || skip "the kernel does not tell what a process costs"
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 600 >token
    waiters=()
    for _ in {1..100}; do
      "$LK" exec --key k --ttl 30 --wait 1h -- touch ran 3>&- &
      waiters+=($!)
    done
    wait_until 60 is_field k .waiting 100
    guardians=()
    for waiter in "${waiters[@]}"; do
      guardians+=("$(guardian_of "$waiter")")
    done
    all=("${waiters[@]}" "${guardians[@]}")
    before=$(sleeps_of "${all[@]}")
    began=$(now_ms)
    sleep 5
    woke=$(($(sleeps_of "${all[@]}") - before))
    passed=$(($(now_ms) - began))
    memory=$(memory_of "${all[@]}")
    echo "100 waiters: woke $woke times in $passed ms, $memory kB"
    # The first looks ten times a second, each other one every five seconds: some 200 in all. Waiters that poll ten times
    # a second would come to 5,000.
    [ "$woke" -gt 0 ]
    [ "$woke" -lt $((passed / 5)) ]
    [ "$memory" -lt 100000 ]
    kill -TERM "${waiters[@]}"
    for waiter in "${waiters[@]}"; do
      ends_with 143 "$waiter"
    done
    is_field k .waiting 0
    [ ! -e ran ]
  done
}

@test "one that takes the lock again and again does not keep the others out" { # C17
  for store in $stores; do
    fresh_store "$store"
    rm -f stop
    while [ ! -e stop ]; do
      "$LK" exec --key k --ttl 5 --wait 60 -- sleep 0.3
    done 3>&- &
    greedy=$!
    wait_until 10 is_field k .state held
    others=()
    for _ in 1 2 3 4 5; do
      "$LK" exec --key k --ttl 5 --wait 30 -- true 3>&- &
      others+=($!)
    done
    for other in "${others[@]}"; do
      ends_with 0 "$other"
    done
    touch stop
    ends_with 0 "$greedy"
  done
}

# --- Names ------------------------------------------------------------------------------------------------------------

@test "owner tokens are never the same, whatever the clock and the pid" { # C20
  for store in $stores; do
    fresh_store "$store"
    for n in {1..300}; do
      lk acquire --key "k$n" --ttl 5
    done >tokens
    if [ "$(id -u)" -eq 0 ] && unshare --pid --fork true 2>unshare.err; then
      faketime=(/usr/lib/*/faketime/libfaketimeMT.so.1)
      for n in {1..30}; do
        LD_PRELOAD=${faketime[0]} FAKETIME='2026-01-01 00:00:00' FAKETIME_DONT_FAKE_MONOTONIC=1 \
          unshare --pid --fork "$LK" acquire --key "fixed$n" --ttl 5
      done >>tokens 2>preload.err
    fi
    echo "$(wc -l <tokens) tokens"
    [ "$(wc -l <tokens)" -ge 300 ]
    [ -z "$(sort tokens | uniq -d)" ]
  done
}

@test "a token that is nearly right releases nothing" { # C20
  for store in $stores; do
    fresh_store "$store"
    token=$(lk acquire --key k --ttl 60)
    for guess in 1 true '*' '%' "${token%?}" "$token " " $token" "${token^^}" "${token}0" "$HOSTNAME:$$" "' OR '1'='1"; do
      run -75 lk release --key k --owner "$guess"
      run -75 lk renew --key k --owner "$guess"
    done
    run -64 lk release --key k --owner ''
    is_field k .owner "$token"
  done
}

@test "a long token comes back as it was, or is refused before a lock is taken" { # C21
  for store in $stores; do
    fresh_store "$store"
    for length in 200 512 513 10000 100000; do
      owner=$(head -c "$length" /dev/zero | tr '\0' o)
      run --separate-stderr lk acquire --key k --ttl 60 --owner "$owner"
      if [ "$status" -eq 0 ]; then
        [ "$output" = "$owner" ]
        run -0 lk release --key k --owner "$owner"
      else
        [ "$status" -eq 64 ]
        [ "${#stderr_lines[@]}" -eq 1 ]
      fi
      is_field k .state free
    done
  done
}

@test "glob characters in a key are a key" { # C07
  for store in $stores; do
    fresh_store "$store"
    for key in 'a*' 'a?' 'a[bc]' ab 'a\*'; do
      lk acquire --key "$key" --ttl 60 --owner "of $key" >token
    done
    run -0 lk status --key 'a*'
    [[ ${lines[0]} =~ ^key\ +a\*$ ]]
    run -75 lk release --key 'a*' --owner 'of ab'
    run -0 lk release --key 'a*' --owner 'of a*'
    for key in 'a?' 'a[bc]' ab 'a\*'; do
      is_field "$key" .owner "of $key"
    done
    # A forced one takes no pattern either.
    run -1 lk release --key 'a*' --force --yes
    [ "$(lk status --json | jq length)" -eq 4 ]
  done
}

# --- Two stores by accident -----------------------------------------------------------------------------------------------

@test "which store was asked can be seen, and there is no other one behind its back" { # C33
  for store in $stores; do
    fresh_store "$store"
    address=$LK_STORE
    lk acquire --key k --ttl 60 >token
    run -0 --separate-stderr lk status k -v
    [[ $stderr == *"asking $address"* ]]
    run -0 --separate-stderr lk exec --key j -v -- true
    [[ $stderr == *"asking $address"* ]]
    run -1 --separate-stderr lk release --key other --owner me
    [[ $stderr == *"$address"* ]]
  done
  # A store that cannot be is not replaced by the default one.
  for bad in /proc/locks.db nosuch://host; do
    run ! lk exec --store "$bad" --key k -- touch ran
    [ "$status" -ge 69 ]
  done
  [ ! -e ran ]
  [ ! -e "$HOME/.local" ]
}

# --- Steps of a job -------------------------------------------------------------------------------------------------------

@test "acquire and release in a script with a trap: what is interrupted between them gives the lock back" { # C02
  for store in $stores; do
    fresh_store "$store"
    rm -f child
    env --default-signal setsid bash -ec '
      eval "$("$LK" acquire --key deploy --ttl 600 --output env)"
      trap "\"$LK\" release" EXIT
      echo $$ >child
      '"$for_long" 3>&- &
    job=$!
    wait_until 20 has_child
    is_field deploy .state held
    kill -TERM "$job"
    ends_with 143 "$job"
    is_field deploy .state free
  done
}

@test "a job whose lk is killed can be ended by the next one's wait alone" { # C01
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key nightly --ttl 5m
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    run -0 lk exec --key nightly --wait 60 -- true
    is_gone "$(cat child)"
  done
}

@test "what an operator needs is in status: who, since when, until when, and the token to release it" { # C03
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 600 --note 'nightly backup'
    run -0 lk status k
    grep -Eq "^pid +$lk_pid$" <<<"$output"
    grep -Eq '^command +sh$' <<<"$output"
    grep -Eq '^note +nightly backup$' <<<"$output"
    owner=$(awk '$1 == "owner" { print $2 }' <<<"$output")
    run -0 lk release --key k --owner "$owner"
    is_field k .state free
    let_go
    ends_with 79 "$lk_pid"
  done
}
