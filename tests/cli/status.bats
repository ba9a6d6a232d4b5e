#!/usr/bin/env bats
# lk status: cards, tables, JSON, and a store that is only looked at.

load common

@test "a key that is held: a card with every field, status 0" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key invoice:42 --ttl 1h --owner me --note 'v1.9' >token
    run -0 --separate-stderr lk status invoice:42
    [ -z "$stderr" ]
    [[ ${lines[0]} =~ ^key\ +invoice:42$ ]]
    [[ ${lines[1]} =~ ^state\ +held$ ]]
    for pattern in '^host +[^ ]+$' '^user +[^ ]+$' '^pid +[0-9]+$' '^command +.+$' '^note +v1\.9$' '^owner +me$' \
      '^fence +[0-9]{16}$' '^since +20[0-9-]+T[0-9:]+\+00:00 \([0-9.]+m?s ago\)$' \
      '^expires +20[0-9-]+T[0-9:]+\+00:00 \(in (59m5[0-9]s|1h)\)$' '^durable +yes$' '^waiting +0$'; do
      grep -Eq "$pattern" <<<"$output"
    done
    grep -Fq "$LK_STORE" <<<"$output"
  done
}

@test "a key that is free: its card says so, status 1" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key other --ttl 30 >token
    run -1 --separate-stderr lk status k
    [[ ${lines[1]} =~ ^state\ +free$ ]]
    [ -z "$stderr" ]
    run -1 --separate-stderr lk status k --json
    [ "$(jq -r 'length, .[0].key, .[0].state, .[0].owner' <<<"$output" | paste -sd' ')" = '1 k free null' ]
  done
}

@test "an expired lock is free: status and acquire agree, and no time left is negative" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 100ms >token
    wait_until 5 is_field k .state free
    is_field k .left_ms null
    run -1 lk status k
    run -1 lk status
    run -0 lk acquire --key k --ttl 30
  done
}

@test "no locks: status 1, and a line that names the store" {
  for store in $stores; do
    fresh_store "$store"
    run -1 --separate-stderr lk status
    [ -z "$output" ]
    [ "$stderr" = "lk: no locks in $LK_STORE" ]
    run -1 --separate-stderr lk status --json
    [ "$output" = '[]' ]
    lk acquire --key k --ttl 30 >token
    run -1 --separate-stderr lk status 'x*'
    [ "$stderr" = "lk: no locks match 'x*' in $LK_STORE" ]
    run -1 --separate-stderr lk status 'x*' -q
    [ -z "$stderr" ]
  done
}

@test "status creates nothing" {
  fresh_store sqlite
  for words in '' k 'x*' --json; do
    # shellcheck disable=SC2086
    run -1 lk status $words
  done
  [ -z "$(ls -A "$(dirname "$LK_STORE")")" ]
}

@test "a table: one line a lock in key order, columns under their titles, no colour in a pipe" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key b --ttl 1h --note 'second' >token
    lk acquire --key a-longer-key --ttl 1h >token
    lk acquire --key 'ｗｉｄｅ' --ttl 1h >token
    run -0 --separate-stderr lk status
    [ "${#lines[@]}" -eq 4 ]
    [[ ${lines[0]} =~ ^KEY\ +STATE\ +HOLDER\ +SINCE\ +EXPIRES\ +WAITING\ +FENCE\ +NOTE$ ]]
    [[ ${lines[1]} =~ ^a-longer-key\ \ held\ +[^\ ]+@[^\ ]+\ \(pid\ [0-9]+,\ [^\)]+\)\ +[0-9.]+m?s\ ago\ +in\ (59m[0-9]+s|1h)\ +0\ +[0-9]{16}$ ]]
    [[ ${lines[2]} =~ ^b\ +held\ .*\ second$ ]]
    # Four wide letters take eight columns.
    [[ ${lines[3]} =~ ^ｗｉｄｅ\ {6}held ]]
    for n in 1 2; do
      row=${lines[n]%%held*}
      [ "${lines[0]:${#row}:5}" = STATE ]
    done
    [[ $output != *$'\e'* ]]
  done
}

@test "colour on a terminal or on demand, and NO_COLOR turns it off" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 1h >token
    TERM=xterm run -0 on_terminal "$LK" status
    [[ $output == *$'\e[33mheld\e[0m'* ]]
    TERM=xterm NO_COLOR=1 run -0 on_terminal "$LK" status
    [[ $output != *$'\e['* ]]
    TERM=xterm run -0 on_terminal "$LK" status --color never
    [[ $output != *$'\e['* ]]
    run -0 lk status --color always
    [[ $output == *$'\e[33mheld\e[0m'* ]]
  done
}

@test "patterns choose, several words are joined, a named key is there even if free" {
  for store in $stores; do
    fresh_store "$store"
    for key in invoice:1 invoice:2 report:1 'i*'; do
      lk acquire --key "$key" --ttl 30 >token
    done
    keys() { lk status --json "$@" | jq -r '.[].key' | paste -sd' '; }
    [ "$(keys 'invoice:*')" = 'invoice:1 invoice:2' ]
    [ "$(keys 'invoice:[2-9]' 'report:?')" = 'invoice:2 report:1' ]
    [ "$(keys 'invoice:*' invoice:1)" = 'invoice:1 invoice:2' ]
    [ "$(keys '[!i]*')" = 'report:1' ]
    [ "$(keys --key 'i*')" = 'i*' ]
    [ "$(keys 'i\*')" = 'i*' ]
    run -0 lk status report:1 nobody
    [[ ${lines[1]} =~ ^nobody\ +free\ +-\ +-\ +-\ +0\ +-$ ]]
    run -1 lk status nobody no-one
  done
}

@test "without a word LK_KEY is meant, else all" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key a --ttl 30 >token
    lk acquire --key b --ttl 30 >token
    LK_KEY=b run -0 lk status
    [[ ${lines[0]} =~ ^key\ +b$ ]]
    LK_KEY=b run -0 lk status '*'
    [ "${#lines[@]}" -eq 3 ]
    LK_KEY='' run -64 --separate-stderr lk status
    [ "$stderr" = 'lk: LK_KEY must not be empty' ]
  done
}

@test "JSON has the same names whatever the state, and times in both forms" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --note 'ü "x"' >token
    lk status k free --json >both
    [ "$(jq '[.[] | keys_unsorted] | unique | length' both)" -eq 1 ]
    [ "$(jq -r '.[] | select(.key == "k") | .note' both)" = 'ü "x"' ]
    expected='key state owner fence host user pid command note durable command_ended type since since_ms held_ms expires expires_ms left_ms waiting line store'
    [ "$(jq -r '.[0] | keys_unsorted | join(" ")' both)" = "$expected" ]
    is_field k '.since | sub("[.][0-9]+Z$"; "Z") | fromdate' "$(($(field k .since_ms) / 1000))"
    is_field k '.expires | sub("[.][0-9]+Z$"; "Z") | fromdate' "$(($(field k .expires_ms) / 1000))"
    [ "$(field k .left_ms)" -le 30000 ]
    is_field k .store "$LK_STORE"
  done
}

@test "JSON of a pattern has the lines as well" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >token
    "$LK" block --key k --ttl 30 --owner next >next 3>&- &
    wait_until 5 is_field k .waiting 1
    [ "$(lk status --json | jq -r '.[0].line[0].owner')" = next ]
    run -0 lk status
    [[ ${lines[1]} =~ \ 1\ +[0-9]{16}$ ]]
  done
}

@test "what users write is shown escaped: no control bytes, no forged lines" {
  for store in $stores; do
    fresh_store "$store"
    note=$'two\nlines \e[31mred\t\u202e \\.'
    lk acquire --key k --ttl 30 --note "$note" >token
    shown='two\nlines \e[31mred\t\u{202E} \\.'
    run -0 lk status k
    grep -Fqi -- "$shown" <<<"$output"
    [[ $output != *$'\e'* ]]
    run -0 lk status
    [ "${#lines[@]}" -eq 2 ]
    grep -Fqi -- "$shown" <<<"$output"
    run -75 --separate-stderr lk acquire --key k
    [ "${#stderr_lines[@]}" -eq 1 ]
    grep -Fqi -- "$shown" <<<"$stderr"
    # JSON has its own escapes, and loses nothing.
    [ "$(field k .note)" = "$note" ]
    [ "$(lk status --json | LC_ALL=C tr -d '\n -~' | wc -c)" -eq 0 ]
  done
}

@test "a reader that goes away early is no failure" {
  for store in $stores; do
    fresh_store "$store"
    for n in 1 2 3; do
      lk acquire --key "k$n" --ttl 30 >token
    done
    run -0 bash -o pipefail -c '"$LK" status | head -1'
    [ "${#lines[@]}" -eq 1 ]
    mkfifo pipe
    exec 5<>pipe 6>pipe 5<&-
    run -0 --separate-stderr bash -c '"$LK" status >&6'
    exec 6>&-
    rm pipe
    [ -z "$stderr" ]
  done
}

@test "output that cannot be written: 74" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 >token
    for words in '' k --json; do
      # shellcheck disable=SC2016
      run -74 --separate-stderr bash -c '"$LK" status $1 >/dev/full' - "$words"
      [ "$stderr" = 'lk: cannot write to stdout: No space left on device' ]
    done
    run -74 bash -c '"$LK" status >&-'
    run -74 bash -c '"$LK" --version >/dev/full'
  done
}

@test "-v names the store that is asked" {
  for store in $stores; do
    fresh_store "$store"
    run -1 --separate-stderr lk status -v
    [ "${stderr_lines[0]}" = "lk: asking $LK_STORE" ]
    lk acquire --key k --ttl 30 >token
    run -0 --separate-stderr lk status -v
    [ "$stderr" = "lk: asking $LK_STORE" ]
  done
}

@test "on a terminal the table fits into its columns; a pipe gets all of it" {
  for store in $stores; do
    fresh_store "$store"
    long=$(printf 'L%.0s' {1..512})
    lk acquire --key "$long" --ttl 60 -q >token
    lk acquire --key deploy:prod --ttl 60 --note "$(printf 'note %.0s' {1..50})" -q >token
    for columns in 60 80 120 200; do
      on_terminal sh -c "stty cols $columns; '$LK' status --color never" </dev/null | tr -d '\r' >screen
      cat screen
      [ "$(wc -l <screen)" -eq 3 ]
      [ "$(LC_ALL=C.UTF-8 wc -L <screen)" -le "$columns" ]
      grep -q '^LLLLL.*… *held' screen
      grep -q '^deplo.* held .*root\|^deplo.* held .*@' screen
    done
    lk status | grep -q "^$long  held"
    lk status | grep -q 'note note note note $\|note note note note$'
  done
}

@test "on a narrow terminal the table keeps to its columns whatever the ages, and a card breaks between words" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key key-of-a-holder --ttl 365d --note "$(printf 'note %.0s' {1..20})" -q >token
    lk block --key key-of-a-holder --ttl 60 --wait 1h --note 'the next one' -q >next 3>&- &
    wait_until 10 is_field key-of-a-holder .waiting 1
    has_age() { lk status | grep -Eq ' [0-9]+\.[0-9]s ago +in 364d23h '; }
    wait_until 10 has_age
    on_terminal sh -c "stty cols 60; '$LK' status --color never" </dev/null | tr -d '\r' >screen
    cat screen
    [ "$(LC_ALL=C.UTF-8 wc -L <screen)" -le 60 ]
    on_terminal sh -c "stty cols 60; '$LK' status --color never key-of-a-holder" </dev/null | tr -d '\r' >screen
    cat screen
    [ "$(grep -v '^store' screen | LC_ALL=C.UTF-8 wc -L)" -le 60 ]
    grep -q '^         note note' screen
    grep -q '^     .*"the next one"$' screen
    [ "$(tr -s ' \n' '\n' <screen | grep -c '^note$')" -eq 21 ]
    kill %%
  done
}

@test "a refusal quotes no more than the start of a long note" {
  fresh_store sqlite
  lk acquire --key k --ttl 60 --note "$(printf 'n%.0s' {1..5000})" -q >token
  run -75 --separate-stderr lk exec --key k -- touch ran
  [ "${#stderr}" -lt 500 ]
  [[ $stderr = *nnnn…\" ]]
}
