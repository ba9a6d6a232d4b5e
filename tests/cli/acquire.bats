#!/usr/bin/env bats
# lk acquire: one try, and what becomes of the token.

load common

uuid='^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'

@test "acquire prints a random owner token, alone and silently" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr lk acquire --key k --ttl 30
    [[ $output =~ $uuid ]]
    [ -z "$stderr" ]
    is_field k .owner "$output"
    first=$output
    lk release --key k --owner "$first"
    run -0 --separate-stderr lk acquire --key k --ttl 30
    [ "$output" != "$first" ]
  done
}

@test "a lock that is held is refused with 75, no token, and one line that says who has it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key invoice:42 --ttl 41 --note 'v1.9' >token
    run -75 --separate-stderr lk acquire --key invoice:42 --ttl 1
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    fence=$(field invoice:42 .fence)
    pattern="^lk: invoice:42 is held by [^ ]+@[^ ]+ \(pid [0-9]+, [^)]+\) for [0-9.]+m?s, lease ends in (41|40|39|3[0-9])s, fence $fence: \"v1.9\"$"
    [[ $stderr =~ $pattern ]]
  done
}

@test "a refusal is silent with -q, and still 75" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 >token
    run -75 --separate-stderr lk acquire --key k -q
    [ -z "$output$stderr" ]
  done
}

@test "the holder is shown as the process that called lk" {
  for store in $stores; do
    fresh_store "$store"
    bash -c 'echo $$ >pid; "$LK" acquire --key k --ttl 30; true' >token
    is_field k .pid "$(cat pid)"
    is_field k .command bash
  done
}

@test "the asker's ttl decides nothing about a lock that somebody else holds" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >token
    run -75 lk acquire --key k --ttl 100ms
    run -75 lk acquire --key k --ttl 100ms
    [ "$(field k .left_ms)" -gt 50000 ]
  done
}

@test "an expired lock is free for the next one" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 100ms >token
    wait_until 5 lk acquire --key k --ttl 30 -q
  done
}

@test "without --ttl it lasts 15 minutes, and stderr says until when" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr lk acquire --key k
    [[ $output =~ $uuid ]]
    pattern='^lk: k is yours until 20[0-9-]+T[0-9:]+[+]00:00 [(]15m[)]; nothing renews it$'
    [[ $stderr =~ $pattern ]]
    left=$(field k .left_ms)
    [ "$left" -gt 890000 ]
    [ "$left" -le 900000 ]
    run -0 --separate-stderr lk acquire --key quiet -q
    [ -z "$stderr" ]
  done
}

@test "LK_TTL is the ttl where --ttl is not given, and --ttl wins" {
  for store in $stores; do
    fresh_store "$store"
    export LK_TTL=1h
    run -0 --separate-stderr lk acquire --key a
    [ -z "$stderr" ]
    [ "$(field a .left_ms)" -gt 3500000 ]
    lk acquire --key b --ttl 2m >token
    [ "$(field b .left_ms)" -le 120000 ]
    unset LK_TTL
  done
}

@test "--owner sets the token; the same owner asked again by another process is refused" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr lk acquire --key k --ttl 30 --owner worker-7
    [ "$output" = worker-7 ]
    run -75 lk acquire --key k --ttl 30 --owner worker-7
    lk release --key k --owner worker-7
  done
}

@test "--owner - reads one line of stdin and leaves the rest" {
  for store in $stores; do
    fresh_store "$store"
    printf 'from stdin\nrest\n' >words
    { lk acquire --key k --ttl 30 --owner - >token; cat >rest; } <words
    [ "$(cat token)" = 'from stdin' ]
    [ "$(cat rest)" = rest ]
  done
}

@test "odd but lawful owners survive unchanged" {
  for store in $stores; do
    fresh_store "$store"
    for owner in 'a b' "it's" "x'; DROP TABLE locks;--" '-x' '--help' 'ü' '*' 'a\b'; do
      run -0 --separate-stderr lk acquire --key k --ttl 30 "--owner=$owner"
      [ "$output" = "$owner" ]
      run -75 lk release --key k "--owner=$owner "
      lk release --key k "--owner=$owner"
    done
  done
}

@test "keys are never folded: each spelling is a lock of its own" {
  for store in $stores; do
    fresh_store "$store"
    for key in a/b 'a b' A_B a-b a_b a.b a:b 'ａ' 'a*' 'a?' 'a[bc]' ab 'a\*' -n a=b=c; do
      lk acquire "--key=$key" --ttl 60 >token || { echo "collision at $key"; return 1; }
    done
    [ "$(lk status --json | jq length)" -eq 15 ]
    run -75 lk acquire --key -n --ttl 1
  done
}

@test "--output env can be evaluated, whatever is in the values" {
  for store in $stores; do
    fresh_store "$store"
    owner="it's \"\$(touch pwned)\" \`touch pwned\`"
    lk acquire --key "k'1" --ttl 30 --owner "$owner" --output env >words
    [ "$(wc -l <words)" -eq 1 ]
    (
      eval "$(cat words)"
      [ "$LK_KEY" = "k'1" ]
      [ "$LK_OWNER" = "$owner" ]
      [ "$LK_FENCE" = "$(field "k'1" .fence)" ]
      bash -c '"$LK" release'
    )
    [ ! -e pwned ]
    is_field "k'1" .state free
  done
}

@test "--output json is one object that names the grant" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --output json >words
    [ "$(jq -r .key words)" = k ]
    [ "$(jq -r .ttl_ms words)" = 30000 ]
    is_field k .owner "$(jq -r .owner words)"
    is_field k .fence "$(jq -r .fence words)"
    # Never later than the store's own end.
    [ "$(jq .expires_ms words)" -le "$(($(field k .expires_ms) + 5))" ]
    [[ $(jq -r .expires words) =~ ^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$ ]]
  done
}

@test "a token that cannot be written is released again: 74" {
  for store in $stores; do
    fresh_store "$store"
    run -74 --separate-stderr bash -c '"$LK" acquire --key full --ttl 30 >/dev/full'
    [ "$stderr" = 'lk: cannot write the token to stdout: No space left on device; full is released again' ]
    is_field full .state free

    run -74 --separate-stderr bash -c '"$LK" acquire --key closed --ttl 30 >&-'
    [[ $stderr == 'lk: cannot write the token to stdout: '*'; closed is released again' ]]
    is_field closed .state free

    mkfifo pipe
    exec 5<>pipe 6>pipe 5<&-
    run -74 --separate-stderr bash -c '"$LK" acquire --key pipe --ttl 30 >&6'
    exec 6>&-
    rm pipe
    [[ $stderr == 'lk: cannot write the token to stdout: Broken pipe; pipe is released again' ]]
    is_field pipe .state free
  done
}

@test "a signal that comes before the token is out releases the lock, and lk dies of it" {
  for store in $stores; do
    fresh_store "$store"
    mkfifo pipe
    exec 5<>pipe
    # The pipe is full, so that lk must wait for its reader.
    dd if=/dev/zero of=pipe bs=4096 count=1000 oflag=nonblock 2>dd.err || true
    "$LK" acquire --key k --ttl 30 >&5 3>&- &
    lk_pid=$!
    wait_until 5 is_field k .state held
    kill -TERM "$lk_pid"
    ends_with 143 "$lk_pid"
    exec 5>&-
    rm pipe
    is_field k .state free
  done
}

@test "nothing on stdout but the token under set -e and pipefail" {
  for store in $stores; do
    fresh_store "$store"
    run -0 bash -euo pipefail -c '
      token=$("$LK" acquire --key k --ttl 30)
      if other=$("$LK" acquire --key k --ttl 30 2>refusal); then echo BAD; else echo "busy $? [$other]"; fi
      "$LK" status --key k | head -1
      "$LK" release --key k --owner "$token"'
    [ "${lines[0]}" = 'busy 75 []' ]
    [[ ${lines[1]} =~ ^key\ +k$ ]]
  done
}

@test "it works in the bare environment of cron" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr env -i LK_STORE="$LK_STORE" PATH=/usr/bin:/bin setsid --wait "$LK" acquire --key k --ttl 5 </dev/null
    [[ $output =~ $uuid ]]
    [ -z "$stderr" ]
  done
}
