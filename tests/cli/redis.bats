#!/usr/bin/env bats
# The Redis store: addresses, passwords, what a server refuses and why, TLS, and what lk leaves in it.

load common
load guarded
load worlds

# refused STATUS SENTENCE WORDS...: nothing on stdout, exactly that line on stderr.
refused() {
  local expected=$1 sentence=$2
  shift 2
  run --separate-stderr "$@"
  echo "$*: $status: $stderr"
  [ "$status" -eq "$expected" ] && [ -z "$output" ] && [ "$stderr" = "lk: $sentence" ]
}

# all_refused STATUS TROUBLE: every command says so, names what did not happen, and does nothing.
all_refused() {
  refused "$1" "$2; k is not acquired" lk acquire --key k --ttl 5 &&
    refused "$1" "$2; k is not acquired; nothing was run" lk exec --key k -- touch ran &&
    refused "$1" "$2; k is not renewed" lk renew --key k --owner me &&
    refused "$1" "$2; k is not released" lk release --key k --owner me &&
    refused "$1" "$2; k is not released" lk release --key k --force --yes &&
    refused "$1" "$2" lk status k &&
    refused "$1" "$2" lk status &&
    [ ! -e ran ]
}

# all_refused_for_good STATUS TROUBLE: the same, and nobody waits for it to get better.
all_refused_for_good() {
  all_refused "$@" || return
  local began
  began=$(now_ms)
  refused "$1" "$2; k is not acquired" lk block --key k --ttl 5 --wait 1h &&
    refused "$1" "$2; k is not acquired; nothing was run" lk exec --key k --wait 1h -- touch ran &&
    [ $(($(now_ms) - began)) -lt 5000 ] &&
    [ ! -e ran ]
}

# waited_for TROUBLE: a wait says so at once, goes on to its end, and says so again (on a busy machine the last try may find
# no time for an answer).
waited_for() {
  local words
  for words in 'block --key k --ttl 5 --wait 400ms' 'exec --key k --wait 400ms -- touch ran'; do
    # shellcheck disable=SC2086
    run --separate-stderr lk $words
    echo "$words: $status: $stderr"
    [ "$status" -eq 69 ] && [ -z "$output" ] && [ "${#stderr_lines[@]}" -eq 2 ] &&
      [ "${stderr_lines[0]}" = "lk: $1; still trying" ] &&
      [[ ${stderr_lines[1]} =~ ^"lk: "("$1"|.*" did not answer within "[0-9]+ms)"; gave up on k after "[0-9.]+m?s("; nothing was run")?$ ]] || return
  done
  [ ! -e ran ]
}

# blocks_until WORDS...: a waiter that begins in trouble gets the lock once the words are done.
blocks_until() {
  "$LK" block --key k --ttl 5 --wait 30 >token 2>err 3>&- &
  waiter=$!
  wait_until 10 grep -q 'still trying' err
  "$@"
  ends_with 0 "$waiter"
  [ "$(wc -l <err)" -eq 1 ]
  [ -s token ]
}

# use_redis NAME: the server that was started under that name.
use_redis() {
  LK_STORE=$(url_of "$1")
  export LK_STORE
}

# --- The address ------------------------------------------------------------------------------------------------------

@test "a URL that is wrong: 78, and the part that is wrong" { # R25 R32
  wrong() {
    refused 78 "--store: the URL $2" lk acquire --key k --store "$1" && LK_STORE=$1 refused 78 "LK_STORE: the URL $2" lk exec --key k -- touch ran
  }
  for url in redis:///0 redis://:secret@/0 redis://; do
    run -78 --separate-stderr lk acquire --key k --store "$url"
    [[ $stderr == 'lk: --store'*' must '*'redis://'* ]]
  done
  for port in 0 65536 x '' -1 '1 '; do
    wrong "redis://h:$port" 'must have a number from 1 to 65535 as its port'
  done
  for db in x -1 1.5 65536 1/2; do
    wrong "redis://h/$db" 'must have a number from 0 to 65535 as its db'
  done
  wrong 'redis://h?db=1' 'must have the db as its path: redis://host:6379/2'
  wrong 'redis+unix:///s?db=x' 'must have a number from 0 to 65535 as its db'
  wrong 'redis://h o' 'has a host that is no host name and no IP address'
  wrong 'redis://::1' 'must have an IPv6 address in brackets, like redis://[::1]:6379'
  wrong 'redis://[::1' 'has a [ before the host and no ] after it'
  wrong 'redis://[::1]x' 'has something other than :PORT after the ] of the host'
  wrong 'redis://[zz]' 'has no IPv6 address between [ and ]'
  wrong 'redis://h?tiemout=1' 'has the unknown setting tiemout'
  wrong 'redis://h?x' 'must have settings of the form name=value after the ?'
  wrong 'redis://h?connect_timeout=1&connect_timeout=2' 'has the setting connect_timeout twice'
  wrong 'redis://h?connect_timeout=soon' 'has a bad connect_timeout: it must be a duration like 30, 1.5s, 5m or 1h30m'
  wrong 'redis://h?connect_timeout=0' 'has a bad connect_timeout: it must be longer than 0'
  wrong 'redis://h?ca=/x' 'has the setting ca, which needs rediss://'
  wrong 'rediss://h?ca=x' 'must have an absolute path as ca'
  wrong 'rediss://h?cert=/x' 'must have both cert and key, or neither'
  wrong 'rediss://h?insecure=maybe' 'must have 1 or 0 as insecure'
  wrong 'redis+unix://s' 'must have three slashes before the path of a socket: redis+unix:///run/redis.sock'
  wrong 'redis+unix:///run/' 'must name a socket, like redis+unix:///run/redis.sock'
  wrong "redis+unix:///$(printf '%0107d' 0)" 'must have a socket whose path has at most 107 bytes'
  [ ! -e ran ]
}

@test "no part of a password is shown where its URL is wrong" {
  for url in 'redis://u:sec%ret@h' 'redis://u:sec%2@h' 'redis://u:sec/ret@h' 'redis://u:sec?ret@h' 'redis://u:sec#ret@h' \
    'redis://u:secret@h:x' 'redis://u:secret@h/x' 'redis://u:secret@h?x' 'redis://u:secret@h o' 'redis://:secret@' \
    'redis://u:secret@[::1' 'redis+unix://u:secret@h/s' 'redis+unix://u:secret@' 'redis+sentinel://u:secret@h' \
    'redis:u:secret@h' 'rediss://u:secret@h?ca=sec'; do
    for words in 'acquire --key k' 'status -v' 'exec --key k -v -- true'; do
      # shellcheck disable=SC2086
      run lk ${words%%--key*} --store "$url" ${words#"${words%%--key*}"}
      echo "$url: $status: $output"
      [ "$status" -eq 78 ]
      [[ $output == 'lk: '* && $output != *sec* && $output != *ret* ]]
    done
  done
}

@test "what lk cannot do with Redis is not taken for something else: 78" { # R29
  for url in redis+sentinel://h:26379/mymaster redis-sentinel://h redis-cluster://h unix:///run/redis.sock valkey://h; do
    run -78 --separate-stderr lk acquire --key k --store "$url"
    [[ $stderr == "lk: --store: no store is called ${url%%://*}:, try sqlite:"*'redis://host'* ]]
  done
  fresh_store redis
  for words in status acquire block 'exec -- touch ran'; do
    read -ra words <<<"$words"
    run -78 --separate-stderr lk "${words[0]}" --key 'a#lk:line' "${words[@]:1}"
    [[ $stderr == 'lk: '*' #lk: '*': choose another name'* ]]
  done
  [ ! -e ran ]
}

@test "a lifetime that is none is refused before anything is written" { # R52
  fresh_store redis
  for ttl in 0 0.0004 0.4ms 1ms -1; do
    run -64 lk exec --key k --ttl "$ttl" -- touch ran
    run -64 lk acquire --key k --ttl "$ttl"
    run -64 lk renew --key k --owner me --ttl "$ttl"
  done
  [ "$(ask_redis main DBSIZE)" = 0 ]
}

@test "the db is that of the URL, as its path or as ?db=, also on a new connection" { # R30
  start_redis_at --port main
  tcp=redis://127.0.0.1:$port/3
  unix="$(url_of main)?db=3"
  for LK_STORE in "$tcp" "$unix"; do
    export LK_STORE
    start_guarded --key k --ttl 2
    ask_redis main CLIENT KILL TYPE normal >killed
    fence=$(field k .fence)
    began=$SECONDS
    while ((SECONDS - began < 3)); do
      is_field k .fence "$fence"
      sleep 0.1
    done
    [ "$(ask_redis main -n 3 EXISTS lk:k)" = 1 ]
    [ "$(ask_redis main -n 0 DBSIZE)" = 0 ]
    let_go
    ends_with 0 "$lk_pid"
    # What waits, and the guardian, are in no other.
    lk acquire --key k --ttl 60 --owner first >token
    "$LK" block --key k --ttl 5 >second 3>&- &
    waiter=$!
    wait_until 5 is_field k .waiting 1
    lk release --key k --owner first
    ends_with 0 "$waiter"
    start_guarded --key j --ttl 600
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 is_field j .state free
    [ "$(ask_redis main -n 0 DBSIZE)" = 0 ]
    ask_redis main FLUSHALL >flushed
  done
  # The same locks, however they are reached; what is shown leads there again.
  lk acquire --store "$tcp" --key k --ttl 60 >token
  run -75 lk acquire --store "$unix" --key k
  is_field k .store "$unix"
  run -75 lk acquire --store "$(LK_STORE=$tcp field k .store)" --key k
  run -0 lk acquire --store "$(url_of main)" --key k --ttl 60
}

@test "a db that the server has not: 78, and nothing is written in another one" { # R25
  fresh_store redis
  for db in 16 65535; do
    LK_STORE="$(url_of main)?db=$db" all_refused_for_good 78 "$(url_of main)?db=$db has no db $db (by default there are 0 to 15)"
  done
  [ "$(ask_redis main DBSIZE)" = 0 ]
}

@test "--prefix and LK_PREFIX go before the key, an empty one leaves it as it is" {
  fresh_store redis
  key_in_redis() { ask_redis main --scan --pattern '*k' | paste -sd' '; }
  lk acquire --key k --ttl 60 >token
  [ "$(key_in_redis)" = lk:k ]
  lk acquire --key k --ttl 60 --prefix app: >token
  [ "$(ask_redis main GET app:k)" = "$(cat token)" ]
  LK_PREFIX=env: lk acquire --key k --ttl 60 >token
  [ "$(ask_redis main GET env:k)" = "$(cat token)" ]
  LK_PREFIX=env: lk acquire --key k --ttl 60 --prefix '' >token
  [ "$(ask_redis main GET k)" = "$(cat token)" ]
  LK_PREFIX='' run -75 lk acquire --key k --ttl 60
  [ "$(key_in_redis | tr ' ' '\n' | sort | paste -sd' ')" = 'app:k env:k k lk:k' ]
  # Each prefix is a world of its own, and its patterns are taken literally.
  lk acquire --key k --ttl 60 --prefix '*' >token
  [ "$(lk status --json --prefix app: | jq -r '.[].key' | paste -sd' ')" = k ]
  [ "$(lk status --json --prefix '*' | jq -r '.[].owner')" = "$(cat token)" ]
  lk release --key k --owner "$(cat token)" --prefix '*'
  is_field k .state held
  # Under exec, too: the guardian and the command's own lk use it.
  LK_PREFIX=job: run -0 lk exec --key e -- sh -c '"$LK" status --json | jq -r ".[].key"'
  [ "$output" = e ]
  LK_PREFIX=job: start_guarded --key g --ttl 600
  [ "$(ask_redis main EXISTS job:g)" = 1 ]
  kill -KILL "$lk_pid"
  ends_with 137 "$lk_pid"
  wait_until 10 is_gone "$(cat child)"
  gone() { [ "$(ask_redis main EXISTS job:g)" = 0 ]; }
  wait_until 5 gone
}

# --- Passwords --------------------------------------------------------------------------------------------------------

@test "a password that is missing or wrong: 77 at once, and never shown" { # R15
  fresh_store redis
  lk acquire --key k --ttl 60 --owner other >token
  here=$(url_of main)
  socket=$(socket_of main)
  ask_redis main CONFIG SET requirepass right >answer
  # A long script is turned away before its name is read.
  for words in 'acquire --key k' 'exec --key k --wait 1h -- touch ran' 'block --key k' 'release --key k --owner me' status; do
    # shellcheck disable=SC2086
    run -77 --separate-stderr lk $words
    [[ $stderr =~ ^"lk: $here wants a password"( \(NOAUTH\))?": set LK_REDIS_PASSWORD, or name a password_file in the settings"(;|$) ]]
  done
  LK_STORE=redis+unix://:wrong@$socket all_refused_for_good 77 "$here refused the password (WRONGPASS)"
  LK_REDIS_PASSWORD=wrong all_refused_for_good 77 "$here refused the password (WRONGPASS)"
  LK_STORE=redis+unix://bob:wrong@$socket all_refused_for_good 77 "$here refused this user and password (WRONGPASS)"
  LK_STORE=redis+unix://bob@$socket all_refused_for_good 77 "$here wants a password for that user (WRONGPASS): set LK_REDIS_PASSWORD; a password without a user is written redis://:PASSWORD@host"
  [ "$(redis-cli -s "$socket" --no-auth-warning -a right GET lk:k)" = other ]
}

@test "a password for a server that has none: 77" {
  fresh_store redis
  here=$(url_of main)
  sentence="$here has no password set, but one was given: take it out of the URL and LK_REDIS_PASSWORD"
  LK_STORE=redis+unix://:needless@$(socket_of main) all_refused_for_good 77 "$sentence"
  LK_REDIS_PASSWORD=needless all_refused_for_good 77 "$sentence"
  # One that came empty is none.
  LK_REDIS_PASSWORD='' run -0 lk acquire --key k --ttl 5
}

@test "LK_REDIS_PASSWORD is used where the URL has none, and by the command's own lk" {
  start_redis main --requirepass 'p@ss:w%rd/#?'
  socket=$(socket_of main)
  export LK_STORE="redis+unix://$socket"
  run -0 --separate-stderr env LK_REDIS_PASSWORD='p@ss:w%rd/#?' "$LK" exec --key k -- "$LK" status --json
  [ "$(jq -r '.[].key' <<<"$output")" = k ]
  unset LK_STORE
  in_url='p%40ss%3Aw%25rd%2F%23%3F'
  # The URL's own one wins. What the command gets has none, and works with the variable.
  LK_REDIS_PASSWORD=other run -77 --separate-stderr lk exec --store "redis+unix://:$in_url@$socket" --key k -- sh -c \
    'echo "$LK_STORE"; LK_REDIS_PASSWORD="p@ss:w%rd/#?" "$LK" status --key k >card && "$LK" status'
  [ "${lines[0]}" = "redis+unix://$socket" ]
  [ -s card ]
  [[ $stderr == "lk: redis+unix://$socket refused the password (WRONGPASS)" ]]
}

@test "a user with its password; the user is shown, the password is not" {
  fresh_store redis
  ask_redis main ACL SETUSER worker on '>pass' '~*' '&*' +@all >answer
  socket=$(socket_of main)
  export LK_STORE="redis+unix://worker:pass@$socket"
  run -0 --separate-stderr lk acquire --key k --ttl 60 -v --output json
  [ "$(jq -r .store <<<"$output")" = "redis+unix://worker@$socket" ]
  [ "${stderr_lines[0]}" = "lk: asking redis+unix://worker@$socket" ]
  LK_STORE="redis+unix://worker@$socket" LK_REDIS_PASSWORD=pass run -75 lk acquire --key k
}

@test "the password of --store is blanked in lk's own command line, and appears in nothing that lk says or shows" {
  start_redis main --requirepass s3cret
  url=redis+unix://:s3cret@$(socket_of main)
  shown=redis+unix://$(socket_of main)
  env --default-signal setsid "$LK" exec -v --store "$url" --key k --ttl 2 -- sh -c "env >env; $guarded" >out 2>err 3>&- &
  lk_pid=$!
  wait_until 20 has_child
  guardian=$(guardian_of "$lk_pid")
  for pid in "$lk_pid" "$guardian" "$(cat child)"; do
    run ! grep -aq s3cret "/proc/$pid/cmdline"
    run -0 ps -ww -o args= -p "$pid"
    [[ $output != *s3cret* ]]
  done
  tr '\0' ' ' <"/proc/$lk_pid/cmdline" | grep -Fq -- "--store redis+unix://:******@$(socket_of main)"
  grep -Fxq "LK_STORE=$shown" env
  run ! grep -q s3cret env
  "$LK" block -v "--store=$url" --key k --wait 1h >waiter.out 2>waiter.err 3>&- &
  waiter=$!
  wait_until 10 grep -q 'waiting for k' waiter.err
  run ! grep -aq s3cret "/proc/$waiter/cmdline"
  for words in 'status -v' 'status k' 'status --json' 'acquire --key k -v' 'renew --key k --owner x -v' 'release --key k --owner x -v' \
    'release --key j --owner x'; do
    # shellcheck disable=SC2086
    run lk $words --store "$url"
    echo "$words: $output"
    [[ $output != *s3cret* ]]
    [[ $words != status* ]] || [[ $output == *"$shown"* || $output == KEY* ]]
  done
  # In trouble: the server refuses, hangs, is gone.
  ask_redis main -a s3cret --no-auth-warning CONFIG SET requirepass other >answer
  ask_redis main -a other --no-auth-warning CLIENT KILL TYPE normal >killed
  ends_with 79 "$lk_pid"
  wait_until 10 grep -q WRONGPASS waiter.err
  ends_with 77 "$waiter"
  kill_redis main
  run -69 --separate-stderr lk status --store "$url"
  [ "$stderr" = "lk: there is no socket at $shown" ]
  run ! grep -q s3cret out err waiter.out waiter.err
  grep -q WRONGPASS err
}

# --- What a server refuses ----------------------------------------------------------------------------------------------

@test "nothing is there: 69, and a wait goes on until somebody is" {
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export LK_STORE=redis://127.0.0.1:$port
  all_refused 69 "nothing listens at $LK_STORE (connection refused)"
  waited_for "nothing listens at $LK_STORE (connection refused)"
  start_redis other
  use_redis main
  all_refused 69 "there is no socket at $LK_STORE"
  waited_for "there is no socket at $LK_STORE"
  blocks_until start_redis main
}

@test "a host that no name service knows: 69" {
  run -69 --separate-stderr lk acquire --store redis://no-such-host.invalid/2 --key k
  [[ $stderr == 'lk: cannot find the address of the host no-such-host.invalid for redis://no-such-host.invalid:6379/2: '*'; k is not acquired' ]]
}

@test "an ACL that is too narrow: 77, and what it must allow; the command is not run, no lock is left" { # R18 R19
  fresh_store redis
  here=$(url_of main)
  user() {
    ask_redis main ACL SETUSER u reset on '>x' "$@" >answer
    [ "$(cat answer)" = OK ]
  }
  socket=$(socket_of main)
  export LK_STORE="redis+unix://u:x@$socket"
  user '~*' '&*' +@all -@scripting
  for words in 'acquire --key k' 'block --key k --wait 1h' 'exec --key k -- touch ran' 'renew --key k --owner me' 'status k'; do
    # shellcheck disable=SC2086
    run -77 --separate-stderr lk $words
    [[ $stderr == "lk: $here does not let this user use EVALSHA (NOPERM): its ACL must allow it"* ]]
  done
  user '~*' '&*' +@all -scan
  refused 77 "$here does not let this user use SCAN (NOPERM): its ACL must allow it" lk status
  user '~app:*' '&*' +@all
  run -77 --separate-stderr lk acquire --key k
  [[ $stderr == "lk: $here does not let this user use the keys that lk uses (NOPERM): "* ]]
  # Half of what is needed: the answer is the same, and nothing is half done.
  user '~*' '&*' +set +get +eval +evalsha
  for words in 'acquire --key k --ttl 60' 'exec --key k --ttl 60 -- touch ran' 'block --key k --ttl 60'; do
    # shellcheck disable=SC2086
    run -77 --separate-stderr lk $words
    [[ $stderr == "lk: $here does not let this user use a command of lk's scripts (NOPERM): "* ]]
  done
  [ "$(ask_redis main DBSIZE)" = 0 ]
  # What release needs is missing: it fails loudly, and the lock is still there.
  LK_STORE=$here lk acquire --key k --ttl 60 --owner me >token
  user '~*' '&*' +@all -del
  run -77 --separate-stderr lk release --key k --owner me
  [[ $stderr == "lk: $here does not let this user use "*' (NOPERM): its ACL must allow it; k is not released' ]]
  [ "$(ask_redis main GET lk:k)" = me ]
  [ ! -e ran ]
}

@test "a user of the ACL that the manual shows can do everything, and could do with nothing less" { # R19
  # The locks of the prefix lk:, what lk keeps beside them, and its bells.
  keys='~lk:* ~{*lk:*#lk:*'
  channels='&*#lk:*'
  # Connections: select is for a db other than 0. The scripts. What they use.
  commands='select scan subscribe eval evalsha time type get set del pttl pexpire dump hget hmget hset hdel zadd zrange zrem publish pubsub|numsub script|load'
  # They are those of the manual.
  manual=$(sed -n '/^ACL SETUSER/,/^\.EE/{/^\.EE/!p}' "$BATS_TEST_DIRNAME/../../man/lk-stores.7" | tr -s ' \n' ' ')
  [ "$manual" = "ACL SETUSER locks on >PASSWORD resetchannels $keys $channels +${commands// / +} " ]
  start_redis main
  socket=$(socket_of main)
  export LK_STORE="redis+unix://locks@$socket?db=1" LK_REDIS_PASSWORD=secret
  # user [WITHOUT]: as the manual has it, but for one command.
  user() {
    local command words=(reset on '>secret' resetchannels)
    set -f
    # shellcheck disable=SC2206
    words+=($keys $channels)
    set +f
    for command in $commands; do
      [ "$command" = "${1-}" ] || words+=("+$command")
    done
    ask_redis main ACL SETUSER locks "${words[@]}" >answer
    [ "$(cat answer)" = OK ]
  }
  # Every command and every way it can end.
  everything() {
    local key waiter began
    ask_redis main FLUSHALL >answer && ask_redis main SCRIPT FLUSH >answer || return
    # In the slot of its tag, of its whole name, and of a name that cannot be a tag.
    for key in '{k}' k 'k}'; do
      lk acquire --key "$key" --ttl 60 --owner first >token || return
      [ "$(lk acquire --key "$key" --ttl 60 2>err; echo $?)" = 75 ] || return
      lk renew --key "$key" --owner first --ttl 100 || return
      lk status --key "$key" >card || return
      "$LK" block --key "$key" --ttl 60 --wait 10 --owner next >waited 2>waiter.err 3>&- &
      waiter=$!
      wait_until 5 is_field "$key" .waiting 1 || { kill "$waiter"; return 1; }
      began=$(now_ms)
      lk release --key "$key" --owner first || { kill "$waiter"; return 1; }
      ends_with 0 "$waiter" || return
      # By its bell, not by its own look after a second.
      [ $(($(now_ms) - began)) -lt 700 ] || return
      lk release --key "$key" --force --yes -q || return
      lk exec --key "$key" -- true || return
      lk exec --key "$key" --min-hold 60s -- true || return
    done
    [ "$(lk status --json | jq length)" -eq 3 ] || return
    ask_redis main -n 1 SADD lk:foreign a >answer || return
    lk status foreign >card || return
    lk release --key foreign --force --yes -q || return
    [ ! -s waiter.err ]
  }
  user
  everything
  # Nothing else is within its reach.
  for words in 'GET other' 'SET other x' 'KEYS *' FLUSHALL 'CONFIG GET requirepass' 'SUBSCRIBE other' 'PUBLISH other x' 'ACL LIST'; do
    # shellcheck disable=SC2086
    (set -f; redis-cli -s "$socket" --user locks --no-auth-warning --pass secret $words) >answer 2>&1
    grep -q NOPERM answer
  done
  for command in $commands; do
    # Without these three the work is done, if less well: whoever waits is not woken, and looks for itself after a second;
    # a new server knows the script of the release only when it is needed.
    [[ ! $command =~ ^(publish|pubsub\|numsub|script\|load)$ ]] || continue
    user "$command"
    if everything >out 2>err; then
      echo "it works without $command"
      return 1
    fi
  done
}

@test "a server that has renamed what lk does not need is fine; what it needs is named" { # R20
  start_redis main --rename-command HELLO '' --rename-command CLIENT '' --rename-command INFO '' --rename-command COMMAND ''
  use_redis main
  run -0 --separate-stderr lk exec --key k -- true
  [ -z "$output$stderr" ]
  start_redis bare --rename-command EVALSHA ''
  run -77 --separate-stderr lk acquire --key k --store "$(url_of bare)"
  [ "$stderr" = "lk: $(url_of bare) does not offer EVALSHA, which lk needs; k is not acquired" ]
}

@test "a read-only replica: 69, never \"held\" for a lock that is free; a wait lasts until it is the primary" { # R11
  fresh_store redis
  start_redis replica
  use_redis replica
  # Its primary is nowhere: what it has, it shows.
  ask_redis replica REPLICAOF 127.0.0.1 1 >answer
  sentence="$LK_STORE is a read-only replica (READONLY): name the primary"
  refused 69 "$sentence; k is not acquired" lk acquire --key k --ttl 5
  refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran
  waited_for "$sentence"
  run -1 --separate-stderr lk status
  [ "$stderr" = "lk: no locks in $LK_STORE" ]
  ask_redis replica CONFIG SET replica-serve-stale-data no >answer
  sentence="$LK_STORE is a replica that lost its primary (MASTERDOWN): name the primary, or wait until it is back"
  all_refused 69 "$sentence"
  waited_for "$sentence"
  blocks_until ask_redis replica REPLICAOF NO ONE
}

@test "what a replica of a live primary shows is the primary's, and it is not changed there" { # R11
  start_redis_at --port primary
  start_redis replica --replicaof 127.0.0.1 "$port"
  use_redis primary
  lk acquire --key k --ttl 60 --owner me >token
  LK_STORE="$(url_of replica)"
  wait_until 20 is_field k .owner me
  for words in 'renew --key k --owner me --ttl 1h' 'release --key k --owner me' 'release --key k --force --yes'; do
    # shellcheck disable=SC2086
    run -69 --separate-stderr lk $words
    [[ $stderr == "lk: $LK_STORE is a read-only replica (READONLY): name the primary; k is not re"* ]]
  done
  LK_STORE="$(url_of primary)" is_field k .owner me
}

@test "a server that still loads its data: 69 for one try, waited out by the others" { # R12
  start_redis main
  ask_redis main EVAL 'for i = 1, 3000 do redis.call("SET", "filler" .. i, i) end' 0 >answer
  ask_redis main SAVE >answer
  kill_redis main
  # A millisecond for each key.
  start_redis main --key-load-delay 1000 --loading-process-events-interval-bytes 1024
  use_redis main
  all_refused 69 "$LK_STORE is still loading its data (LOADING): try again in a moment"
  blocks_until true
  [ "$(ask_redis main DBSIZE)" -gt 3000 ]
}

@test "no memory: 69 for a new lock; what is held is renewed and released all the same" { # R13
  fresh_store redis
  for key in k renewed forced; do
    lk acquire --key "$key" --ttl 60 --owner me >token
  done
  start_guarded --key run --ttl 2
  ask_redis main CONFIG SET maxmemory 1 >answer
  sentence="$LK_STORE has no memory left for writes (OOM): raise its maxmemory or remove data"
  refused 69 "$sentence; new is not acquired" lk acquire --key new --ttl 5
  refused 69 "$sentence; new is not acquired; nothing was run" lk exec --key new -- touch ran
  run -0 --separate-stderr lk renew --key renewed --owner me --ttl 1h
  [ "$(field renewed .left_ms)" -gt 3500000 ]
  run -0 --separate-stderr lk release --key k --owner me
  is_field k .state free
  run -0 lk release --key forced --force --yes
  is_field forced .state free
  waited_for "$sentence"
  # Three renewals later.
  fence=$(field run .fence)
  began=$(now_ms)
  while (($(now_ms) - began < 2500)); do
    is_field run .fence "$fence"
    sleep 0.1
  done
  let_go
  ends_with 0 "$lk_pid"
  is_field run .state free
  blocks_until ask_redis main CONFIG SET maxmemory 0
}

@test "a server that cannot save takes no writes: 69, also for a release; a command keeps its own status" { # R46
  start_redis main --save '3600 1'
  use_redis main
  lk acquire --key held --ttl 60 --owner me >token
  start_exec --key run --ttl 60 -- sh -c "$guarded; exit 7" 2>err
  wait_until 20 has_child
  mkdir "$redis_folder/main/dump.rdb"
  ask_redis main BGSAVE >answer
  cannot_save() { ask_redis main INFO persistence | grep -q '^rdb_last_bgsave_status:err'; }
  wait_until 20 cannot_save
  sentence="$LK_STORE takes no writes because it cannot save its data (MISCONF): look at its log and its disk"
  refused 69 "$sentence; k is not acquired" lk acquire --key k --ttl 5
  refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran
  refused 69 "$sentence; held is not released" lk release --key held --owner me
  refused 69 "$sentence; held is not released" lk release --key held --force --yes
  is_field held .owner me
  waited_for "$sentence"
  let_go
  ends_with 7 "$lk_pid"
  [ "$(cat err)" = "lk: cannot release run: $sentence; a background process tries on until its ttl ends" ]
  is_field run .state held
  rmdir "$redis_folder/main/dump.rdb"
  blocks_until ask_redis main SAVE
}

@test "too few replicas: 69 for new locks and releases, waited out" { # R47
  fresh_store redis
  lk acquire --key held --ttl 60 --owner me >token
  ask_redis main CONFIG SET min-replicas-to-write 1 >answer
  sentence="$LK_STORE takes no writes because too few replicas follow it (NOREPLICAS): wait for them, or lower min-replicas-to-write"
  refused 69 "$sentence; k is not acquired" lk acquire --key k --ttl 5
  refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran
  refused 69 "$sentence; held is not released" lk release --key held --owner me
  waited_for "$sentence"
  blocks_until ask_redis main CONFIG SET min-replicas-to-write 0
}

@test "no more clients: 69; whoever holds a lock keeps its connection, and the waiters back off" { # R44
  fresh_store redis
  sentence="$LK_STORE has as many clients as it takes (max number of clients): end some, or raise its maxclients"
  start_guarded --key run --ttl 2
  [ "$(ask_redis main CLIENT LIST TYPE normal | grep -cv 'cmd=client')" -eq 1 ]
  ask_redis main CONFIG SET maxclients 1 >answer
  all_refused 69 "$sentence"
  waited_for "$sentence"
  began=$(now_ms)
  waiters=()
  for n in 1 2 3 4 5 6 7 8 9 10; do
    "$LK" block --key other --ttl 5 --wait 2s >token 2>"err.$n" 3>&- &
    waiters+=($!)
  done
  for waiter in "${waiters[@]}"; do
    ends_with 69 "$waiter"
  done
  [ $(($(now_ms) - began)) -lt 4000 ]
  # The end of the ttl is long over: it was renewed.
  runs "$(cat child)"
  let_go
  ends_with 0 "$lk_pid"
  # From 50 ms to 2 s: hardly ten tries in two seconds, not hundreds.
  ask_redis main CONFIG SET maxclients 100 >answer
  tries=$(ask_redis main INFO stats | sed -n 's/^rejected_connections:\([0-9]*\).*/\1/p')
  echo "$tries connections were rejected"
  [ "$tries" -lt 200 ]
  is_field run .state free
}

@test "one connection for each lk that holds or asks, two for one that waits" { # R44
  fresh_store redis
  # From now on the server knows all scripts.
  lk exec --key first -- true
  start_guarded --key k --ttl 60
  "$LK" block --key k --ttl 5 >token 3>&- &
  waiter=$!
  wait_until 5 is_field k .waiting 1
  [ "$(ask_redis main CLIENT LIST | grep -c 'cmd=eval')" -eq 2 ]
  [ "$(ask_redis main CLIENT LIST | grep -vc 'cmd=client')" -eq 3 ]
  [ "$(ask_redis main CLIENT LIST TYPE pubsub | wc -l)" -eq 1 ]
  let_go
  ends_with 0 "$lk_pid"
  ends_with 0 "$waiter"
  [ "$(ask_redis main CLIENT LIST | wc -l)" -eq 1 ]
}

@test "a server that hangs: 69 within the time-out, never \"held\", and no lock that nobody knows of is left" { # R33 R34
  fresh_store redis
  lk acquire --key other --ttl 60 >token
  lk release --key other --owner "$(cat token)"
  stop_redis main
  url=$LK_STORE
  for pair in '300ms:300ms' '1s:1000ms'; do
    LK_STORE="$url?op_timeout=${pair%:*}"
    limit=${pair#*:}
    limit=${limit%ms}
    sentence="$url did not answer within ${pair%:*}"
    # May take twice as long where an answer is missing that could have been a grant: then it is taken back.
    in_time() {
      local began
      began=$(now_ms)
      run -69 --separate-stderr lk "$@"
      echo "$*: $(($(now_ms) - began)) ms: $stderr"
      [ $(($(now_ms) - began)) -lt $((2 * limit + 700)) ] && [ -z "$output" ] && [ "${#stderr_lines[@]}" -eq 1 ]
    }
    until_then=', until 20[0-9-]+T[0-9:]+[+]00:00 at the latest'
    maybe="[0-9a-f-]{36}$until_then"
    in_time acquire --key k --ttl 5
    [[ $stderr =~ ^"lk: $sentence; k may be held all the same, by owner "$maybe$ ]]
    in_time exec --key k --ttl 5 -- touch ran
    [[ $stderr =~ ^"lk: $sentence; k may be held all the same, by owner "$maybe'; nothing was run'$ ]]
    in_time renew --key k --owner me
    [[ $stderr =~ ^"lk: $sentence; k may be renewed all the same"$until_then$ ]]
    in_time release --key k --owner me
    [ "$stderr" = "lk: $sentence; k may be held still" ]
    in_time release --key k --force --yes
    [ "$stderr" = "lk: $sentence; k is not released" ]
    in_time status
    [ "$stderr" = "lk: $sentence" ]
  done
  # A wait ends at its own time.
  for words in 'block --key k --ttl 5 --wait 1s' 'exec --key k --wait 1s -- touch ran'; do
    began=$(now_ms)
    # shellcheck disable=SC2086
    LK_STORE="$url" run -69 --separate-stderr lk $words
    took=$(($(now_ms) - began))
    echo "$words: $took ms: $stderr"
    [ "$took" -ge 1000 ]
    [ "$took" -lt 2000 ]
    [[ $stderr == "lk: $url did not answer within "*'k may be held all the same'* ]]
  done
  LK_STORE=$url
  go_on_redis main
  # What had been sent meanwhile is carried out now, and ends within its ttl.
  wait_until 7 is_field k .state free
  is_field k .waiting 0
  [ ! -e ran ]
}

@test "without a setting a server that hangs costs 5 s, and Ctrl-C ends that at once" { # R33
  fresh_store redis
  stop_redis main
  began=$(now_ms)
  run -69 lk status
  took=$(($(now_ms) - began))
  [ "$took" -ge 5000 ]
  [ "$took" -lt 6500 ]
  for words in 'exec --key k -- touch ran' 'acquire --key k' 'block --key k'; do
    # shellcheck disable=SC2086
    env --default-signal "$LK" $words >out 2>err 3>&- &
    asking=$!
    is_asking() { [ -n "$(find "/proc/$asking/fd" -lname 'socket:*')" ]; }
    wait_until 5 is_asking
    began=$(now_ms)
    kill -INT "$asking"
    ends_with 130 "$asking"
    [ $(($(now_ms) - began)) -lt 1000 ]
  done
  [ ! -e ran ]
}

@test "connect_timeout is that of a connection which is not taken" {
  # A queue of one connection that nobody takes from; more of them are not answered.
  python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(0)
full = [socket.socket() for _ in range(3)]
for c in full:
    c.setblocking(False)
    c.connect_ex(s.getsockname())
print(s.getsockname()[1], flush=True)
time.sleep(60)' >port 3>&- &
  wait_until 10 test -s port
  here=redis://127.0.0.1:$(cat port)
  for limit in 300ms 1s; do
    began=$(now_ms)
    refused 69 "cannot connect to $here: no answer within $limit; k is not acquired" lk acquire --key k --store "$here?connect_timeout=$limit"
    took=$(($(now_ms) - began))
    [ "$took" -ge 300 ]
    [ "$took" -lt 2000 ]
  done
}

@test "something else than Redis answers: 78, with its first words" {
  python3 -c '
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
print(s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept()
    c.recv(100)
    c.sendall(b"HTTP/1.1 400 \x1b[31mBad Request\r\n\r\n")
    c.close()' >port 3>&- &
  wait_until 10 test -s port
  here=redis://127.0.0.1:$(cat port)
  refused 78 "$here is no Redis server: it answered \"HTTP/1.1 400 \\e[31mBad Request\\x0d\\n\\x0d\\n\"; k is not acquired" lk acquire --key k --store "$here"
}

@test "a cluster: down, 69 and waited out; a node of many, 78" { # R22 R23 R25
  start_redis_at --port main --cluster-enabled yes
  use_redis main
  sentence="$LK_STORE is part of a Redis Cluster that is down (CLUSTERDOWN): wait until all its slots are served"
  refused 69 "$sentence; k is not acquired" lk acquire --key k --ttl 5
  refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran
  waited_for "$sentence"
  refused 78 "$LK_STORE?db=1 is a node of a Redis Cluster, which has no other db than 0: leave the db out of the URL; k is not acquired" \
    lk acquire --key k --store "$LK_STORE?db=1"
  first=$port
  blocks_until ask_redis main CLUSTER ADDSLOTSRANGE 0 16383
  # One node that has all slots is a server like another, whatever is in a key.
  for key in a '{a}b' 'a}b' '{}a' 'a{b' '{a}{b}'; do
    run -0 lk exec --key "$key" -- true
  done
  ask_redis main CLUSTER DELSLOTSRANGE 0 8191 >answer
  start_redis_at --port other --cluster-enabled yes
  ask_redis other CLUSTER ADDSLOTSRANGE 0 8191 >answer
  ask_redis other CLUSTER MEET 127.0.0.1 "$first" >answer
  met() { [[ $(ask_redis main CLUSTER INFO) == *cluster_state:ok*cluster_slots_ok:16384* ]]; }
  wait_until 30 met
  for key in a b c d e f; do
    run --separate-stderr lk exec --key "$key" -- echo ran
    echo "$key: $status $output $stderr"
    case $status in
      0) [ "$output" = ran ] ;;
      78)
        [ "$stderr" = "lk: $LK_STORE is a node of a Redis Cluster (MOVED), which is not supported: use a server that is no cluster; $key is not acquired; nothing was run" ]
        moved=yes
        ;;
      *) return 1 ;;
    esac
  done
  [ "$moved" = yes ]
}

# --- Data of others where lk keeps its own ------------------------------------------------------------------------------

# spoil HELPER TYPE COMMAND WORDS...: data of that type is where lk keeps what belongs to k. $sentence says so.
spoil() {
  local helper="{lk:k}#lk:$1"
  ask_redis main DEL "$helper" >answer
  ask_redis main "$3" "$helper" "${@:4}" >answer
  [ "$(ask_redis main TYPE "$helper")" = "$2" ]
  sentence="$LK_STORE has data of another type ($2) where lk keeps its own for the lock k: delete the key $helper"
}

# Nobody gets or frees the lock of "me"; who looks is told why. Nothing has changed.
nothing_but_renewing() {
  refused 69 "$sentence; k is not acquired" lk acquire --key k --ttl 5 &&
    refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran &&
    refused 69 "$sentence; k is not acquired" lk block --key k --ttl 5 --wait 20s &&
    refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k --wait 20s -- touch ran &&
    refused 69 "$sentence; k is not released" lk release --key k --owner me &&
    refused 69 "$sentence; k is not released" lk release --key k --force --yes &&
    refused 69 "$sentence" lk status k &&
    refused 69 "$sentence" lk status &&
    lk renew --key k --owner me --ttl 60 &&
    [ "$(ask_redis main GET lk:k)" = me ] &&
    [ ! -e ran ]
}

@test "data of another type where lk keeps a lock's holder: 69 at once, and which key to delete" {
  fresh_store redis
  lk acquire --key other --ttl 60 >token
  for words in 'string SET x' 'list RPUSH x'; do
    lk acquire --key k --ttl 60 --owner me >token
    # shellcheck disable=SC2086
    spoil meta $words
    all_refused_for_good 69 "$sentence"
    [ "$(ask_redis main GET lk:k)" = me ]
    [ "$(ask_redis main TYPE '{lk:k}#lk:meta')" = "${words%% *}" ]
    # Another lock has nothing to do with it.
    run -75 lk acquire --key other
    ask_redis main DEL '{lk:k}#lk:meta' >answer
    run -0 lk release --key k --owner me
    # Of a free lock, too.
    # shellcheck disable=SC2086
    spoil meta $words
    refused 69 "$sentence; k is not acquired" lk acquire --key k
    refused 69 "$sentence; k is not acquired; nothing was run" lk exec --key k -- touch ran
    [ "$(ask_redis main EXISTS lk:k)" = 0 ]
    ask_redis main DEL '{lk:k}#lk:meta' >answer
  done
  [ ! -e ran ]
}

@test "data of another type where lk keeps a lock's line: the same; its holder can renew it, and nothing is half done" {
  fresh_store redis
  lk acquire --key other --ttl 60 >token
  lk acquire --key k --ttl 60 --owner me >token
  spoil line string SET x
  nothing_but_renewing
  is_field other .state held
  ask_redis main DEL '{lk:k}#lk:line' >answer
  run -0 lk release --key k --owner me
  spoil line hash HSET a b
  refused 69 "$sentence; k is not acquired" lk acquire --key k
  [ "$(ask_redis main EXISTS lk:k)" = 0 ]
  ask_redis main DEL '{lk:k}#lk:line' >answer
  run -0 lk exec --key k -- true
}

@test "data of another type where lk keeps a lock's waiters: the same; who waits ends" {
  fresh_store redis
  lk acquire --key k --ttl 60 --owner me >token
  # Who would be the first in line leaves nothing there.
  spoil places string SET x
  refused 69 "$sentence; k is not acquired" lk block --key k --wait 20s
  [ "$(ask_redis main EXISTS '{lk:k}#lk:line')" = 0 ]
  ask_redis main DEL '{lk:k}#lk:places' >answer
  "$LK" block --key k --ttl 5 --wait 20s >waited 2>waiter.err 3>&- &
  waiter=$!
  wait_until 5 is_field k .waiting 1
  spoil places zset ZADD 1 a
  ends_with 69 "$waiter"
  [ "$(cat waiter.err)" = "lk: $sentence; k is not acquired" ]
  [ ! -s waited ]
  nothing_but_renewing
  ask_redis main DEL '{lk:k}#lk:places' >answer
  is_field k .waiting 0
  run -0 lk release --key k --owner me
}

# --- TLS --------------------------------------------------------------------------------------------------------------

# authority NAME: NAME.pem and NAME.key.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>openssl.err
}

# certificate NAME AUTHORITY ALT_NAMES [OPTION...]
certificate() {
  local name=$1 by=$2 for=$3
  shift 3
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>openssl.err
  printf 'subjectAltName=%s\n' "$for" >"$name.ext"
  "$@" openssl x509 -req -in "$name.csr" -CA "$by.pem" -CAkey "$by.key" -set_serial "$RANDOM$RANDOM" -days 2 \
    -extfile "$name.ext" -out "$name.pem" 2>openssl.err
}

# start_tls NAME OPTION...: a server with that certificate.
start_tls() {
  local name=$1
  shift
  start_redis_at --tls-port "$name" --tls-cert-file "$PWD/$name.pem" --tls-key-file "$PWD/$name.key" \
    --tls-ca-cert-file "$PWD/ca.pem" --tls-auth-clients no "$@"
}

@test "rediss://: a certificate of the named authority for that name is taken, every other one refused: 78" { # R28
  need_wall_clock
  authority ca
  authority other
  certificate good ca DNS:localhost,IP:127.0.0.1
  start_tls good
  here=rediss://localhost:$port
  for host in localhost 127.0.0.1; do
    run -0 --separate-stderr lk exec --store "rediss://$host:$port?ca=$PWD/ca.pem" --key k -- sh -c 'echo "$LK_STORE"'
    [ "$output" = "rediss://$host:$port?ca=$PWD/ca.pem" ]
    [ -z "$stderr" ]
  done
  [ "$(lk status --store "$here?ca=$PWD/ca.pem" 2>&1)" = "lk: no locks in $here?ca=$PWD/ca.pem" ]
  untrusted='is signed by an authority that is not trusted here: name the authority'"'"'s certificate as ca'
  LK_STORE="$here" all_refused_for_good 78 "the TLS certificate of $here $untrusted"
  LK_STORE="$here?ca=$PWD/other.pem" all_refused_for_good 78 "the TLS certificate of $here $untrusted"
  run -0 lk acquire --key k --store "$here?insecure=1" --ttl 5
  [ "$(lk status --json --store "$here?insecure=1" | jq -r '.[].store')" = "$here?insecure=1" ]

  certificate wrongname ca DNS:other.example
  start_tls wrongname
  here=rediss://localhost:$port
  LK_STORE="$here?ca=$PWD/ca.pem" all_refused_for_good 78 "the TLS certificate of $here is not for localhost: use the name in the certificate, or give it as sni"
  run -0 lk acquire --key k --store "$here?ca=$PWD/ca.pem&sni=other.example" --ttl 5

  certificate expired ca DNS:localhost with_wall_clock '2020-01-01 00:00:00'
  start_tls expired
  here=rediss://localhost:$port
  LK_STORE="$here?ca=$PWD/ca.pem" all_refused_for_good 78 "the TLS certificate of $here has expired"
  run -0 lk acquire --key k --store "$here?insecure=1" --ttl 5

  # The authority's own certificate, as if it were a server's.
  cp ca.pem selfsigned.pem
  cp ca.key selfsigned.key
  start_tls selfsigned
  here=rediss://localhost:$port
  LK_STORE="$here" all_refused_for_good 78 "the TLS certificate of $here is self-signed: if it is the right one, name it as ca"

  for bad in missing.pem good.key; do
    run -78 --separate-stderr lk acquire --key k --store "$here?ca=$PWD/$bad"
    [[ $stderr == "lk: "*"$PWD/$bad"* ]]
  done
}

@test "rediss:// with a client certificate, where the server wants one; without it 77" {
  authority ca
  authority other
  certificate server ca IP:127.0.0.1
  certificate client ca DNS:client
  certificate stranger other DNS:stranger
  start_tls server --tls-auth-clients yes
  here=rediss://127.0.0.1:$port
  run -0 lk exec --key k --store "$here?ca=$PWD/ca.pem&cert=$PWD/client.pem&key=$PWD/client.key" -- true
  run --separate-stderr lk acquire --key k --store "$here?ca=$PWD/ca.pem"
  [[ $status:$stderr == 77:"lk: $here wants a client certificate: give cert and key in the URL; k is not acquired" ||
    $status:$stderr == 69:"lk: $here closed the connection before its first answer: it may want a client certificate (cert and key in the URL); k is not acquired" ]]
  run -77 --separate-stderr lk acquire --key k --store "$here?ca=$PWD/ca.pem&cert=$PWD/stranger.pem&key=$PWD/stranger.key"
  [[ $stderr == "lk: $here refused our client certificate: "* ]]
  run -78 --separate-stderr lk acquire --key k --store "$here?ca=$PWD/ca.pem&cert=$PWD/client.pem&key=$PWD/server.key"
  [[ $stderr == *"$PWD/server.key"*"$PWD/client.pem"* ]]
}

@test "rediss:// at a plain port and redis:// at a TLS port: 69 or 78 within the time-out, and which one to use" { # R26 R27
  # asked SENTENCE_FOR_78 SENTENCE_FOR_69
  asked() {
    local words
    for words in 'acquire --key k --ttl 5' 'exec --key k -- touch ran' 'status' 'block --key k --wait 300ms' 'release --key k --owner me'; do
      # shellcheck disable=SC2086
      run --separate-stderr lk $words
      echo "$words: $status: $stderr"
      case $status in
        78) [[ $stderr == "lk: $1"* ]] || return ;;
        69) [[ $stderr == "lk: $2"* ]] || return ;;
        *) return 1 ;;
      esac
    done
    [ ! -e ran ]
  }
  authority ca
  certificate server ca IP:127.0.0.1
  start_tls server
  export LK_STORE="redis://127.0.0.1:$port"
  # Whether the server sends an alert before it hangs up is up to its OpenSSL.
  asked "$LK_STORE expects TLS: use rediss://" "$LK_STORE closed the connection before its first answer: if it expects TLS, use rediss://"
  start_redis_at --port plain
  here=rediss://127.0.0.1:$port
  export LK_STORE="$here?connect_timeout=400ms"
  # It waits for the end of a line, which the greeting has or has not.
  asked "$here does not speak TLS: use redis://" "$here did not answer the TLS handshake within "
  stop_redis plain
  all_refused 69 "$here did not answer the TLS handshake within 400ms: if it speaks no TLS, use redis://"
}

@test "waiting, renewing and the guardian go through TLS as well" {
  authority ca
  certificate server ca IP:127.0.0.1
  start_tls server
  export LK_STORE="rediss://127.0.0.1:$port?ca=$PWD/ca.pem"
  start_guarded --key k --ttl 2
  "$LK" block --key k --ttl 60 --owner next >token 3>&- &
  waiter=$!
  wait_until 5 is_field k .waiting 1
  began=$(now_ms)
  while (($(now_ms) - began < 2500)); do
    is_field k .state held
    sleep 0.1
  done
  kill -KILL "$lk_pid"
  ends_with 137 "$lk_pid"
  ends_with 0 "$waiter"
  is_field k .owner next
  is_gone "$(cat child)"
}
