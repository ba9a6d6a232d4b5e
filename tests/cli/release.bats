#!/usr/bin/env bats
# lk release: giving back, and forcing.

load common

@test "release gives the lock back, silently" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    run -0 --separate-stderr lk release --key k --owner me
    [ -z "$output$stderr" ]
    is_field k .state free
  done
}

@test "what is not held: 1, naming the store that was asked" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    lk release --key k --owner me
    run -1 --separate-stderr lk release --key k --owner me
    [ "$stderr" = "lk: nothing to release: k is not held in $LK_STORE" ]
    run -1 lk release --key never --owner me
  done
}

@test "what had expired: 1; SQLite also says so, and since when" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 100ms --owner me >token
    wait_until 5 is_field k .state free
    run -1 --separate-stderr lk release --key k --owner me
    case $store in
      sqlite) [[ $stderr =~ ^'lk: nothing to release: your lock k had expired '[0-9.]+m?s' ago, and nobody has taken it since'$ ]] ;;
      *) [ "$stderr" = "lk: nothing to release: k is not held in $LK_STORE" ] ;;
    esac
  done
}

@test "another's lock is not released: 75, and who has it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner other >token
    for owner in me othe 'other ' OTHER '*' 1 true; do
      run -75 --separate-stderr lk release --key k --owner "$owner"
      [[ $stderr == 'lk: not yours: k is held by '* ]]
    done
    is_field k .owner other
  done
}

@test "only the literal key is released" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key ab --ttl 30 --owner me >token
    run -1 lk release --key 'a*' --owner me
    run -1 lk release --key 'a?' --owner me
    is_field ab .owner me
  done
}

@test "the owner may come from stdin or the environment" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 >token
    lk release --key k --owner - <token
    lk acquire --key k --ttl 30 >token
    LK_OWNER=$(cat token) lk release --key k
    lk acquire --key k --ttl 30 >token
    LK_KEY=k LK_OWNER=$(cat token) lk release
    is_field k .state free
  done
}

@test "a right owner with another fence is told the fence" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner me -q >token
    run -75 --separate-stderr lk release --key k --owner me --fence 3
    [[ $stderr = 'lk: nothing was removed: fence 3 is not that of the holder; k is held by '* ]]
  done
}

@test "LK_OWNER is not used for another key than LK_KEY" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key other --ttl 30 --owner me >token
    LK_KEY=k LK_OWNER=me run -64 --separate-stderr lk release --key other
    [ "$stderr" = "lk: --owner is missing: LK_OWNER is that of LK_KEY 'k', not of 'other'" ]
    is_field other .owner me
  done
}

@test "an empty owner or key never releases anything: 64" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 >token
    run -64 lk release --key k --owner ''
    run -64 lk release --key k --owner=
    LK_OWNER='' run -64 lk release --key k
    LK_KEY='' LK_OWNER=me run -64 lk release
    run -64 lk release --key k --owner - </dev/null
    run -64 lk release --key k
    is_field k .state held
  done
}

@test "--fence releases that grant alone" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    fence=$(field k .fence)
    run lk release --key k --owner me --fence $((fence - 1))
    [ "$status" -ne 0 ]
    is_field k .owner me
    lk release --key k --owner me --fence "$fence"
    is_field k .state free
  done
}

@test "inside exec the lock that the command stands on is not released without --force: 64" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    export LK_KEY=k LK_OWNER=me LK_HELD=$'outer\nme'
    run -64 --separate-stderr lk release
    [[ $stderr == 'lk: not released: the running command stands on k; '* ]]
    run -64 lk release --key k --owner me
    run -64 lk release --key elsewhere --owner outer
    is_field k .owner me
    # A lock that the command took for itself under the same name is its own.
    lk acquire --key mine --ttl 30 --owner me >token
    lk release --key mine --owner me
    lk release --force --yes -q
    is_field k .state free
    unset LK_KEY LK_OWNER LK_HELD
  done
}

@test "--force without a terminal needs --yes: 64" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    run -64 --separate-stderr lk release --key k --force </dev/null
    [ "$stderr" = 'lk: --force needs --yes where there is no terminal to ask on' ]
    is_field k .owner me
  done
}

@test "--force --yes removes the holder and says that nothing stops it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    run -0 --separate-stderr lk release --key k --force --yes
    [[ $stderr == 'lk: k is free now; what '*' does under it is not stopped' ]]
    is_field k .state free
    run -1 --separate-stderr lk release --key k --force --yes
    [ "$stderr" = "lk: nothing to release: k is not held in $LK_STORE" ]
  done
}

@test "--force --yes of an exec says how long its command may run on, and exec notices" {
  for store in $stores; do
    fresh_store "$store"
    "$LK" exec --key k --ttl 1 -- sleep 60 2>err 3>&- &
    exec_pid=$!
    wait_until 5 is_field k .state held
    run -0 --separate-stderr lk release --key k --force --yes
    [[ $stderr == 'lk: k is free now; the command of '*' may run on until its next renewal' ]]
    ends_with 79 "$exec_pid"
  done
}

@test "--force asks on a terminal, showing the holder" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me --note 'v1.9' >token
    for answer in n '' nonsense; do
      run -1 on_terminal "$LK" release --key k --force <<<"$answer"
      [[ $output == 'lk: k is held by '*'"v1.9"'*'lk: remove it? [y/N] '*'lk: nothing was removed'* ]]
      is_field k .owner me
    done
    # Ctrl-D: the answer has a line of its own all the same.
    run -1 on_terminal "$LK" release --key k --force </dev/null
    [ "${lines[-1]%$'\r'}" = 'lk: nothing was removed' ]
    is_field k .owner me
    run -0 on_terminal "$LK" release --key k --force <<<y
    is_field k .state free
  done
}

@test "--force asks on a terminal, and does not remove a holder that came meanwhile: 75" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner old >token
    mkfifo answers
    on_terminal "$LK" release --key k --force <answers >out 3>&- &
    asking=$!
    exec 5>answers
    wait_until 5 grep -q 'remove it' out
    lk release --key k --owner old
    lk acquire --key k --ttl 30 --owner new >token
    echo y >&5
    ends_with 75 "$asking"
    exec 5>&-
    rm answers
    grep -q 'nothing was removed: the holder of k changed meanwhile; k is held by .*, fence '"$(field k .fence)" out
    is_field k .owner new
  done
}

@test "--force --fence removes that grant alone" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    fence=$(field k .fence)
    run -75 --separate-stderr lk release --key k --force --yes --fence $((fence - 1))
    [[ $stderr == "lk: nothing was removed: fence $((fence - 1)) is not that of the holder; k is held by "* ]]
    is_field k .owner me
    lk release --key k --force --yes --fence "$fence" -q
    is_field k .state free
  done
}

@test "a forced release hands the lock to the line" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >token
    "$LK" block --key k --ttl 30 --owner next >next 3>&- &
    wait_until 5 is_field k .waiting 1
    lk release --key k --force --yes -q
    wait_until 3 is_field k .owner next
  done
}
