#!/usr/bin/env bats
# lk help, --help and --version.

load common

commands='acquire block completion config exec help release renew status'

@test "lk --help, -h and help are the same, on stdout, and fit a screen" {
  run -0 --separate-stderr lk --help
  [ -z "$stderr" ]
  help=$output
  run -0 lk -h
  [ "$output" = "$help" ]
  run -0 lk help
  [ "$output" = "$help" ]
  [ "$(wc -l <<<"$help")" -le 24 ]
  for command in $commands; do
    grep -Eq "^  lk $command +[A-Z]" <<<"$help"
  done
}

@test "each command explains itself, on stdout, and fits a screen" {
  for command in $commands; do
    run -0 --separate-stderr lk "$command" --help
    echo "$command: $output"
    [ -z "$stderr" ]
    help=$output
    [[ ${lines[0]} == "lk $command"* ]]
    grep -q '^Example: .*lk ' <<<"$help"
    [ "$(wc -l <<<"$help")" -le 24 ]
    run -0 lk help "$command"
    [ "$output" = "$help" ]
    run -0 lk "$command" -h
    [ "$output" = "$help" ]
  done
}

@test "no line of any help is wider than 80 columns" {
  for command in '' $commands; do
    # shellcheck disable=SC2086
    lk help $command >help
    [ "$(LC_ALL=C.UTF-8 awk 'length > 80' help)" = '' ]
  done
}

@test "on a narrow terminal help is broken between words, under its column" {
  for command in '' $commands; do
    # shellcheck disable=SC2086
    lk help $command >help
    for columns in 50 60; do
      on_terminal sh -c "stty cols $columns; '$LK' ${command:-help} ${command:+--help}" </dev/null | tr -d '\r' >screen
      [ "$(LC_ALL=C.UTF-8 wc -L <screen)" -le "$columns" ]
      diff <(tr -s ' \n' '\n' <help) <(tr -s ' \n' '\n' <screen)
    done
  done
  on_terminal sh -c "stty cols 60; '$LK' exec --help" </dev/null | tr -d '\r' >screen
  grep -A 1 -- '--lock NAME' screen
  [ "$(grep -A 1 -- '--lock NAME' screen | tail -n 1)" = '                     --key' ]
}

@test "each option has a line of its own in the help" {
  for option in --key --ttl --owner --note --output --raw-key --lock --with --store --prefix --config --quiet --verbose --help; do
    [ "$(lk acquire --help | grep -Ec "^  (-., )?$option( |$)")" -eq 1 ]
  done
  for option in --wait --max-waiting; do
    [ "$(lk block --help | grep -Ec "^  $option ")" -eq 1 ]
  done
  for option in --force --yes --fence; do
    [ "$(lk release --help | grep -Ec "^  $option ")" -eq 1 ]
  done
  [ "$(lk status --help | grep -Ec '^  --json ')" -eq 1 ]
}

@test "--help asks nothing of the store and of the other options" {
  LK_STORE=nonsense LK_TTL=nonsense run -0 lk acquire --help
  run -0 lk release --key k --help
}

@test "lk --version is the name and three numbers" {
  run -0 --separate-stderr lk --version
  [[ $output =~ ^lk\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
  [ -z "$stderr" ]
}

@test "lk alone: help on stderr, 64" {
  run -64 --separate-stderr lk
  [ -z "$output" ]
  [ "$stderr" = "$("$LK" help)" ]
}

# A man(1) that tells what it is asked, in front of the one of this machine. $1: the path of the page that it knows.
stub_man() {
  mkdir -p bin
  cat >bin/man <<SCRIPT
#!/bin/sh
echo "\$*" >>$PWD/asked
case \$* in
  '-w lk-exec') echo "$1" ;;
  lk-exec) echo "the page"; yes | head -n 1; exit 3 ;;
  *) exit 16 ;;
esac
SCRIPT
  chmod +x bin/man
  PATH=$PWD/bin:$PATH
}

@test "lk help COMMAND shows the manual page on a terminal, and ends as man does" {
  stub_man "$PWD/bin/man"
  run -3 on_terminal "$LK" help exec </dev/null
  [ "${lines[0]%$'\r'}" = 'the page' ]
  [ "${#lines[@]}" -eq 2 ] # yes has died of SIGPIPE, without a complaint
  [ "$(cat asked)" = "$(printf -- '-w lk-exec\nlk-exec')" ]
}

@test "without a terminal, and for --help, it is the short help, and man is not asked" {
  stub_man "$PWD/bin/man"
  lk help exec >help
  [ "$(head -c 7 help)" = 'lk exec' ]
  run -0 on_terminal "$LK" exec --help </dev/null
  [ "$(tr -d '\r' <<<"$output")" = "$(cat help)" ]
  run -0 on_terminal "$LK" help </dev/null
  [ "$(tr -d '\r' <<<"$output")" = "$("$LK" help)" ]
  [ ! -e asked ]
}

@test "where man is missing, has no such page or names no file, it is the short help" {
  lk help exec >help
  is_short() {
    run -0 on_terminal "$LK" help "$1" </dev/null
    diff <(tr -d '\r' <<<"$output") "$2"
  }
  mkdir empty
  script=$(command -v script)
  run -0 env PATH="$PWD/empty" SHELL=/bin/sh "$script" --quiet --return --echo never --command "'$LK' help exec" /dev/null </dev/null
  diff <(tr -d '\r' <<<"$output") help
  # As the images of Ubuntu have it.
  stub_man 'This system has been minimized.'
  is_short exec help
  stub_man "$PWD/no-such-page"
  is_short exec help
  lk help renew >renew
  is_short renew renew
  [ "$(grep -c -- '-w lk-renew' asked)" -eq 1 ]
  run -64 on_terminal "$LK" help exce </dev/null
  [[ $output = *'did you mean exec?'* ]]
}

@test "the manual pages are found by the real man" {
  command -v man >where || skip "there is no man"
  mkdir -p share/man1
  cp "$BATS_TEST_DIRNAME"/../../man/*.1 share/man1
  MANPATH=$PWD/share MANPAGER=cat run -0 on_terminal "$LK" help exec </dev/null
  [[ $output = *'run a command while holding a lock'* ]]
}
