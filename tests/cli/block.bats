#!/usr/bin/env bats
# lk block: waiting in line, and leaving it.

load common
load guarded

# A waiter in the background; its pid is in $waiter.
start_waiter() {
  "$LK" block --key k --ttl 30 "$@" >token 2>err 3>&- &
  waiter=$!
}

@test "a free lock is granted at once" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr lk block --key k --ttl 30
    is_field k .owner "$output"
    [ -z "$stderr" ]
  done
}

@test "block waits for the release, then prints its token" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner first >first
    start_waiter --owner second
    wait_until 5 is_field k .waiting 1
    lk release --key k --owner first
    ends_with 0 "$waiter"
    [ "$(cat token)" = second ]
    is_field k .owner second
    is_field k .waiting 0
    [ ! -s err ]
  done
}

@test "block gets a lock that expires" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 300ms >first
    run -0 lk block --key k --ttl 30 --wait 10
  done
}

@test "first come, first served, and a newcomer cannot barge past the line" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner holder >first
    for n in 1 2 3; do
      { lk block --key k --ttl 30 --owner "w$n" >token."$n" && echo "w$n" >>order && lk release --key k --owner "w$n"; } 3>&- &
      wait_until 5 is_field k .waiting "$n"
    done
    is_field k '.line | map(.owner) | join(" ")' 'w1 w2 w3'
    run -75 lk acquire --key k --ttl 30
    lk release --key k --owner holder
    wait_until 10 is_field k .state free
    wait
    [ "$(cat order)" = $'w1\nw2\nw3' ]
    rm order
  done
}

@test "when the wait runs out: 75, the reason, and no place in the line" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    start=${EPOCHREALTIME/./}
    run -75 --separate-stderr lk block --key k --wait 300ms
    elapsed=$(((${EPOCHREALTIME/./} - start) / 1000))
    [ "$elapsed" -ge 300 ]
    [ "$elapsed" -lt 3000 ]
    [ -z "$output" ]
    [[ $stderr == 'lk: gave up after 3'??'ms: k is held by '* ]]
    is_field k .waiting 0
  done
}

@test "--wait 0 is one try" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    run -75 --separate-stderr lk block --key k --wait 0
    [[ $stderr == 'lk: k is held by '* ]]
    lk release --key k --owner "$(cat first)"
    run -0 lk block --key k --wait 0 --ttl 30
  done
}

@test "--max-waiting keeps the line short" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    start_waiter --max-waiting 1
    wait_until 5 is_field k .waiting 1
    run -75 --separate-stderr lk block --key k --max-waiting 1
    [[ $stderr == 'lk: the line is full (--max-waiting 1): k is held by '* ]]
    is_field k .waiting 1
    lk release --key k --owner "$(cat first)"
    ends_with 0 "$waiter"
  done
}

@test "a signal ends the wait: the line is left and lk dies of the signal" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    for signal in TERM:143 HUP:129 USR1:138; do
      start_waiter
      wait_until 5 is_field k .waiting 1
      kill -"${signal%:*}" "$waiter"
      ends_with "${signal#*:}" "$waiter"
      is_field k .waiting 0
      [ ! -s token ]
    done
  done
}

@test "Ctrl-C ends the wait, and the loop of the calling shell with it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    mkfifo keys
    exec 5<>keys
    # shellcheck disable=SC2016
    on_terminal bash -c 'for i in 1 2 3; do echo "$i" >>rounds; "$LK" block --key k; done' <keys >out 3>&- 5>&- &
    shell=$!
    wait_until 5 is_field k .waiting 1
    printf '\003' >&5
    ends_with 130 "$shell"
    exec 5>&-
    [ "$(cat rounds)" = 1 ]
    is_field k .waiting 0
    rm rounds keys
  done
}

@test "an inherited ignore of HUP (nohup) stays an ignore" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    (trap '' HUP; exec "$LK" block --key k --ttl 30 >token 2>err) 3>&- &
    waiter=$!
    wait_until 5 is_field k .waiting 1
    kill -HUP "$waiter"
    lk release --key k --owner "$(cat first)"
    ends_with 0 "$waiter"
    is_field k .owner "$(cat token)"
  done
}

@test "a waiter that was killed with -9 does not keep the next one" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner first >first
    start_waiter --owner dead
    wait_until 5 is_field k .waiting 1
    kill -KILL "$waiter"
    ends_with 137 "$waiter"
    start_waiter --owner alive
    wait_until 5 is_field k '.line | map(.owner) | index("alive") != null' true
    lk release --key k --owner first
    wait_until 3 is_field k .owner alive
    ends_with 0 "$waiter"
  done
}

@test "a reader of stdout that goes away ends the wait: 74, silently, no place in the line" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    mkfifo pipe
    exec 5<>pipe
    "$LK" block --key k >pipe 2>err 3>&- 5>&- &
    waiter=$!
    wait_until 5 is_field k .waiting 1
    exec 5>&-
    ends_with 74 "$waiter"
    is_field k .waiting 0
    [ ! -s err ]
    rm pipe
  done
}

@test "block for a lock that an exec above holds is refused as a deadlock" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner outer >first
    LK_HELD=$'other\nouter' run -75 --separate-stderr lk block --key k
    [ "$stderr" = 'lk: k is held by the lk exec that this lk block runs under: waiting for it would never end (go on without lk block: what runs here has that lock already)' ]
    # Another's lock is waited for as ever, and one try is no wait.
    LK_HELD=other run -75 --separate-stderr lk block --key k --wait 100ms
    [[ $stderr == 'lk: gave up after '* ]]
    LK_HELD=outer run -75 --separate-stderr lk acquire --key k
    [[ $stderr == 'lk: k is held by '*'lease ends in '* ]]
  done
}

@test "the line shows who waits, since when and until when" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    start_waiter --wait 1h --note 'next deploy' --owner me
    wait_until 5 is_field k .waiting 1
    is_field k '.line[0].position' 1
    is_field k '.line[0].owner' me
    is_field k '.line[0].note' 'next deploy'
    [ "$(field k '.line[0].wait_left_ms')" -gt 3500000 ]
    run -0 lk status k
    [[ $output =~ \ 1\.\ [^\ ]+@[^\ ]+\ \(pid\ [0-9]+,\ [^\)]+\),\ waiting\ for\ [0-9.]+m?s\ since\ 20[0-9T:-]+\+00:00,\ gives\ up\ in\ (59m|1h)[0-9a-z]*,\ owner\ me:\ \"next\ deploy\" ]]
  done
}

@test "on a terminal one line says what is waited for; elsewhere only -v does" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >first
    run -75 on_terminal "$LK" block --key k --wait 300ms
    [[ ${lines[0]} == 'lk: waiting for k, 1st in line; k is held by '* ]]
    [[ ${lines[1]} == 'lk: gave up after '* ]]
    [ "${#lines[@]}" -eq 2 ]
    run -75 --separate-stderr lk block --key k --wait 100ms
    [ "${#stderr_lines[@]}" -eq 1 ]
    run -75 --separate-stderr lk block --key k --wait 100ms -v
    [[ $stderr == *'lk: waiting for k, 1st in line; k is held by '* ]]
    TERM=dumb run -75 on_terminal "$LK" block --key k --wait 100ms -v
    [ "$(grep -c 'lk: waiting for k, 1st in line; k is held by ' <<<"$output")" -eq 1 ]
    [[ $output != *$'\e'* ]]
  done
}

@test "with -v on a terminal the line goes on counting, fits with room for ^C, and nothing is left of it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key deploy:prod --ttl 60 --note "$(printf 'note %.0s' {1..50})" >first
    for columns in 40 60 200; do
      TERM=xterm run -75 on_terminal sh -c "stty cols $columns; '$LK' block --key deploy:prod --wait 2600ms -v 2>&1" </dev/null
      # What was shown: lines end with a return, and the live ones begin with a clearing.
      tr '\r' '\n' <<<"$output" | sed -n 's/^\x1b\[K\(lk: [0-9]*s, 1st in line\)/\1/p' >shown
      cat shown
      [ "$(LC_ALL=C.UTF-8 wc -L <shown)" -le $((columns - 3)) ]
      [ "$(grep -Eo '^lk: [0-9]+s' shown | sort -u | wc -l)" -ge 3 ]
      [[ $output = *$'\r\e[Klk: gave up after 2.6s: deploy:prod is held by '* ]]
      # The age is that of now, not of the last answer.
      [[ $output =~ gave\ up\ after.*\)\ for\ ([0-9.]+)s, ]]
      awk "BEGIN { exit !(${BASH_REMATCH[1]} >= 2.6) }"
    done
    grep -Eq '; held by .* for [0-9.]+s, lease ends in [0-9]+s' shown
  done
}

@test "a waiter that is stopped when its turn comes keeps nobody waiting, and queues again when it goes on" {
  fresh_store sqlite
  lk acquire --key k --ttl 600 --owner first >token
  env --default-signal setsid "$LK" block --key k --ttl 600 --owner stopped >stopped.out 3>&- &
  stopped=$!
  wait_until 10 is_field k .waiting 1
  env --default-signal setsid "$LK" block --key k --ttl 600 --owner next >next.out 3>&- &
  next=$!
  wait_until 10 is_field k .waiting 2
  kill -STOP "$stopped"
  began=$(now_ms)
  lk release --key k --owner first
  ends_with 0 "$next"
  [ $(($(now_ms) - began)) -lt 5000 ]
  kill -CONT "$stopped"
  wait_until 10 is_field k .waiting 1
  lk release --key k --owner next
  ends_with 0 "$stopped"
  [ "$(cat stopped.out)" = stopped ]
}
