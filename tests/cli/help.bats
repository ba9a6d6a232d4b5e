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
