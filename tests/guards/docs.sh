#!/usr/bin/env bash
# Help, manual, completions and the enum of exit statuses name the same commands, options and numbers.
set -euo pipefail

cd -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../..}"
: "${LK:?the lk to ask for its help}"

broken=0
breaks() {
  printf '%s\n' "$*"
  broken=$((broken + 1))
}

# options_in: the long options in a text, one a line.
options_in() { grep -oE -- '(^|[^-a-z])--[a-z][a-z-]*' | sed -E 's/^[^-]//' | sort -u; }
# only_left A B: the lines of A that are not in B.
only_left() { comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2") | sed '/^$/d'; }
# The plain text of a manual page; what follows a lone `--` belongs to another program.
plain() { sed -E 's/^\.\\".*//; s/\\f(\[[A-Z]*\]|.)//g; s/\\-/-/g; s/\\&//g; s/\bFl -/--/g; s/ -- .*//' "$1"; }

manual=man/lk.1
[[ -f $manual ]] || {
  echo "there is no $manual"
  exit 1
}

# --- Exit statuses --------------------------------------------------------------------------------------------------

in_code=$(sed -nE 's/^ +[a-z_]+ = ([0-9]+),.*/\1/p' src/cli/exit_code.hpp)
# In the section each number leads its line, alone or as in "70, 71"; 0-255 and 128+N are classes, not numbers of lk's.
in_manual=$(plain "$manual" | sed -nE '/^\.SH "?EXIT STATUS/,/^\.SH "?[^E]/p' |
  sed -E 's/^\.(B|BR|BI|IP|It|Li) +//; s/^"//' |
  sed -nE 's/^([0-9]+((, | and | or )[0-9]+)*)("| .*|:.*)?$/\1/p' | grep -oE '[0-9]+')
[[ -n $in_code ]] || breaks 'src/cli/exit_code.hpp: no statuses found'
for status in $(only_left "$in_code" "$in_manual"); do
  breaks "$manual: EXIT STATUS does not have $status of src/cli/exit_code.hpp"
done
for status in $(only_left "$in_manual" "$in_code"); do
  breaks "$manual: EXIT STATUS has $status, which src/cli/exit_code.hpp has not"
done

# --- Commands and options of the manual -----------------------------------------------------------------------------

help=$("$LK" help)
commands=$(sed -nE 's/^  lk ([a-z]+)( .*)?$/\1/p' <<<"$help" | sort -u)
[[ -n $commands ]] || breaks "lk help names no command"
all_options=$(options_in <<<"$help")

for command in $commands; do
  options=$("$LK" help "$command" | options_in || true)
  all_options+=$'\n'$options
  page=$manual
  [[ ! -f man/lk-$command.1 ]] || page=man/lk-$command.1
  grep -qE "(^|[^a-z])lk[ -]$command($|[^a-z])" <<<"$(plain "$manual")" || breaks "$manual: does not name lk $command"
  for option in $(only_left "$options" "$(plain "$page" | options_in)"); do
    breaks "$page: does not have $option of lk $command"
  done
done

for page in man/lk.1 man/lk-*.1; do
  [[ -f $page ]] || continue
  for option in $(only_left "$(plain "$page" | options_in)" "$all_options"); do
    breaks "$page: has $option, which no command has"
  done
done

# --- Completions ----------------------------------------------------------------------------------------------------

# fish writes --key as `-l key`; the long options of its own commands are none of ours.
options_completed_by() {
  case $1 in
    *.fish) grep -oE -- ' (-l|--long-option)[ =][a-z-]+' "$1" | sed -E 's/.*[ =]/--/' | sort -u ;;
    *) options_in <"$1" ;;
  esac
}

for file in completions/*; do
  [[ -f $file ]] || continue
  for command in $commands; do
    grep -qw -- "$command" "$file" || breaks "$file: does not name $command"
  done
  completed=$(options_completed_by "$file")
  for option in $(only_left "$all_options" "$completed"); do
    breaks "$file: does not have $option"
  done
  for option in $(only_left "$completed" "$all_options"); do
    breaks "$file: has $option, which no command has"
  done
done

printf '%d commands, %d options, %d differences\n' "$(wc -w <<<"$commands")" "$(wc -w <<<"$(sort -u <<<"$all_options")")" "$broken"
((broken == 0))
