#!/usr/bin/env bats
# The exit statuses of lk exec: the command's own, lk's, and the line of --status-fd.

load common
load guarded
load worlds

# As Python's subprocess sees it: the exit status, or -N for a death by signal N. A shell cannot tell 143 from a death by TERM.
ends_as='import subprocess, sys; print(subprocess.run(sys.argv[1:], restore_signals=True).returncode)'

@test "each of the 256 statuses of a command passes unchanged, and the lock is released" { # P26
  for store in $stores; do
    fresh_store "$store"
    for expected in {0..255}; do
      status=0
      lk exec --key k --ttl 600 -- sh -c "exit $expected" 2>err || status=$?
      echo "exit $expected: $status $(cat err)"
      [ "$status" -eq "$expected" ]
      [ ! -s err ]
    done
    is_field k .state free
  done
}

@test "a command that dies of a signal: lk dies of the same, 128+N for a shell, and the lock is released" { # P27
  for store in $stores; do
    fresh_store "$store"
    for signal in TERM INT QUIT KILL SEGV ABRT PIPE HUP USR1 USR2 ALRM BUS FPE ILL SYS TRAP XCPU XFSZ RTMIN+3; do
      number=$(kill -l "$signal")
      words=(exec --key k --ttl 600 -- sh -c 'ulimit -c 0; kill -"$0" $$' "$number")
      died=$(python3 -c "$ends_as" "$LK" "${words[@]}")
      echo "$signal: $died"
      [ "$died" -eq "-$number" ]
      is_field k .state free
      run -$((128 + number)) lk "${words[@]}"
      [ -z "$output" ]
    done
  done
}

@test "lk leaves no core file when it dies of its command's signal" {
  [[ $(cat /proc/sys/kernel/core_pattern) =~ ^[a-z]+$ ]] || skip "core files do not go into the working folder here"
  [ "$(ulimit -H -c)" = unlimited ] || skip "core files are not allowed here"
  ulimit -S -c unlimited
  mkdir cores
  cd cores
  for store in $stores; do
    fresh_store "$store"
    # The command itself leaves none, so that any there is lk's.
    for signal in SEGV ABRT QUIT; do
      number=$(kill -l "$signal")
      run -$((128 + number)) lk exec --key k -- sh -c 'ulimit -c 0; kill -"$0" $$' "$number"
    done
    [ -z "$(ls)" ]
    # That one would be seen.
    run sh -c 'kill -SEGV $$'
    [ -n "$(ls)" ]
    rm -f -- *
  done
}

@test "Ctrl-C ends the loop of the calling shell with the command" {
  for store in $stores; do
    fresh_store "$store"
    mkfifo keys
    exec 5<>keys
    on_terminal bash -c 'for i in 1 2 3; do echo "$i" >>rounds; "$LK" exec --key k -- sh -c "echo >child; sleep 60"; done' \
      <keys >out 3>&- 5>&- &
    shell=$!
    wait_until 20 has_child
    printf '\003' >&5
    ends_with 130 "$shell"
    exec 5>&-
    [ "$(cat rounds)" = 1 ]
    is_field k .state free
    rm rounds keys child
  done
}

@test "a command that is not there: 127; one that cannot be run: 126; one line, and the lock is free at once" { # P28
  for store in $stores; do
    fresh_store "$store"
    : >plain
    printf '#!/no/such/interpreter\n' >orphan
    chmod +x orphan
    cannot_run() {
      local expected=$1 sentence=$2
      shift 2
      run "-$expected" --separate-stderr lk exec --key k --ttl 600 -- "$@"
      echo "$1: $stderr"
      [ -z "$output" ] && [[ $stderr == "lk: cannot run $sentence"* ]] &&
        [ "${#stderr_lines[@]}" -eq 1 ] && is_field k .state free
    }
    cannot_run 127 '/no/such: No such file or directory' /no/such
    cannot_run 127 'no-such-command: ' no-such-command
    cannot_run 127 './orphan: ' ./orphan
    cannot_run 126 './plain: Permission denied' ./plain
    cannot_run 126 '/tmp: ' /tmp
    cannot_run 126 'plain/x: Not a directory' plain/x
    ln -s loop loop
    cannot_run 126 './loop: ' ./loop
    # Its name is shown without raw bytes.
    cannot_run 127 './two\nlines\e[31m: ' $'./two\nlines\e[31m'
    rm -f plain orphan loop
  done
}

@test "a file of PATH that may not be run is passed over, and 126 if there is no other" {
  for store in $stores; do
    fresh_store "$store"
    mkdir -p closed open
    echo 'echo closed' >closed/tool
    PATH=$PWD/closed:$PATH run -126 lk exec --key k -- tool
    printf '#!/bin/sh\necho open\n' >open/tool
    chmod +x open/tool
    PATH=$PWD/closed:$PWD/open:$PATH run -0 lk exec --key k -- tool
    [ "$output" = open ]
    rm -r closed open
  done
}

@test "a list of arguments that only lk's own variables make too long: 126, and the lock is free at once" { # P31
  for store in $stores; do
    fresh_store "$store"
    lk exec --key k -- true
    # The longest that lk can be started with is a few bytes too long for its command.
    run python3 - "$LK" <<'PY'
import subprocess, sys
lk = sys.argv[1]

def ends(last):
    words = ["x" * 100_000] * rounds + ["y" * last]
    try:
        return subprocess.run([lk, "exec", "--key", "k", "--ttl", "600", "--", "/bin/true", *words], capture_output=True, text=True)
    except OSError as error:
        assert error.errno == 7, error
        return None

rounds = 1
while ends(1) is not None:
    rounds += 1
rounds -= 1
low, high = 1, 100_000
while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if ends(middle) is not None else (low, middle)
end = ends(low)
print(end.stderr, end="")
sys.exit(end.returncode)
PY
    [ "$status" -eq 126 ]
    [ "$output" = 'lk: cannot run /bin/true: Argument list too long; k is released' ]
    is_field k .state free
  done
}

@test "busy, wait over, store down, refused, configuration and usage are told apart, and none looks like a command's end" { # P29
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 >token
    run -75 lk exec --key k -- true
    run -75 lk exec --key k --wait 100ms -- true
    run -1 lk exec --key j -- false
    run -64 lk exec --key k --ttl 0 -- true
    run -78 lk exec --store nosuch://host --key k -- true
  done
}

@test "-E replaces 75, and only that" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 60 --owner other >token
    for busy in 0 1 99 200 255; do
      run --separate-stderr lk exec -E "$busy" --key k -- touch ran
      [ "$status" -eq "$busy" ]
      [[ $stderr == 'lk: k is held by '* ]]
    done
    run -0 lk exec --busy-exit=0 --key k --wait 100ms -- touch ran
    run -0 lk exec -E0 --key k -- touch ran
    run -5 lk exec -E 0 --key j -- sh -c 'exit 5'
    run -127 lk exec -E 0 --key j -- /no/such
    run -64 lk exec -E 0 --key j --ttl 0 -- touch ran
    run -78 lk exec -E 0 --key j --store nosuch://host -- touch ran
    start_guarded -E 0 --key j --ttl 1
    lk release --key j --force --yes -q
    ends_with 79 "$lk_pid"
    [ ! -e ran ]
  done
}

@test "a lost lock is 79 whatever the command ends with" {
  for store in $stores; do
    fresh_store "$store"
    for expected in 0 3; do
      start_exec --key k --ttl 1 -- bash -c 'trap "exit $0" TERM; echo $$ >child; '"$for_long" "$expected"
      wait_until 20 has_child
      lk release --key k --force --yes -q
      ends_with 79 "$lk_pid"
    done
  done
}

@test "a release that fails does not change the status: one line, and it is done as soon as the store is there again" {
  fresh_store sqlite
  start_guarded --key k --ttl 60 2>err
  hold_file
  let_go
  ends_with 0 "$lk_pid"
  [ "$(wc -l <err)" -eq 1 ]
  grep -q '^lk: cannot release k: .*; a background process tries on until its ttl ends$' err
  is_field k .state held
  leave_file
  wait_until 10 is_field k .state free
  wait_until 10 nothing_is_left
}
nothing_is_left() { ! pgrep -f "lock-guardian $lk_pid\$"; }

@test "a release that fails keeps --min-hold" {
  fresh_store sqlite
  start_guarded --key k --ttl 6 --min-hold 1h --status-fd 9 9>line
  hold_file
  let_go
  ends_with 0 "$lk_pid"
  [ "$(jq .released line)" = false ]
  leave_file
  wait_until 10 is_long
  wait_until 10 nothing_is_left
  is_field k .state held
}
is_long() { [ "$(field k .left_ms)" -gt 3000000 ]; }

@test "a release that comes only after the end of the ttl is no loss" {
  fresh_store sqlite
  # The command leaves somebody behind who keeps the file locked past the lock's end.
  run --separate-stderr -0 lk exec --key k --ttl 1s --status-fd 9 -- sh -c 'exec 9>&-
    python3 -c "
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute(\"BEGIN IMMEDIATE\")
open(\"locked\", \"w\").close()
time.sleep(1.5)" "$0" >locker 2>&1 &
    until [ -e locked ]; do sleep 0.01; done' "$LK_STORE" 9>line
  [ "$stderr" = 'lk: k had expired before it could be released; the command was done by then' ]
  [ "$(jq -c '[.lost, .released]' line)" = '[false,false]' ]
}

# --- --status-fd --------------------------------------------------------------------------------------------------------

# The line on the descriptor, with what differs from run to run checked and left out.
shown_line() {
  [ "$(wc -l <line)" -eq 1 ] || return
  [ "$(jq -r 'keys_unsorted | join(" ")' line)" = 'v ran acquired lost released child_exit child_signal reason fence waited_ms held_ms' ] || return
  jq -e '(.fence == null or .fence > 1e15) and .waited_ms >= 0 and .held_ms >= 0 and (.acquired == (.fence != null))' line >checks || return
  jq -r '[.v, .ran, .acquired, .lost, .released, .child_exit, .child_signal, .reason] | map(tostring) | join(" ")' line
}

@test "--status-fd: one JSON line after the release says how it went" {
  for store in $stores; do
    fresh_store "$store"
    lk exec --key k --status-fd 9 -- true 9>line
    [ "$(shown_line)" = '1 true true false true 0 null ok' ]
    run -7 lk exec --key k --status-fd 9 -- sh -c 'exit 7' 9>line
    [ "$(shown_line)" = '1 true true false true 7 null ok' ]
    run -143 lk exec --key k --status-fd 9 -- sh -c 'kill -TERM $$' 9>line
    [ "$(shown_line)" = '1 true true false true null 15 signal' ]
    run -127 lk exec --key k --status-fd 9 -- /no/such 9>line
    [ "$(shown_line)" = '1 false true false true null null cannot_run' ]

    lk acquire --key k --ttl 60 --owner other >token
    run -75 lk exec --key k --status-fd 9 -- true 9>line
    [ "$(shown_line)" = '1 false false false false null null busy' ]
    run -3 lk exec --key k --status-fd 9 -E 3 --wait 300ms -- true 9>line
    [ "$(shown_line)" = '1 false false false false null null busy' ]
    [ "$(jq .waited_ms line)" -ge 300 ]
    run -78 lk exec --key k --status-fd 9 --store "$BATS_TEST_TMPDIR" -- true 9>line
    [ "$(shown_line)" = '1 false false false false null null store' ]

    start_exec --key k --status-fd 9 --wait 1h -- true 9>line
    wait_until 10 is_field k .waiting 1
    kill -TERM "$lk_pid"
    ends_with 143 "$lk_pid"
    [ "$(shown_line)" = '1 false false false false null null signal' ]
    [ "$(jq .waited_ms line)" -gt 0 ]
    lk release --key k --owner other

    run -75 lk exec --key k -- "$LK" exec --key k --status-fd 9 -- true 9>line
    [ "$(shown_line)" = '1 false false false false null null deadlock' ]
  done
}

@test "--status-fd: a lost lock, with how the command ended" {
  for store in $stores; do
    fresh_store "$store"
    start_guarded --key k --ttl 1 --status-fd 9 9>line
    lk release --key k --force --yes -q
    ends_with 79 "$lk_pid"
    [ "$(shown_line)" = '1 true true true false null 15 lost' ]
    start_guarded --key k --ttl 1 --on-lost warn --status-fd 9 9>line 2>err
    lk release --key k --force --yes -q
    wait_until 10 grep -q 'lost k' err
    let_go
    ends_with 79 "$lk_pid"
    [ "$(shown_line)" = '1 true true true false 0 null lost' ]
  done
}

@test "--status-fd: the fence and the times are those of the grant" {
  for store in $stores; do
    fresh_store "$store"
    lk exec --key k --status-fd 9 -- sh -c 'echo "$LK_FENCE" >fence; sleep 0.3' 9>line
    [ "$(jq .fence line)" = "$(cat fence)" ]
    [ "$(jq .held_ms line)" -ge 300 ]
    [ "$(jq .waited_ms line)" -lt 300 ]
  done
}

@test "--status-fd: the command does not get the descriptor, and end of file without a line tells of a killed lk" {
  for store in $stores; do
    fresh_store "$store"
    run -0 lk exec --key k --status-fd 9 -- sh -c '[ ! -e /proc/self/fd/9 ]' 9>line
    [ "$(shown_line)" = '1 true true false true 0 null ok' ]
    mkfifo pipe
    exec 5<>pipe
    start_guarded --key k --ttl 600 --status-fd 9 9>pipe 5>&-
    exec 6<pipe 5>&-
    kill -KILL "$lk_pid"
    ends_with 137 "$lk_pid"
    # Neither the command nor the guardian keeps it open: this ends.
    [ -z "$(cat <&6)" ]
    exec 6<&-
    rm pipe
  done
}

@test "--status-fd: a reader that does not read, or is gone, neither holds lk up nor changes its status" {
  for store in $stores; do
    fresh_store "$store"
    mkfifo pipe
    exec 5<>pipe
    dd if=/dev/zero of=pipe bs=4096 count=1000 oflag=nonblock 2>dd.err || true
    run -7 lk exec --key k --status-fd 5 -- sh -c 'exit 7'
    exec 5>&-
    exec 5<>pipe 6>pipe 5<&-
    run -7 --separate-stderr lk exec --key k --status-fd 6 -- sh -c 'exit 7'
    exec 6>&-
    [ -z "$stderr" ]
    rm pipe
    run -7 lk exec --key k --status-fd 9 -- sh -c 'exit 7' 9>/dev/full
  done
}
