#!/usr/bin/env bats
# lk exec: what the command gets, how long the lock is kept, and who ends when.

load common
load guarded
load worlds

# --- How long the lock is kept ----------------------------------------------------------------------------------------

@test "a ttl shorter than the command: the lock is kept till its end, others are told who has it, then it is free" { # P12
  for store in $stores; do
    fresh_store "$store"
    start_exec --key waited --ttl 1 --wait 10 -- sleep 7
    waited=$lk_pid
    start_exec --key k --ttl 2 --note 'v1.9' -- sleep 7
    began=$SECONDS
    wait_until 10 is_field k .state held
    fence=$(field k .fence)
    while ((SECONDS - began < 6)); do
      is_field k .fence "$fence"
      is_field waited .state held
      sleep 0.2
    done
    run -75 --separate-stderr lk acquire --key k --ttl 1
    [[ $stderr =~ ^"lk: k is held by "[^\ ]+@[^\ ]+" (pid $lk_pid, sleep) for "[5-9][0-9.]*"s, lease ends in "[0-9.]+m?s", fence $fence: \"v1.9\""$ ]]
    ends_with 0 "$lk_pid"
    run -0 lk acquire --key k --ttl 1
    ends_with 0 "$waited"
  done
}

@test "the refusal is one line and 75, and the command is not run" { # P29
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --note 'v1.9' >token
    run -75 --separate-stderr lk exec --key k --ttl 1 -- touch ran
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == 'lk: k is held by '*', lease ends in '*'"v1.9"' ]]
    run -75 --separate-stderr lk exec -q --key k -- touch ran
    [ -z "$output$stderr" ]
    [ ! -e ran ]
    # The asker's ttl decides nothing about the other's lock. C32
    [ "$(field k .left_ms)" -gt 30000 ]
  done
}

@test "it is silent, and the lock is free as soon as it ends" {
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr lk exec --key k -- true
    [ -z "$output$stderr" ]
    is_field k .state free
    is_field k .waiting 0
  done
}

@test "it works in the bare environment of cron, silently" { # C28
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr env -i LK_STORE="$LK_STORE" PATH=/usr/bin:/bin SHELL=/bin/sh LOGNAME=root LANG=C \
      setsid --wait "$LK" exec --key k --ttl 5 -- true </dev/null
    [ -z "$output$stderr" ]
  done
}

@test "the command's end is the end: what it left running keeps neither the lock nor lk, and has nothing of lk's" { # P16 P17 P18
  for store in $stores; do
    fresh_store "$store"
    mkfifo pipe
    exec 5<>pipe
    # The daemon holds the pipe open; its pid is in the file.
    "$LK" exec --key k --ttl 60 -- sh -c 'setsid sleep 60 & echo $! >daemon; echo hi' >pipe 3>&- 5>&- &
    ends_with 0 $!
    read -r line <&5
    exec 5>&-
    [ "$line" = hi ]
    daemon=$(cat daemon)
    runs "$daemon"
    run -0 lk acquire --key k --ttl 60
    # No descriptor of the store's, of lk's own sockets, timers and signals, nor of its guardian's.
    [ -z "$(find "/proc/$daemon/fd" \( -lname "$(dirname "$LK_STORE")*" -o -lname 'anon_inode:*' -o -lname 'socket:*' \))" ]
    kill "$daemon"
    rm pipe
  done
}

@test "a lock that ended unnoticed before the command did is a loss: 79" {
  for store in $stores; do
    fresh_store "$store"
    # The next renewal is 10 s away.
    start_guarded --key k --ttl 60 2>err
    lk release --key k --force --yes -q
    let_go
    ends_with 79 "$lk_pid"
    grep -q '^lk: lost k: it is gone from ' err
  done
}

# --- What the command gets --------------------------------------------------------------------------------------------

@test "stdin, stdout and stderr are the caller's own, byte for byte" { # P19
  for store in $stores; do
    fresh_store "$store"
    head -c 5000000 /dev/urandom >in
    [ "$(lk exec --key k -- sha256sum <in)" = "$(sha256sum <in)" ]
    # shellcheck disable=SC2002
    cat in | lk exec --key k -- cat | cmp - in
    printf 'a\nb\n' >in
    { lk exec --key k -- head -n 0; cat; } <in >rest
    cmp rest in
    same='readlink -f /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 >files'
    sh -c "$same" <in >out 2>err
    mv files without
    lk exec --key k -- sh -c "$same" <in >out 2>err
    cmp files without
    run -0 --separate-stderr lk exec --key k -- sh -c 'printf "o\0o"; printf "err\n" >&2'
    [ "$stderr" = err ]
  done
}

@test "a command that reads a closed stdin or writes a closed stdout finds it closed, and lk writes its own words nowhere" { # P35
  for store in $stores; do
    fresh_store "$store"
    run -0 --separate-stderr bash -c '"$LK" exec --key k -- bash -c "
      for fd in 0 1 2; do [ ! -e /proc/\$\$/fd/\$fd ] || touch open.\$fd; done
      readlink /proc/\$PPID/fd/0 /proc/\$PPID/fd/1 /proc/\$PPID/fd/2 >lk.fds" <&- >&- 2>&-'
    [ "$(echo open.*)" = 'open.*' ]
    # In lk the numbers are taken, so that no file of the store's is written to as if it were stderr.
    [ "$(sort -u lk.fds)" = /dev/null ]
    lk acquire --key k --ttl 60 >token
    run -75 bash -c '"$LK" exec --key k -- true <&- >&- 2>&-'
    is_sound
  done
}

@test "arguments arrive untouched, whatever their bytes" { # P32 P33
  for store in $stores; do
    fresh_store "$store"
    words=('a b' '' '$HOME' 'x;touch pwned' "it's" $'l1\nl2' '*' '"q"' $'\xff\xfe' 'a\b' -v --help --version --key x -- --ttl 9)
    printf '[%s]\n' "${words[@]}" >expected
    lk exec --key k -- printf '[%s]\n' "${words[@]}" >seen
    cmp seen expected
    [ ! -e pwned ]
    # The program is taken as it is, too.
    printf '#!/bin/sh\necho "$0"\n' >-k
    chmod +x ./-k
    PATH=$PWD:$PATH run -0 lk exec --key k -- -k
    [[ $output == *-k ]]
  done
}

@test "without -- or without a command nothing is asked: 64" { # P33
  fresh_store sqlite
  run -64 --separate-stderr lk exec --key k --ttl 5 echo -n hi
  [[ $stderr == 'lk: -- is missing before the command: '* ]]
  for words in '--key k --' '--key k'; do
    # shellcheck disable=SC2086
    run -64 --separate-stderr lk exec $words
    [ "$stderr" = 'lk: no command to run: lk exec --key K -- CMD [ARG...]' ]
  done
  # shellcheck disable=SC2086
  for words in '--key k' '--key k --nested'; do
    run -64 --separate-stderr lk exec $words -- '' x
    [ "$stderr" = 'lk: the command is an empty word: is a variable unset?' ]
  done
  [ ! -e "$LK_STORE" ]
}

@test "the environment is the caller's with LK_KEY, LK_OWNER, LK_FENCE and LK_HELD, and an LK_STORE that leads to its lock" { # P36
  for store in $stores; do
    fresh_store "$store"
    export A=1 LK_X=2 LK_KEY=caller EMPTY='' ODD=$'two\nlines\xff'
    env -0 | grep -zv -e '^_=' -e '^LK_KEY=' | sort -z >expected
    lk exec --key k --owner me -- env -0 | grep -zv -e '^_=' >seen
    [ "$(grep -zxcE 'LK_KEY=k|LK_OWNER=me|LK_HELD=me|LK_FENCE=[0-9]{16}' seen)" -eq 4 ]
    grep -zvE '^LK_(KEY|OWNER|FENCE|HELD)=' seen | sort -z | cmp - expected
    # LK_KEY and LK_OWNER mean nothing in another store.
    address=$LK_STORE
    [ "$(LK_STORE='redis://:pw@host' lk exec --store "$address" --key k -- sh -c 'echo "$LK_STORE"')" = "$address" ]
    [ "$(env -u LK_STORE "$LK" exec --store "$address" --key k -- sh -c 'echo "$LK_STORE"')" = "$address" ]
    unset LK_KEY A LK_X EMPTY ODD
  done
}

@test "an LK_STORE or LK_CONFIG that is a relative path leads its command to the same lock from everywhere" {
  fresh_store sqlite
  mkdir elsewhere
  : >settings.toml
  LK_STORE=./locks.db LK_CONFIG=settings.toml run -0 --separate-stderr lk exec --key k -- sh -c 'cd elsewhere && "$0" renew && "$0" status' "$LK"
  [ -z "$stderr" ]
  [ ! -e elsewhere/locks.db ]
}

@test "LK_FENCE is that of the grant" {
  for store in $stores; do
    fresh_store "$store"
    run -0 lk exec --key k -- sh -c '[ "$("$LK" status --json --key k | jq .[0].fence)" = "$LK_FENCE" ]'
  done
}

@test "the command is looked for in the caller's PATH" { # P36
  for store in $stores; do
    fresh_store "$store"
    mkdir -p bin
    printf '#!/bin/sh\necho mine\n' >bin/true
    chmod +x bin/true
    PATH=$PWD/bin:$PATH run -0 lk exec --key k -- true
    [ "$output" = mine ]
  done
}

@test "no descriptor of lk's is open in the command, all of the caller's are" { # P17 S21
  for store in $stores; do
    fresh_store "$store"
    list='for fd in /proc/$$/fd/*; do echo "${fd##*/}"; done'
    exec 5>x 9<x 200>x
    sh -c "$list" >without
    lk exec --key k -- sh -c "$list" >with
    cmp with without
    lk exec --key k --wait 1 -- sh -c "$list" >with
    cmp with without
    lk exec --key k -- bash -c 'echo through >&200'
    exec 5>&- 9<&- 200>&-
    [ "$(cat x)" = through ]
  done
}

@test "signal mask and dispositions of the command are those that lk was started with" { # P24
  for store in $stores; do
    fresh_store "$store"
    for world in --default-signal --ignore-signal=HUP --ignore-signal=PIPE,XFSZ --ignore-signal=CHLD \
      --ignore-signal=INT,QUIT,TERM,USR1,USR2,WINCH,CONT,TSTP,TTIN,TTOU,ALRM,RTMIN+3 \
      --block-signal=TERM,INT,HUP,USR1,CHLD,WINCH,ALRM,PIPE,RTMIN+3; do
      env "$world" grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status >without
      env "$world" "$LK" exec --key k -- grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status >with
      echo "$world: $(paste -sd' ' without) / $(paste -sd' ' with)"
      cmp with without
    done
    run -0 env --default-signal "$LK" exec --key k -- bash -c 'yes | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    [ "$output" = 141 ]
  done
}

@test "the command's status is not lost where CHLD was ignored at the start" { # P24 P26
  for store in $stores; do
    fresh_store "$store"
    run -7 env --ignore-signal=CHLD "$LK" exec --key k -- sh -c 'exit 7'
    run -0 env --ignore-signal=CHLD "$LK" exec --key k -- true
    is_field k .state free
  done
}

@test "the command's working directory, umask and limits are the caller's" {
  for store in $stores; do
    fresh_store "$store"
    mkdir -p sub
    see='pwd; umask; ulimit -S -c; ulimit -S -n; ulimit -S -f'
    (cd sub && umask 027 && ulimit -S -n 200 && ulimit -S -f 4000 && bash -c "$see" >../without && lk exec --key k -- bash -c "$see" >../with)
    cmp with without
  done
}

@test "a script without #! is run as a shell would run it" { # P30
  for store in $stores; do
    fresh_store "$store"
    echo 'echo "ok $*"' >script
    chmod +x script
    run -0 --separate-stderr lk exec --key k -- ./script 'a b' c
    [ "$output" = 'ok a b c' ]
    [ -z "$stderr" ]
  done
}

@test "a megabyte of environment passes" { # P31
  for store in $stores; do
    fresh_store "$store"
    for n in 1 2 3 4 5 6 7 8 9 10; do
      export "BIG$n=$(printf '%0100000d' "$n")"
    done
    env | grep ^BIG | sort >expected
    lk exec --key k -- env | grep ^BIG | sort | cmp - expected
    unset "${!BIG@}"
  done
}

# --- Waiting ----------------------------------------------------------------------------------------------------------

@test "--wait runs the command once the lock is free" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner first >token
    start_exec --key k --wait forever -- touch ran 2>err
    wait_until 10 is_field k .waiting 1
    is_field k '.line[0].command' touch
    is_field k '.line[0].pid' "$lk_pid"
    [ ! -e ran ]
    lk release --key k --owner first
    ends_with 0 "$lk_pid"
    [ -e ran ]
    [ ! -s err ]
    rm ran
  done
}

@test "after the deadline of --wait the command is never started: 75" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >token
    began=$(now_ms)
    run -75 --separate-stderr lk exec --key k --wait 400ms -- touch ran
    took=$(($(now_ms) - began))
    [ "$took" -ge 400 ]
    [ "$took" -lt 3000 ]
    [[ $stderr =~ ^lk:\ gave\ up\ after\ 4[0-9]{2}ms:\ k\ is\ held\ by\  ]]
    run -75 --separate-stderr lk exec --key k --wait 0 -- touch ran
    [[ $stderr == 'lk: k is held by '* ]]
    [ ! -e ran ]
    is_field k .waiting 0
  done
}

@test "--max-waiting: once more after the current run" { # C15
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner first >token
    start_exec --key k --wait 1m --max-waiting 1 -- touch once
    wait_until 10 is_field k .waiting 1
    run -75 --separate-stderr lk exec --key k --wait 1m --max-waiting 1 -- touch twice
    [[ $stderr == 'lk: the line is full (--max-waiting 1): k is held by '* ]]
    lk release --key k --owner first
    ends_with 0 "$lk_pid"
    [ -e once ]
    [ ! -e twice ]
    rm once
  done
}

@test "a signal while waiting: lk leaves the line and dies of it at once, and nothing is run" { # P07
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 600 >token
    for signal in INT:130 TERM:143 HUP:129; do
      start_exec --key k --wait 10m -- touch ran
      wait_until 10 is_field k .waiting 1
      kill -"${signal%:*}" "$lk_pid"
      ends_with "${signal#*:}" "$lk_pid"
      is_field k .waiting 0
    done
    [ ! -e ran ]
  done
}

# --- Signals while the command runs -----------------------------------------------------------------------------------

@test "a signal is forwarded once; the lock is kept until the command has ended, then lk dies of the same" { # C02 P38
  for store in $stores; do
    fresh_store "$store"
    for signal in INT:130 TERM:143 HUP:129 QUIT:131 USR1:138 USR2:140; do
      start_exec --key k --ttl 600 -- sh -c 'echo $$ >child; sleep 60; sleep 60'
      wait_until 20 has_child
      kill -"${signal%:*}" "$lk_pid"
      ends_with "${signal#*:}" "$lk_pid"
      is_gone "$(cat child)"
      is_field k .state free
      # None of its children is left: it leads a group of its own.
      run ! pgrep -r R,S,D,T -g "$(cat child)"
    done
  done
}

@test "a command that takes its time over a signal keeps the lock, and its own status counts" { # C02
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 2 -- sh -c 'trap "echo got >>signals" INT; echo $$ >child; '"$until_go; exit 3"
    wait_until 20 has_child
    fence=$(field k .fence)
    kill -INT "$lk_pid"
    wait_until 10 test -e signals
    # Past the ttl: lk goes on renewing, and kills nobody.
    began=$SECONDS
    while ((SECONDS - began < 4)); do
      is_field k .fence "$fence"
      sleep 0.2
    done
    let_go
    ends_with 3 "$lk_pid"
    [ "$(cat signals)" = got ]
    is_field k .state free
    rm signals
  done
}

@test "HUP ignored by nohup is ignored by both, to the end" { # P23
  for store in $stores; do
    fresh_store "$store"
    rm -f go child
    nohup "$LK" exec --key k --ttl 5 -- sh -c "$guarded" >out 2>&1 3>&- &
    lk_pid=$!
    wait_until 20 has_child
    kill -HUP "$lk_pid" "$(cat child)"
    let_go
    ends_with 0 "$lk_pid"
  done
}

@test "a signal at any moment of the start leaves no lock behind" { # P06
  for store in $stores; do
    fresh_store "$store"
    lk exec --key warm -- true
    python3 - "$LK" >ends <<'PY'
import random, signal, subprocess, sys, time
lk = sys.argv[1]
began = time.monotonic()
for i in range(5):
    subprocess.run([lk, "exec", "--key", "warm", "--", "true"], check=True)
usual = (time.monotonic() - began) / 5
for i in range(100):
    p = subprocess.Popen([lk, "exec", "--key", f"s{i}", "--ttl", "600", "--", "sleep", "0.01"])
    time.sleep(random.random() * usual * 1.5)
    p.send_signal(random.choice([signal.SIGTERM, signal.SIGINT]))
    print(p.wait())
PY
    [ "$(lk status --json)" = '[]' ]
    # Each ended by the signal, or was done before it came.
    run ! grep -vE '^(-15|-2|0)$' ends
  done
}

# --- The death of lk --------------------------------------------------------------------------------------------------

@test "lk killed with -9: the command is ended, and only then, long before the ttl, the lock is free" { # C01
  for store in $stores; do
    fresh_store "$store"
    # It ignores TERM, so that only the KILL after the grace ends it.
    start_exec --key k --ttl 600 --kill-after 1s -- sh -c 'trap "echo TERM >>signals" TERM; echo $$ >child; '"$for_long"
    wait_until 20 has_child
    child=$(cat child)
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 test -e signals
    until is_field k .state free; do
      ((SECONDS < 300))
    done
    is_gone "$child"
    [ "$(cat signals)" = TERM ]
    rm signals
  done
}

@test "the lock of a killed lk is not free while its command still runs" {
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 600 --kill-after 60s -- sh -c 'trap : TERM; '"$guarded"
    wait_until 20 has_child
    child=$(cat child)
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
      run -75 lk acquire --key k --ttl 1
      sleep 0.1
    done
    runs "$child"
    let_go
    wait_until 10 lk acquire --key k --ttl 60 -q
    is_gone "$child"
  done
}

@test "an lk that is killed in the first milliseconds of its command: the command is ended, and its lock freed, likewise" {
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 600 -- sh -c 'echo $$ >child; kill -9 $PPID; '"$for_long"
    ends_with 137 "$lk_pid"
    wait_until 10 lk acquire --key k --ttl 60 -q
    wait_until 10 is_gone "$(cat child)"
  done
}

@test "lk and its guardian killed together: the command gets TERM; SQLite frees the lock once it is gone, Redis after the ttl" {
  for store in $stores; do
    fresh_store "$store"
    case $store in
      sqlite) ttl=600 ;;
      *) ttl=3 ;;
    esac
    start_guarded --key k --ttl "$ttl"
    child=$(cat child)
    guardian=$(guardian_of "$lk_pid")
    kill -KILL "$guardian" "$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 lk acquire --key k --ttl 60 -q
    is_gone "$child"
  done
}

@test "a KILL to lk's whole process group, as of a job runner: the guardian is not in it" {
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 600
    child=$(cat child)
    # It leads its session's group.
    kill -KILL -- "-$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 lk acquire --key k --ttl 60 -q
    is_gone "$child"
  done
}

@test "a guardian that was killed is replaced" {
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 600
    child=$(cat child)
    guardian=$(guardian_of "$lk_pid")
    kill -KILL "$guardian"
    has_another() { guardian_of "$lk_pid" | grep -qvx "$guardian"; }
    wait_until 10 has_another
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 lk acquire --key k --ttl 60 -q
    is_gone "$child"
  done
}

@test "a stopped lk: its command is dead before the lock can be another's, and after CONT lk says 79" { # P13
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 2 -- sh -c 'echo $$ >child; trap : TERM; '"$for_long" 2>err
    wait_until 20 has_child
    child=$(cat child)
    kill -STOP "$lk_pid"
    wait_until 20 lk acquire --key k --ttl 60 --owner new -q >token
    is_gone "$child"
    kill -CONT "$lk_pid"
    ends_with 79 "$lk_pid"
    is_field k .owner new
    grep -q '^lk: lost k: ' err
  done
}

@test "everything stopped past the ttl, as in a pause of the machine: after CONT the command is ended at once, 79" { # P13
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 2 -- bash -c 'echo $$ >child; trap : TERM; for n in {1..2000}; do echo "${EPOCHREALTIME/./}" >>ticks; sleep 0.02; done'
    wait_until 20 has_child
    child=$(cat child)
    guardian=$(guardian_of "$lk_pid")
    kill -STOP "$child" "$guardian" "$lk_pid"
    wait_until 20 lk acquire --key k --ttl 60 --owner new -q >token
    woken=${EPOCHREALTIME/./}
    kill -CONT "$child" "$guardian" "$lk_pid"
    ends_with 79 "$lk_pid"
    is_gone "$child"
    [ $(($(tail -n 1 ticks) - woken)) -lt 1000000 ]
    is_field k .owner new
    rm ticks
  done
}

@test "a sleep of the machine counts: the deadline is on the clock that goes on meanwhile" { # P14
  need_worlds
  for store in $stores; do
    fresh_store "$store"
    in_world WORLD_SLEPT="$PWD/slept" env --default-signal setsid "$LK" exec --key k --ttl 3 -- sh -c "$guarded" 2>err 3>&- &
    lk_pid=$!
    wait_until 20 has_child
    touch slept
    ends_with 79 "$lk_pid"
    is_gone "$(cat child)"
    rm slept child
  done
}

# --- Loss -------------------------------------------------------------------------------------------------------------

@test "a lock that was taken away: TERM to everything the command started, 79" { # P16
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 1 -- bash -c 'trap "echo TERM >>signals; exit 0" TERM; sleep 60 & echo $! >other; echo $$ >child; wait' 2>err
    wait_until 20 has_child
    lk release --key k --force --yes -q
    lk acquire --key k --ttl 60 --owner new >token
    ends_with 79 "$lk_pid"
    [ "$(cat signals)" = TERM ]
    is_gone "$(cat child)"
    is_gone "$(cat other)"
    is_field k .owner new
    [ "$(wc -l <err)" -eq 1 ]
    grep -qE '^lk: lost k: (another holder has it now|it is gone from .*); stopping the command \(TERM, KILL after ' err
    rm signals
  done
}

@test "a command that does not end on the TERM of a loss is killed after --kill-after" {
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 10 --kill-after 300ms -- sh -c 'trap "echo TERM >>signals" TERM; echo $$ >child; '"$for_long" 2>err
    wait_until 20 has_child
    lk release --key k --force --yes -q
    ends_with 79 "$lk_pid"
    is_gone "$(cat child)"
    [ "$(cat signals)" = TERM ]
    grep -q '^lk: lost k: it is gone from .*; stopping the command (TERM, KILL after 300ms)$' err
    rm signals
  done
}

@test "the KILL after the TERM of a loss comes in time, also if lk is killed or stopped in between" {
  for store in $stores; do
    for signal in KILL STOP; do
      fresh_store "$store"
      rm -f term
      start_exec --key k --ttl 60 --kill-after 3s -- bash -c 'trap "echo \${EPOCHREALTIME/./} >>term" TERM; echo $$ >child; '"$for_long" 2>err
      wait_until 20 has_child
      lk release --key k --force --yes -q
      has_term() { [ -s term ]; }
      wait_until 20 has_term
      # Half of what the command has left; with all of it again it would come to 4.5 s.
      sleep 1.5
      kill "-$signal" "$lk_pid"
      child=$(cat child)
      wait_until 20 is_gone "$child"
      took=$((${EPOCHREALTIME/./} - $(head -n 1 term)))
      echo "$signal: $took us"
      [ "$took" -ge 2900000 ]
      [ "$took" -lt 4200000 ]
      case $signal in
        KILL) ends_with 137 "$lk_pid" ;;
        STOP)
          kill -CONT "$lk_pid"
          ends_with 79 "$lk_pid"
          ;;
      esac
    done
  done
}

@test "--on-lost kill: no TERM first" {
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --ttl 1 --on-lost kill -- sh -c 'trap "echo TERM >>signals" TERM; echo $$ >child; '"$for_long" 2>err
    wait_until 20 has_child
    lk release --key k --force --yes -q
    ends_with 79 "$lk_pid"
    is_gone "$(cat child)"
    [ ! -e signals ]
    grep -q '^lk: lost k: .*; killing the command$' err
  done
}

@test "--on-lost warn: nobody is signalled, one line, and still 79" {
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 1 --on-lost warn 2>err
    lk release --key k --force --yes -q
    wait_until 10 grep -q '^lk: lost k: .*; the command runs on unguarded (--on-lost warn)$' err
    lk acquire --key k --ttl 60 --owner new >token
    began=$SECONDS
    while ((SECONDS - began < 2)); do
      runs "$(cat child)"
      sleep 0.1
    done
    let_go
    ends_with 79 "$lk_pid"
    is_field k .owner new
    [ "$(wc -l <err)" -eq 1 ]
  done
}

@test "--min-hold: the lock stays until then, with nobody behind it" {
  for store in $stores; do
    fresh_store "$store"
    began=$(now_ms)
    lk exec --key k --min-hold 3s -- true
    [ $(($(now_ms) - began)) -lt 2500 ]
    run -75 lk exec --key k -- touch ran
    wait_until 10 lk acquire --key k --ttl 60 -q
    [ $(($(now_ms) - began)) -ge 3000 ]
    [ ! -e ran ]
    # A command that ran longer: at once.
    lk exec --key j --min-hold 200ms -- sleep 0.3
    is_field j .state free
  done
}

@test "a lock that --min-hold alone keeps says so" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key durable --ttl 60 -q
    is_field durable .command_ended false
    start_guarded --key k --min-hold 1h
    is_field k .command_ended false
    run -0 lk status k
    [[ $output != *ended* ]]
    let_go
    ends_with 0 "$lk_pid"
    is_field k .command_ended true
    is_field free .command_ended null
    run -0 lk status k
    [[ $output =~ expires\ +20[^$'\n']+\ \(in\ 59m[0-9s]*\)\;\ its\ command\ has\ ended,\ --min-hold\ keeps\ it ]]
    run -0 lk status
    [[ $output = *"(pid $lk_pid, sh, ended)"* ]]
    run -75 --separate-stderr lk exec --key k -- touch ran
    [[ $stderr =~ ^"lk: k is held by ".*" (pid $lk_pid, sh) for ".*", its command has ended, --min-hold ends in 59m" ]]
    # What the command has left behind may know its owner still: waiting would end.
    LK_HELD=$(field k .owner) run -75 --separate-stderr lk exec --key k --wait 100ms -- touch ran
    [[ $stderr = 'lk: gave up after '*', its command has ended, '* ]]
    [ ! -e ran ]
    run -0 --separate-stderr lk release --key k --force --yes
    [ "$stderr" = 'lk: k is free now; its command had ended' ]
    run -0 lk exec --key k -- "$LK" status k --json
    [ "$(jq -r '.[0].command_ended' <<<"$output")" = false ]
  done
}

@test "--min-hold holds also if lk is killed" {
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 2 --min-hold 1h
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    wait_until 10 is_gone "$(cat child)"
    far() { [ "$(field k .left_ms)" -gt 3000000 ]; }
    wait_until 10 far
  done
}

# --- Nesting ----------------------------------------------------------------------------------------------------------

@test "an exec for the lock that an exec above holds is refused at once, whatever --wait and -E say: 75" { # P43
  for store in $stores; do
    fresh_store "$store"
    run -75 --separate-stderr lk exec --key k -- "$LK" exec -E 0 --key k --wait forever -- touch ran
    [ "$stderr" = 'lk: k is held by the lk exec that this lk exec runs under: waiting for it would never end (--nested runs the command under that lock)' ]
    # Two levels up as well, and the line of owners grows.
    run -75 lk exec --key k --owner a -- "$LK" exec --key j --owner b -- "$LK" exec --key k -- touch ran
    [ "$(lk exec --key k --owner a -- "$LK" exec --key j --owner b -- sh -c 'echo "$LK_HELD" | paste -sd+')" = a+b ]
    [ ! -e ran ]
    run -0 lk exec --key k -- "$LK" exec --key other -- echo fine
    [ "$output" = fine ]
    is_field k .state free
  done
}

@test "--nested runs the command under the lock of the exec above, and leaves it to that one" { # P43
  for store in $stores; do
    fresh_store "$store"
    start_exec --key k --owner outer -- sh -c '
      "$LK" exec --key k --nested -- sh -c "echo \$LK_OWNER \$LK_FENCE >inner; exit 9"
      echo $? >>inner; echo $$ >child; '"$until_go"
    wait_until 20 has_child
    [ "$(cat inner)" = "outer $(field k .fence)"$'\n9' ]
    is_field k .owner outer
    let_go
    ends_with 0 "$lk_pid"
    # Where no exec above holds it --nested takes it.
    run -0 lk exec --key k --nested -- sh -c '"$LK" status k >/dev/null'
  done
}

# --- What cannot be -----------------------------------------------------------------------------------------------------

@test "options that cannot be: 64, and nothing is asked" {
  fresh_store sqlite
  refused() {
    local sentence=$1
    shift
    run -64 --separate-stderr lk exec --key k "$@" -- touch ran
    echo "$*: $stderr"
    [ "$stderr" = "lk: $sentence" ] && [ -z "$output" ]
  }
  # C11 C12
  for bad in 0 0s 999ms; do
    refused "--ttl must be at least 1s, like 30, 1.5s, 5m or 1h30m, not '$bad'" --ttl "$bad"
  done
  refused "--ttl must be at most 366 days, like 30, 1.5s, 5m or 1h30m, not '367d'" --ttl 367d
  refused "--ttl must be a duration like 30, 1.5s, 5m or 1h30m, not '-1'" --ttl -1
  refused "--wait must be a duration like 30, 1.5s, 5m or 1h30m, or forever, not 'never'" --wait never
  refused "--on-lost must be term, kill or warn, not 'pray'" --on-lost pray
  for bad in -1 256 x ''; do
    refused "--busy-exit must be a whole number from 0 to 255, not '$bad'" --busy-exit "$bad"
  done
  refused "--kill-after must be at most 4.8s with a ttl of 10s (a renewal can then be tried twice before the command is stopped), not '5s'" \
    --ttl 10 --kill-after 5s
  for name in kill-after min-hold; do
    refused "--$name must be a duration like 30, 1.5s, 5m or 1h30m, not 'soon'" "--$name" soon
  done
  run -64 --separate-stderr lk exec --key k --status-fd 77 -- touch ran
  [ "$stderr" = 'lk: --status-fd 77 is not open for writing: add 77>FILE to the command line' ]
  run -64 --separate-stderr lk exec --key k --status-fd 77 -- touch ran 77</dev/null
  [[ $stderr == 'lk: --status-fd 77 is not open for writing'* ]]
  for key in invoice: /a ''; do
    run -64 lk exec --key "$key" -- touch ran
  done
  run -64 lk exec --key k --owner '' -- touch ran
  run -64 lk exec -- touch ran
  [ ! -e ran ]
  [ ! -e "$LK_STORE" ]
}

# --- As pid 1, and at the limits ----------------------------------------------------------------------------------------

@test "as pid 1 it reaps what it inherits, and the command's status is its own" { # P37
  need_namespaces --pid --fork --kill-child --mount-proc
  for store in $stores; do
    fresh_store "$store"
    # Orphans that end while the command runs; it looks until none is left, running or not.
    run -7 --separate-stderr unshare --pid --fork --kill-child --mount-proc "$LK" exec --key k --ttl 3 -- bash -c '
      for i in 1 2 3 4 5; do (sleep 0.2 &); done
      until [ "$(grep -lE "^Name:.(sleep)$" /proc/[0-9]*/status 2>/dev/null | wc -l)" -eq 0 ]; do
        ((SECONDS < 20)) || exit 8
      done
      ! grep -qE "^State:.Z" /proc/[0-9]*/status 2>/dev/null || exit 9
      exit 7'
    # Orphans that end at the same moment as the command.
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      run -7 unshare --pid --fork --kill-child --mount-proc "$LK" exec --key k -- sh -c '(exit 3 &); (exit 4 &); exit 7'
    done
    run -143 unshare --pid --fork --kill-child --mount-proc "$LK" exec --key k -- sh -c 'kill -TERM $$'
    is_field k .state free
  done
}

@test "as pid 1 it ends on TERM at once, with 143 and a free lock: running, and waiting" { # P38
  need_namespaces --pid --fork --kill-child --mount-proc
  in_container() {
    unshare --pid --fork --kill-child --mount-proc "$LK" "$@" 3>&- &
    container=$!
    first_process() { inside=$(pgrep -P "$container"); }
    wait_until 20 first_process
  }
  for store in $stores; do
    fresh_store "$store"
    rm -f child go
    in_container exec --key k --ttl 600 -- sh -c "$guarded"
    wait_until 20 has_child
    kill -TERM "$inside"
    ends_with 143 "$container"
    lk acquire --key k --ttl 600 --owner me >token
    in_container exec --key k --wait 1h -- touch ran
    wait_until 20 is_field k .waiting 1
    kill -TERM "$inside"
    ends_with 143 "$container"
    in_container block --key k
    wait_until 20 is_field k .waiting 1
    kill -TERM "$inside"
    ends_with 143 "$container"
    is_field k .waiting 0
    [ ! -e ran ]
  done
}

@test "no process to be had: said in one line, a documented status, and no lock is left" { # P39
  need_users
  fresh_store sqlite
  folder=$(dirname "$LK_STORE")
  for limit in 1 2 3 4; do
    # A uid of its own each time: what counts are all processes of the user.
    uid=$((543210 + limit))
    rm -rf "$folder"
    mkdir "$folder"
    chown "$uid" "$folder"
    run --separate-stderr as_user "$uid" "$uid" prlimit --nproc="$limit" "$LK" exec --key k --ttl 600 -- true
    echo "nproc=$limit: $status $stderr"
    if [ "$limit" -lt 3 ]; then
      [ "$status" -eq 71 ]
      [ "${#stderr_lines[@]}" -eq 1 ]
      [[ $stderr == 'lk: '*'Resource temporarily unavailable'* ]]
    else
      [ "$status" -eq 0 ]
    fi
    [ "$(as_user "$uid" "$uid" "$LK" status --json)" = '[]' ]
  done
}

@test "too few descriptors or too little memory: 71 and what was short, and no lock is left" { # P39
  # Only 0, 1 and 2 are open; what bats has open would be counted as well.
  limited='for fd in /proc/$$/fd/*; do ((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-"; done; exec prlimit "$@"'
  limits=()
  for n in {4..16}; do
    limits+=("nofile=$n")
  done
  # From the least that lk comes to life with.
  for ((n = 4000000; n < 30000000; n += 500000)); do
    ! prlimit --as="$n" "$LK" --version >version 2>&1 || limits+=("as=$n")
  done
  for store in $stores; do
    fresh_store "$store"
    lk exec --key k -- true
    for limit in "${limits[@]}"; do
      run --separate-stderr bash -c "$limited" - --"$limit" "$LK" exec --key k --ttl 600 -- /bin/sh -c 'exit 7'
      echo "$limit: $status $stderr"
      case $status in
        7) [ -z "$stderr" ] ;;
        71) [[ $stderr =~ ^'lk: '.*('Too many open files'|'Cannot allocate memory'|'out of memory') ]] && [ "${#stderr_lines[@]}" -eq 1 ] ;;
        126) [[ $stderr == 'lk: '* ]] && [ "${#stderr_lines[@]}" -eq 1 ] ;;
        127) [[ $stderr == *'error while loading shared libraries'* ]] ;; # the command did not come to life
        *) return 1 ;;
      esac
      is_field k .state free
    done
  done
}
