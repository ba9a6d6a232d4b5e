#!/usr/bin/env bats
# Settings files, named stores and named locks, and lk config.

load common
load guarded
load worlds

# The user's own file.
settings() {
  mkdir -p "$HOME/.config/lk"
  cat >"$HOME/.config/lk/config.toml"
  chmod 600 "$HOME/.config/lk/config.toml"
}

# Where an error in it is placed: `at LINE:COLUMN`.
at() { printf '%s/.config/lk/config.toml:%s' "$HOME" "$1"; }

needs_no_machine_file() {
  [ ! -e /etc/lk/config.toml ] || skip "this machine has an /etc/lk/config.toml of its own"
}

shipments() {
  settings <<TOML
[defaults]
store = "here"
ttl = "90s"

[stores.here]
url = "$BATS_TEST_TMPDIR/here.db"

[stores.there]
url = "$BATS_TEST_TMPDIR/there.db"

[locks.shipment_dispatch]
key = "shipment_dispatch:{shipment}"
ttl = "60s"
wait = "200ms"
note = "dispatching"
busy_exit = 3

[locks.pair]
key = "{a}:{{x}}:{b}"
store = "there"
TOML
}

@test "a named lock is one definition of key, ttl, wait, store and note" {
  shipments
  lk acquire --lock shipment_dispatch --with shipment=7 >token
  [ "$(cat token)" = "$(field shipment_dispatch:7 .owner)" ]
  is_field shipment_dispatch:7 .note dispatching
  [ "$(field shipment_dispatch:7 .left_ms)" -le 60000 ]
  [ "$(field shipment_dispatch:7 .left_ms)" -gt 50000 ]

  run --separate-stderr -3 lk exec --lock shipment_dispatch --with shipment=7 --status-fd 9 -- touch ran 9>line
  [ "$(jq .waited_ms line)" -ge 200 ]
  [ ! -e ran ]
  run -0 lk exec --lock shipment_dispatch --with shipment=8 -- touch ran
  [ -e ran ]

  lk renew --lock shipment_dispatch --with shipment=7 --owner "$(cat token)" --ttl 5m
  [ "$(field shipment_dispatch:7 .left_ms)" -gt 250000 ]
  lk status --lock shipment_dispatch --with shipment=7 | grep -q 'shipment_dispatch:7'
  lk status --lock shipment_dispatch | grep -q 'shipment_dispatch:7'
  lk release --lock shipment_dispatch --with shipment=7 --owner "$(cat token)"
  run -1 lk status --lock shipment_dispatch -q
  lk block --lock shipment_dispatch --with shipment=7 -q
}

@test "an option on the command line wins over the named lock, that over the environment, that over the defaults" {
  shipments
  LK_TTL=30s lk acquire --lock shipment_dispatch --with shipment=1 -q >token
  [ "$(field shipment_dispatch:1 .left_ms)" -gt 30000 ]
  LK_TTL=30s lk acquire --lock shipment_dispatch --with shipment=2 --ttl 10s -q >token
  [ "$(field shipment_dispatch:2 .left_ms)" -le 10000 ]
  LK_TTL=30s lk acquire --key k -q >token
  [ "$(field k .left_ms)" -le 30000 ]
  lk acquire --key j >token
  [ "$(field j .left_ms)" -gt 80000 ]

  # A store that an exec further up has put into the environment does not lead a named lock astray.
  lk exec --key outer --store here -- "$LK" acquire --lock pair --with a=1 --with b=2 -q >token
  [ "$(lk status --store there --json '1:{x}:2' | jq -r '.[0].state')" = held ]
  [ "$(lk status --json '1:{x}:2' | jq -r '.[0].state')" = free ]
}

@test "--with that is missing, empty, unknown or given twice is named" {
  shipments
  words=(acquire --lock pair)
  run -64 lk "${words[@]}" --with a=1
  [ "$output" = 'lk: --with b=… is missing: the key of lock pair is {a}:{{x}}:{b}' ]
  run -64 lk "${words[@]}" --with a=1 --with b=
  [ "$output" = 'lk: --with b= is empty: is a variable unset?' ]
  run -64 lk "${words[@]}" --with a=1 --with bb=2
  [ "$output" = 'lk: --with bb: the key of lock pair has no such parameter: did you mean a?' ] ||
    [ "$output" = 'lk: --with bb: the key of lock pair has no such parameter: did you mean b?' ]
  run -64 lk "${words[@]}" --with a=1 --with b=2 --with a=1
  [ "$output" = 'lk: --with a is given twice' ]
  run -64 lk "${words[@]}" --with a
  [ "$output" = "lk: --with must be NAME=VALUE, for example a=7, not 'a'" ]
  run -64 lk "${words[@]}" --key k
  [[ $output = 'lk: --key and --lock exclude each other'* ]]
  run -64 lk "${words[@]}" --with a=1 --with b=$'\n'
  [[ $output = 'lk: --lock pair: its key '*'control'* ]]
  [ ! -e there.db ]
}

@test "a lock or store that is in no settings file: those that are" {
  shipments
  run -78 lk acquire --lock shipment_dispach
  [ "$output" = "lk: --lock: no lock is called 'shipment_dispach': did you mean shipment_dispatch? (there is pair, shipment_dispatch)" ]
  run -78 lk status --store elsewhere
  [ "$output" = "lk: --store: no store is called 'elsewhere' (there is here, there)" ]
  LK_STORE=her run -78 lk status
  [[ $output = "lk: LK_STORE: no store is called 'her': did you mean here?"* ]]
  settings <<<''
  run -78 lk status --store locks
  [[ $output = "lk: --store: no store is called 'locks': no settings file names one ("*config.toml*'); a path has a slash, like ./locks.db' ]]
}

@test "what is wrong in a settings file is told with file, line and column, and nothing is done" {
  bad() {
    settings
    run -78 lk acquire --key k --store "$BATS_TEST_TMPDIR/untouched.db"
    echo "$output"
    [[ $output = "lk: $(at "$1")"* ]]
    [[ $output = *"$2"* ]]
    [ ! -e untouched.db ]
  }
  bad 2:5 "expected '='" <<<$'[defaults]\nttl 30'
  bad 2:1 "[defaults] has no 'tll': did you mean ttl?" <<<$'[defaults]\ntll = 30'
  bad 2: 'ttl must be text in quotes or a number' <<<$'[defaults]\nttl = true'
  bad 1: "a settings file has no 'lock': did you mean locks?" <<<$'[lock.a]\nkey = "k"'
  bad 1: 'stores must be a table: [stores]' <<<'stores = 3'
  bad 1: 'locks.a must be a table: [locks.a]' <<<'locks.a = 3'
  bad 1: 'must have a name of letters' <<<'[locks."a b"]'
  bad 2:9 "color must be auto, always or never, not 'blue'" <<<$'[defaults]\ncolor = "blue"'
  bad 2:7 'ttl must be at least 100ms' <<<$'[defaults]\nttl = "1ms"'
}

@test "a value of a named lock that is no good is a fault of the file, not of the command line" {
  for entry in 'ttl = "soon"' 'wait = "soon"' 'kill_after = "1h"' 'on_lost = "cry"' 'min_hold = -1' 'max_waiting = 0' 'busy_exit = 256'; do
    settings <<<$'[locks.a]\nkey = "k"\n'"$entry"
    run -78 lk exec --lock a --store ./untouched.db -- touch ran
    echo "$entry: $output"
    value=${entry#* = }
    [[ $output = "lk: $(at 3:)"*", not '${value//\"/}'" ]]
    [ ! -e ran ]
    # lk config finds it as well, but for what depends on the ttl of a command.
    [[ $entry = kill_after* ]] || run -78 lk config
  done
  settings <<<$'[locks.a]\nkey = "k:{"'
  run -78 lk acquire --lock a
  [[ $output = "lk: $(at 2:7)"* ]]
}

@test "a section without what it must have is told with its place" {
  for words in 'acquire --lock a' 'status --lock a' config; do
    settings <<<$'[defaults]\nttl = 9\n  [locks.a]\n  ttl = 3'
    # shellcheck disable=SC2086
    run -78 --separate-stderr lk $words
    [ "$stderr" = "lk: $(at 3:3): [locks.a] has no key, for example key = \"a:{id}\"" ]
  done
  for words in 'acquire --key k --store x' 'acquire --lock a' config; do
    settings <<<$'[locks.a]\nkey = "k"\nstore = "x"\n[stores.x]\nprefix = "p:"'
    # shellcheck disable=SC2086
    run -78 --separate-stderr lk $words
    [ "$stderr" = "lk: $(at 4:1): [stores.x] has no url, for example url = \"redis://host:6379/0\"" ]
  done
  settings <<<$'stores.x = {}'
  LK_STORE=x run -78 --separate-stderr lk status
  [[ $stderr = "lk: $(at 1:)"*': [stores.x] has no url, for example '* ]]
}

@test "the text of a TOML error is escaped once" {
  says() {
    settings
    run -78 --separate-stderr lk status
    echo "$stderr"
    [[ $stderr = "lk: $(at "$1")"*"$2" ]]
  }
  says 1:5 "expected '=', saw '\\u001B'" <<<$'ttl \e30'
  says 1:8 "expected 'true', saw 't\\u{009b}'" <<<$'ttl = t\xc2\x9b'
  says 1: "unknown escape sequence '\\q'" <<<$'ttl = "\\q"'
}

@test "--config and LK_CONFIG name the one file that is read" {
  shipments
  printf '[defaults]\nttl = "20s"\n' >other.toml
  export LK_STORE=$BATS_TEST_TMPDIR/locks.db
  lk acquire --key a --config other.toml -q >token
  [ "$(field a .left_ms)" -le 20000 ]
  LK_CONFIG=other.toml lk acquire --key b -q >token
  [ "$(field b .left_ms)" -le 20000 ]
  run -78 lk acquire --key c --config missing.toml
  [ "$output" = 'lk: --config: there is no file missing.toml' ]
  LK_CONFIG=missing.toml run -78 lk acquire --key c
  [ "$output" = 'lk: LK_CONFIG: there is no file missing.toml' ]
  lk acquire --key c --config /dev/null -q >token
  [ "$(field c .left_ms)" -gt 800000 ]
}

@test "the command of an exec finds the same lock by the same names" {
  shipments
  run -0 --separate-stderr lk exec --lock shipment_dispatch --with shipment=7 -- sh -c 'cd /; echo "$LK_STORE ${LK_CONFIG-none}"; "$0" status --json' "$LK"
  [ "${lines[0]}" = 'here none' ]
  [[ $output = *'"key": "shipment_dispatch:7"'* || $output = *'"key":"shipment_dispatch:7"'* ]]
  mv "$HOME/.config/lk/config.toml" own.toml
  run -0 --separate-stderr lk exec --config own.toml --lock shipment_dispatch --with shipment=7 -- sh -c 'cd /; echo "$LK_STORE ${LK_CONFIG-none}"; "$0" status --json' "$LK"
  [ "${lines[0]}" = "here $BATS_TEST_TMPDIR/own.toml" ]
  [[ $output = *'shipment_dispatch:7'* ]]
}

@test "lk config: each setting with where it comes from, passwords hidden" {
  needs_no_machine_file
  settings <<'TOML'
[defaults]
ttl = 30
[stores.prod]
url = "redis://me:geheim@host:1/2"
password = "geheim"
[locks.a]
key = "a:{id}"
store = "prod"
TOML
  LK_PREFIX=p: run -0 --separate-stderr lk config --store prod
  [ -z "$stderr" ]
  [[ $output != *geheim* ]]
  squeezed=$(tr -s ' ' <<<"$output")
  echo "$squeezed"
  file=$HOME/.config/lk/config.toml
  for line in "store prod --store" "ttl 30 $file:2:7" "prefix p: LK_PREFIX" "password *** $file:5:12" \
    "stores.prod.url redis://me:***@host:1/2 $file:4:7" "stores.prod.password *** $file:5:12" \
    "locks.a.key a:{id} $file:7:7" "locks.a.store prod $file:8:9" "file /etc/lk/config.toml not there" "file $file read"; do
    grep -qxF -- "$line" <<<"$squeezed" || { echo "missing: $line"; false; }
  done
}

@test "lk config notices an address or default that cannot be, whatever wins over it, and shows no password" {
  for bad in 'redis://me:geheim@h:x/0' 'redis://h?geheim=1&op_timeout=soon' 'redis://:geheim@h/0#' redis:h; do
    for section in defaults:store stores.other:url locks.other:store; do
      settings <<TOML
[stores.here]
url = "$PWD/here.db"
[locks.good]
key = "other"
[$(cut -d: -f1 <<<"$section")]
${section#*:} = "$bad"
$([ "${section%:*}" != locks.other ] || echo 'key = "other"')
TOML
      run -78 --separate-stderr lk config --store here
      echo "$section: $bad: $stderr"
      [ -z "$output" ]
      [[ $stderr = "lk: $(at 6:)"*must* || $stderr = "lk: $(at 6:)"*' has '* ]]
      [[ $stderr != *:geheim* ]]
    done
  done
  for entry in 'ttl = "soon"' 'color = "blue"'; do
    settings <<<$'[defaults]\n'"$entry"
    LK_TTL=9 NO_COLOR=1 run -78 --separate-stderr lk config
    [[ $stderr = "lk: $(at 2:)"* ]]
  done
  settings <<<$'[stores.far]\nurl = "rediss://127.0.0.1:1/0"\n[stores.new]\nurl = "./new/locks.db"'
  run -0 --separate-stderr lk config --store far
  [ -z "$stderr" ]
  [ ! -e new ]
}

@test "lk config notices a password file that cannot be read, whichever store has it" {
  settings <<<$'[stores.a]\nurl = "redis://a"\npassword_file = "gone"\n[stores.b]\nurl = "redis://b"\npassword_file = "empty"
[stores.c]\nurl = "redis://c"\npassword_file = "pipe"\n[stores.d]\nurl = "redis://d"\npassword_file = "good"'
  : >"$HOME/.config/lk/empty"
  mkfifo "$HOME/.config/lk/pipe"
  (umask 077 && echo geheim >"$HOME/.config/lk/good")
  nothing="no password can be read from $HOME/.config/lk"
  for store in d ./locks.db; do
    run -0 --separate-stderr lk config --store "$store"
    [[ $output = *stores.d.password_file* && $output$stderr != *geheim* ]]
    [ "$stderr" = "lk: $(at 3:17): password_file: $nothing/gone (No such file or directory)
lk: $(at 6:17): password_file: $nothing/empty (its first line is empty)" ]
  done
  run -0 --separate-stderr lk config --store d -q
  [ -z "$stderr" ]
  run -78 --separate-stderr lk config --store a
  [ "$stderr" = "lk: $(at 3:17): password_file: $nothing/gone (No such file or directory)" ]
}

@test "a password that everybody can read gets a warning, and only that" {
  settings <<<$'[stores.prod]\nurl = "redis://h"\npassword = "geheim"'
  export LK_STORE=$BATS_TEST_TMPDIR/locks.db
  run -0 --separate-stderr lk acquire --key k --ttl 9
  [ -z "$stderr" ]
  chmod 644 "$HOME/.config/lk/config.toml"
  run -0 --separate-stderr lk acquire --key j --ttl 9
  [ "$stderr" = "lk: $HOME/.config/lk/config.toml holds a password that every user can read: chmod 600 it" ]
  settings <<<$'[stores.prod]\nurl = "redis://only-a-user@h:1/0"'
  chmod 644 "$HOME/.config/lk/config.toml"
  run -0 --separate-stderr lk acquire --key i --ttl 9
  [ -z "$stderr" ]
}

@test "passwords appear nowhere, wherever in a settings file they stand" {
  settings <<'TOML'
[defaults]
store = "redis://:geheim@127.0.0.1:1/0"
[locks.a]
key = "k"
store = "redis+unix://:geheim@/nowhere"
TOML
  chmod 644 "$HOME/.config/lk/config.toml"
  for words in config 'config -v' 'status -v' 'acquire --lock a' 'exec --lock a -v -- true' 'completion --list locks'; do
    # shellcheck disable=SC2086
    lk $words >out 2>&1 || true
    cat out
    [ "$(grep -c geheim out)" -eq 0 ]
    [[ $words = completion* ]] || grep -q 'config.toml holds a password that every user can read' out
  done
  for bad in 'password = geheim' 'password = 98765432109876543210987' 'password = 1e400' 'url = redis://:geheim@h'; do
    settings <<<$'[stores.x]\n'"$bad"
    run -78 lk config
    echo "$output"
    [[ $output = "lk: $(at 2:)"* ]]
    [[ $output != *geheim* && $output != *98765* ]]
  done
}

@test "what looks like an address or a home folder is no file of this folder" {
  # shellcheck disable=SC2088 # just so
  for bad in redis//host:6379/0 redis.example.com/0 rediss//:pw@h/0 '~/locks.db' 'Redis:/h'; do
    run -78 lk acquire --key k --store "$bad"
    echo "$output"
    [[ $output = 'lk: --store must '* && $output != *pw@* ]]
  done
  [ "$(echo *)" = home ]
  lk acquire --key k --store ./redis/locks.db -q
}

@test "--with goes with --lock" {
  run -64 lk exec --key k --with a=b --store ./locks.db -- touch ran
  [ "$output" = 'lk: --with goes with --lock: --key has no parameters' ]
  [ ! -e ran ]
}

@test "NO_COLOR wins over the settings file, --color over both" {
  settings <<<$'[defaults]\ncolor = "always"'
  export LK_STORE=$BATS_TEST_TMPDIR/locks.db
  lk acquire --key k -q >token
  lk status | grep -q $'\e'
  [ "$(NO_COLOR=1 lk status | grep -c $'\e')" -eq 0 ]
  NO_COLOR=1 lk status --color always | grep -q $'\e'
  lk config | grep -Eq '^color +always +.*config.toml:2'
  NO_COLOR=1 lk config | grep -Eq '^color +never +NO_COLOR$'
  NO_COLOR=1 lk config --color auto | grep -Eq '^color +auto +--color$'
  LK_CONFIG=/dev/null lk config | grep -Eq '^color +auto +default$'
}

@test "a password file is read beside its settings file; one that is missing or empty is named" {
  settings <<<$'[stores.here]\nurl = "./locks.db"\npassword_file = "secret"'
  run -78 lk status --store here
  [[ $output = "lk: $(at 3:17): password_file: no password can be read from $HOME/.config/lk/secret (No such file or directory)" ]]
  : >"$HOME/.config/lk/secret"
  run -78 lk status --store here
  [[ $output = "lk: $(at 3:17): password_file: no password can be read from $HOME/.config/lk/secret (its first line is empty)" ]]
  echo geheim >"$HOME/.config/lk/secret"
  chmod 600 "$HOME/.config/lk/secret"
  run -1 --separate-stderr lk status --store here
  [[ $stderr = 'lk: no locks in'* ]]
  chmod 644 "$HOME/.config/lk/secret"
  run -1 --separate-stderr lk status --store here
  [ "${stderr_lines[0]}" = "lk: $HOME/.config/lk/secret holds a password that every user can read: chmod 600 it" ]
}

@test "the settings file of another user is not read" {
  need_root
  shipments
  chown 54321 "$HOME/.config/lk/config.toml"
  run --separate-stderr -0 lk acquire --key k --store ./locks.db --ttl 9
  [ "$stderr" = "lk: $HOME/.config/lk/config.toml belongs to another user and is not read; --config reads it" ]
  run -78 lk acquire --lock pair
  lk acquire --lock pair --with a=1 --with b=2 --config "$HOME/.config/lk/config.toml" -q
}

# --- status ---------------------------------------------------------------------------------------------------------

@test "status --held-longer-than: only those, and a status for monitoring" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key old --ttl 60 -q
    sleep 1.1
    lk acquire --key new --ttl 60 -q
    run -0 --separate-stderr lk status --held-longer-than 1s
    [[ $output = *old* && $output != *new* ]]
    run -1 --separate-stderr lk status --held-longer-than 1h
    [ -z "$output$stderr" ]
    run -1 --separate-stderr lk status --held-longer-than 1h -v
    [[ $stderr = *'no lock is held for longer than 1h in '* ]]
    [ "$(lk status --held-longer-than 1s --json | jq -r '.[].key')" = old ]
    run -1 lk status new --held-longer-than 1h
    run -0 lk status old --held-longer-than 1s
  done
}

@test "status --watch redraws the terminal until Ctrl-C, which ends it with 0 and gives the screen back" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key first --ttl 60 -q
    run -64 lk status --watch
    [[ $output = 'lk: --watch redraws a terminal'* ]]
    run -0 python3 - "$LK" <<'PY'
import os, pty, subprocess, sys, time, signal
lk = sys.argv[1]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(lk, [lk, "status", "--watch"])
seen = b""
def read_until(text):
    global seen
    end = time.time() + 20
    while text not in seen:
        assert time.time() < end, seen
        seen += os.read(terminal, 4096)
read_until(b"first")
subprocess.run([lk, "acquire", "--key", "second", "--ttl", "60", "-q"], check=True, stdout=subprocess.DEVNULL)
read_until(b"second")
os.write(terminal, b"\x03")
read_until(b"\x1b[?1049l")
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert seen.startswith(b"\x1b[?1049h") and b"\x1b[?25h" in seen
# A line is cleared before it is written: behind a line that is full its last character would go.
assert all(before.endswith((b"\r\n", b"\x1b[H")) for before in seen.split(b"\x1b[K")[:-1]), seen
PY
  done
}
