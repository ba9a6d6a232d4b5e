# Commands that run under lk exec in the background, and what can be seen of them.
# shellcheck shell=bash

# For commands of the tests. Each ends after a minute or so: one that nobody stops must not hold up the suite.
until_go='n=0; until [ -e go ] || [ $((n += 1)) -gt 1000 ]; do sleep 0.05; done'
for_long='n=0; until [ $((n += 1)) -gt 1000 ]; do sleep 0.05; done'
# What most tests run: it goes on until `let_go`; its pid is in the file child.
guarded="echo \$\$ >child; $until_go"

# start_exec WORDS...: lk exec in the background, without a terminal, every signal at its default. Its pid is in $lk_pid.
start_exec() {
  rm -f child go
  env --default-signal setsid "$LK" exec "$@" 3>&- 7>&- &
  lk_pid=$!
}

# start_guarded OPTION...: the same with the command above, once it runs.
start_guarded() {
  start_exec "$@" -- sh -c "$guarded"
  wait_until 20 has_child
}

has_child() { [ -s child ]; }
let_go() { : >go; }

# A zombie does not run: what lk left behind is reaped by somebody else.
runs() {
  local state
  state=$(ps -o state= -p "$1") && [[ $state != [ZX]* ]]
}
is_gone() { ! runs "$1"; }

guardian_of() { pgrep -P "$1" -x lock-guardian; }

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# A number that add_one has written.
count_in() { if [ -e "$1" ]; then od -A n -t d8 "$1" | tr -d ' '; else echo 0; fi; }

# look SQL: an answer of the store's file, which is left as it is.
look() {
  sqlite3 -readonly "$LK_STORE" "$1"
}

# Nothing in the store's file is damaged.
is_sound() {
  [[ $LK_STORE != /* ]] || [ "$(look 'PRAGMA integrity_check')" = ok ]
}

# compile NAME OPTION...: a program or library of tests/support, for all tests of the file.
compile() {
  local name=$1
  shift
  [ -e "$BATS_FILE_TMPDIR/$name" ] ||
    cc -O -Wall -Wextra -o "$BATS_FILE_TMPDIR/$name" "$@" "$BATS_TEST_DIRNAME/../support/$name.c"
}
