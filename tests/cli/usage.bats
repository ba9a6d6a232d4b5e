#!/usr/bin/env bats
# What is refused before a store is asked, and how values are told from options.

load common

# refused STATUS SENTENCE WORDS...: nothing on stdout, exactly that line on stderr, and no store comes into being.
refused() {
  local expected=$1 sentence=$2
  shift 2
  run --separate-stderr lk "$@"
  echo "lk $*: $status: $stderr"
  [ "$status" -eq "$expected" ] && [ -z "$output" ] && [ "$stderr" = "lk: $sentence" ] && [ ! -e "$LK_STORE" ]
}

@test "an unknown option or command names the nearest one" {
  fresh_store sqlite
  refused 64 'unknown option --tll: did you mean --ttl?' acquire --key k --tll 5
  refused 64 'unknown option --onwer: did you mean --owner?' acquire --key k --onwer=me
  refused 64 'unknown option --verbos: did you mean --verbose?' status --verbos
  refused 64 'unknown option --nothing-like-it' acquire --nothing-like-it
  refused 64 'unknown option -z' acquire -qz
  refused 64 'unknown option --ttl\e: did you mean --ttl?' acquire $'--ttl\e' 1
  refused 64 "unknown command 'aquire': did you mean acquire?" aquire --key k
  refused 64 "unknown command 'realese': did you mean release?" realese
  refused 64 "unknown command 'frobnicate'" frobnicate
  refused 64 "unknown command ''" ''
  refused 64 "unknown command 'stauts': did you mean status?" help stauts
}

@test "a command by the name that other tools have for it" {
  fresh_store sqlite
  for pair in run:exec with:exec lock:'exec or acquire' get:acquire try:acquire wait:block extend:renew refresh:renew \
    free:release remove:release rm:release unlock:release list:status ls:status ps:status show:status; do
    refused 64 "unknown command '${pair%%:*}': did you mean ${pair#*:}?" "${pair%%:*}" --key k
    refused 64 "unknown command '${pair%%:*}': did you mean ${pair#*:}?" help "${pair%%:*}"
    for command in ${pair#*:}; do
      [ "$command" = or ] || lk help "$command" >help
    done
  done
}

@test "an option without a value, or twice, or a flag with one" {
  fresh_store sqlite
  refused 64 '--key needs a value' acquire --key
  refused 64 '--key is given twice' acquire --key a --ttl 5 --key b
  refused 64 '--key is given twice' acquire --key=a --key=a
  refused 64 '--quiet takes no value' acquire --key k --quiet=yes
  refused 64 '--key is missing' acquire
  refused 64 '--key is missing, and LK_KEY is not set' release --owner me
}

@test "a key that is missing: the ways to give one, --lock where the settings file has locks" {
  fresh_store sqlite
  printf '[locks.nightly]\nkey = "nightly"\n' >lk.toml
  # shellcheck disable=SC2086
  for words in acquire block 'exec -- true'; do
    refused 64 '--key is missing' $words
    refused 64 '--key is missing: give --key K, or --lock NAME for one of the settings file' --config lk.toml $words
  done
  for command in renew release; do
    refused 64 '--key is missing, and LK_KEY is not set' "$command" --owner me
    refused 64 '--key is missing, and LK_KEY is not set: give --key K, or --lock NAME for one of the settings file' \
      "$command" --owner me --config lk.toml
  done
}

@test "a value is taken whatever it looks like" {
  fresh_store sqlite
  run -0 --separate-stderr lk acquire --key -n --ttl 30 --owner=--help
  [ "$output" = --help ]
  [ "$(lk status --json --key=-n | jq -r '.[0].owner')" = --help ]
  lk release --key -n --owner=--help
}

@test "an option in the place of a value is a variable that was unset" {
  fresh_store sqlite
  for words in '--key --quiet' '--key -q' '--key k --owner --note' '--key k --note --help'; do
    # shellcheck disable=SC2086
    run -64 --separate-stderr lk acquire $words
    [[ $stderr = 'lk: --'*' needs a value, and -'*' is an option: is a variable unset? (--'*' if it is meant)' ]]
  done
  [ ! -e "$LK_STORE" ]
}

@test "a value after = is literal" {
  fresh_store sqlite
  run -0 --separate-stderr lk acquire --key=a=b=c --ttl=30 --owner=-x --note=--owner=y
  [ "$output" = -x ]
  is_field a=b=c .note --owner=y
}

@test "words after -- are no options" {
  fresh_store sqlite
  lk acquire --key -n --ttl 30 >token
  run -0 lk status -- -n
  [[ ${lines[0]} =~ ^key\ +-n$ ]]
  run -64 --separate-stderr lk acquire --key k -- --ttl 5
  [ "$stderr" = "lk: unexpected word '--ttl': the key is given with --key" ]
}

@test "options may come before the command" {
  fresh_store sqlite
  run -0 --separate-stderr lk -v --store "$LK_STORE" acquire --key k --ttl 30
  [[ ${stderr_lines[0]} == "lk: asking $LK_STORE" ]]
  run -64 --separate-stderr lk --store
  [ "$stderr" = 'lk: no command: lk help lists them' ]
  run -64 --separate-stderr lk --stor x status
  [ "$stderr" = 'lk: unknown option --stor: did you mean --store?' ]
}

@test "a key is no word of its own" {
  fresh_store sqlite
  for command in acquire block renew release; do
    refused 64 "unexpected word 'k': the key is given with --key" "$command" k
  done
}

@test "durations that are none name the option and show a good one" {
  fresh_store sqlite
  for bad in '' -1 -5m 1. .5 1e3 0x10 '1 h' ' 60' 60x m 1h-30m 1m1m 1m1h 1w ٦٠ 1.5m30s; do
    refused 64 "--ttl must be a duration like 30, 1.5s, 5m or 1h30m, not '$bad'" acquire --key k --ttl "$bad"
    refused 64 "--ttl must be a duration like 30, 1.5s, 5m or 1h30m, not '$bad'" acquire --key k "--ttl=$bad"
    LK_TTL=$bad refused 64 "LK_TTL must be a duration like 30, 1.5s, 5m or 1h30m, not '$bad'" acquire --key k
    refused 64 "--wait must be a duration like 30, 1.5s, 5m or 1h30m, or forever, not '$bad'" block --key k --wait "$bad"
    refused 64 "--held-longer-than must be a duration like 30, 1.5s, 5m or 1h30m, not '$bad'" status --held-longer-than "$bad"
  done
  for bad in 0 0s 00 99ms 0.099; do
    refused 64 "--ttl must be at least 100ms, like 30, 1.5s, 5m or 1h30m, not '$bad'" acquire --key k --ttl "$bad"
    refused 64 "--ttl must be at least 100ms, like 30, 1.5s, 5m or 1h30m, not '$bad'" renew --key k --owner me --ttl "$bad"
  done
  for bad in 367d 9223372036854775807 9223372036854776 99999999999d 18446744073709551616 99999h; do
    refused 64 "--ttl must be at most 366 days, like 30, 1.5s, 5m or 1h30m, not '$bad'" acquire --key k --ttl "$bad"
  done
  refused 64 "--ttl must be a whole number of milliseconds, like 250ms, 0.25 or 1.5s, not '0.0001'" acquire --key k --ttl 0.0001
}

@test "durations that are good give exactly their lifetime" {
  fresh_store sqlite
  for pair in 1:1000 0.5:500 1.5:1500 500ms:500 60s:60000 5m:300000 1h30m:5400000 2h:7200000 1d:86400000 1.5h:5400000 366d:31622400000; do
    lk acquire --key "t${pair%:*}" --ttl "${pair%:*}" --output json >words
    [ "$(jq .ttl_ms words)" -eq "${pair#*:}" ]
  done
}

@test "keys that cannot be are refused by a sentence without raw bytes" {
  fresh_store sqlite
  refused 64 '--key must not be empty' acquire --key ''
  refused 64 '--key must not be empty' acquire --key= --ttl 5
  refused 64 '--key must not contain control characters (byte 2 starts \n)' acquire --key $'a\nb'
  refused 64 '--key must not contain control characters (byte 1 starts \e)' acquire --key $'\e[31m'
  refused 64 '--key must be UTF-8 (byte 1 is not)' acquire --key $'\xff'
  refused 64 '--key must be at most 512 bytes long, not 513' acquire --key "$(printf '%0513d' 0)"
  refused 64 'KEY must not be empty' status ''
  run -0 --separate-stderr lk acquire --key "$(printf '%0512d' 0)" --ttl 5
}

@test "a key with an empty variable in it is refused where a lock would be taken, unless --raw-key" {
  fresh_store sqlite
  for command in acquire block; do
    for key in invoice: /tmp/x :a a/ : /; do
      run -64 --separate-stderr lk "$command" --key "$key" --ttl 5
      [[ $stderr == "lk: --key '$key' "*'is a variable unset? (--raw-key if it is meant)' ]]
    done
    run -0 lk "$command" --key "$command:" --ttl 5 --raw-key
  done
  run -1 lk status invoice:
}

@test "owners that cannot be" {
  fresh_store sqlite
  refused 64 '--owner must not be empty' acquire --key k --owner ''
  refused 64 '--owner must not contain control characters (byte 2 starts \n)' acquire --key k --owner $'a\nb'
  refused 64 '--owner from stdin must not be empty' acquire --key k --owner - </dev/null
}

@test "other values that cannot be" {
  fresh_store sqlite
  refused 64 "--output must be token, env or json, not 'xml'" acquire --key k --output xml
  refused 64 "--color must be auto, always or never, not 'blue'" status --color blue
  for bad in 0 -1 x '' 1.5 99999999999999999999; do
    refused 64 "--max-waiting must be a whole number from 1 to 1000000, not '$bad'" block --key k --max-waiting "$bad"
  done
  refused 64 "--fence must be a whole number from 1 to 9007199254740991, not 'x'" release --key k --owner me --fence x
  refused 64 "completion needs the name of a shell: bash, zsh or fish, not 'tcsh'" completion tcsh
  refused 64 'completion needs the name of a shell: bash, zsh or fish' completion
  refused 64 "--list must be stores, locks, parameters, keys or owners, not 'all'" completion --list all
  refused 64 '--yes only goes with --force' release --key k --owner me --yes
  refused 64 '--force and --owner exclude each other: --force asks for no token' release --key k --owner me --force
}

@test "a value that cannot be is shown without raw bytes, and only its beginning" {
  fresh_store sqlite
  refused 64 "--ttl must be a duration like 30, 1.5s, 5m or 1h30m, not '5\\n\\e[31m'" acquire --key k --ttl $'5\n\e[31m'
  refused 64 "--output must be token, env or json, not '\\xff'" acquire --key k --output $'\xff'
  long=$(printf '%0500d' 0)
  for words in '--ttl' '--max-waiting' '--output'; do
    run -64 --separate-stderr lk block --key k "$words" "$long"
    [[ $stderr = *", not '${long:0:59}…'" ]]
  done
}

@test "exec says where -- goes" {
  fresh_store sqlite
  refused 64 '-- is missing before the command: lk exec … -- true …' exec --key k true
  refused 64 "unexpected word 'x': the command begins after --" exec --key k x -- true
  refused 64 '--key needs a value' exec --key -- true
}

@test "a store that is none: 78, naming where it was given" {
  for bad in locks redis:host/0 '' sqlite: foo:bar; do
    run -78 --separate-stderr lk acquire --key k --store "$bad"
    [[ $stderr == 'lk: --store'* ]]
    LK_STORE=$bad run -78 --separate-stderr lk acquire --key k
    [[ $stderr == 'lk: LK_STORE'* ]]
  done
  run -78 --separate-stderr lk status --store nosuch://host
  [[ $stderr == 'lk: --store: '*nosuch* ]]
}

@test "passwords of --store appear nowhere" {
  mkfifo words
  # stdin keeps lk busy while its words are read.
  "$LK" acquire --key k --store nosuch://user:s3cret@host/0 --owner - <words >out 2>err 3>&- &
  pid=$!
  exec 5>words
  wait_until 5 grep -qz 'nosuch://user:\*\*\*\*\*\*@host/0' "/proc/$pid/cmdline"
  run ! grep -q s3cret "/proc/$pid/cmdline"
  echo me >&5
  exec 5>&-
  ends_with 78 "$pid"
  [ -s err ]
  run ! grep -q s3cret out err
  run --separate-stderr lk status --store=nosuch://:s3cret@host -v
  [[ $stderr != *s3cret* ]]
}

@test "a relative path is the same store from everywhere" {
  mkdir sub
  lk acquire --key k --ttl 30 --store ./locks.db >token
  [ -e locks.db ]
  cd sub
  run -75 lk acquire --key k --store ../locks.db
  run -75 lk acquire --key k --store sqlite:../locks.db
  run -75 lk acquire --key k --store "$BATS_TEST_TMPDIR/locks.db"
  [ "$(lk status --store ../locks.db --json | jq -r '.[0].store')" = "$BATS_TEST_TMPDIR/locks.db" ]
}

@test "--store wins over LK_STORE" {
  export LK_STORE="$BATS_TEST_TMPDIR/env.db"
  lk acquire --key k --ttl 30 --store "$BATS_TEST_TMPDIR/line.db" >token
  [ -e line.db ]
  [ ! -e env.db ]
  run -0 lk acquire --key k --ttl 30
}

@test "the default store is a file of this user: XDG_STATE_HOME, else HOME, else the passwd entry" {
  if [ "$(id -u)" -eq 0 ]; then
    # As somebody else; the program itself may lie where only root can go.
    cp "$LK" "$BATS_TEST_TMPDIR/lk" && chmod 755 "$BATS_TEST_TMPDIR/lk"
    chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_SUITE_TMPDIR" "$(dirname "$BATS_TEST_TMPDIR")"
    chmod 777 "$BATS_TEST_TMPDIR" "$HOME"
    as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
    program=$BATS_TEST_TMPDIR/lk
  else
    as_user() { "$@"; }
    program=$LK
  fi
  as_user env XDG_STATE_HOME="$HOME/state" "$program" acquire --key k --ttl 30 >token
  [ -e "$HOME/state/lk/locks.db" ]
  as_user env XDG_STATE_HOME=relative "$program" acquire --key k --ttl 30 >token
  [ -e "$HOME/.local/state/lk/locks.db" ]
  [ ! -e relative ]
  run as_user env -u HOME "$program" status
  [[ $output == "lk: no locks in $(getent passwd "$(as_user id -u)" | cut -d: -f6)/.local/state/lk/locks.db" ]]
}

@test "no HOME and no passwd entry: 78, and no file anywhere else" {
  if [ "$(id -u)" -ne 0 ]; then
    skip "only root can become a user that does not exist"
  fi
  cp "$LK" "$BATS_TEST_TMPDIR/lk" && chmod 755 "$BATS_TEST_TMPDIR/lk"
  chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_SUITE_TMPDIR" "$(dirname "$BATS_TEST_TMPDIR")"
  chmod 777 "$BATS_TEST_TMPDIR"
  run -78 --separate-stderr setpriv --reuid 54321 --regid 54321 --clear-groups -- env -u HOME "$BATS_TEST_TMPDIR/lk" acquire --key k
  [ "$stderr" = 'lk: no place for the default store: HOME is not set and user 54321 has no home; give one with --store or LK_STORE' ]
}
