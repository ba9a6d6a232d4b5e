#!/usr/bin/env bash
# Help, manual, README, completions, the lists of settings and the enum of exit statuses name the same commands, options,
# entries and numbers.
set -euo pipefail

cd -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../..}"
: "${LK:?the lk to ask for its help}"

broken=0
breaks() {
  printf '%s\n' "$*"
  broken=$((broken + 1))
}

# options_in: the long options in a text, one a line.
options_in() { { grep -oE -- '(^|[^-a-z])--[a-z][a-z-]*' || true; } | sed -E 's/^[^-]//' | sort -u; }
# only_left A B: the lines of A that are not in B.
only_left() { comm -23 <(sort -u <<<"$1") <(sort -u <<<"$2") | sed '/^$/d'; }
# The plain text of a manual page; what follows a lone `--` belongs to another program.
plain() { sed -E 's/^\.\\".*//; s/\\f(\[[A-Z]*\]|.)//g; s/\\-/-/g; s/\\&//g; s/\bFl -/--/g; s/ -- .*//' "$1"; }

manual=man/lk.1
[[ -f $manual ]] || {
  echo "there is no $manual"
  exit 1
}

# section NAME: its lines in the page on stdin.
section() { awk -v name="$1" '/^\.SH /{inside = substr($0, 5) == name; next} inside'; }
# The names that begin the paragraphs of a text: `.B name`, or `.BR name ", " name`.
entries() {
  awk '/^\.(B|BR|I|IR) / && after{print} {after = /^\.TP/}' |
    sed -E 's/^\.[A-Z]+ //; s/", "/ /g; s/,//g; s/"//g' | tr ' ' '\n' | sed '/^$/d' | sort -u
}

# --- Exit statuses --------------------------------------------------------------------------------------------------

in_code=$(sed -nE 's/^ +[a-z_]+ = ([0-9]+),.*/\1/p' src/cli/exit_code.hpp)
# Each number begins a paragraph; 0-255 and 128+N are classes, not numbers of lk's.
statuses_in() { plain "$1" | section 'EXIT STATUS' | entries | { grep -xE '[0-9]+' || true; }; }
[[ -n $in_code ]] || breaks 'src/cli/exit_code.hpp: no statuses found'
for status in $(only_left "$in_code" "$(statuses_in "$manual")"); do
  breaks "$manual: EXIT STATUS does not have $status of src/cli/exit_code.hpp"
done

# --- Commands and options of the manual -----------------------------------------------------------------------------

help=$("$LK" help)
commands=$(sed -nE 's/^  lk ([a-z]+)( .*)?$/\1/p' <<<"$help" | sort -u)
[[ -n $commands ]] || breaks "lk help names no command"
all_options=$(options_in <<<"$help")

for command in $commands; do
  options=$("$LK" help "$command" | options_in || true)
  all_options+=$'\n'$options
  # All that is to be said of help stands in the page of lk itself.
  page=man/lk-$command.1
  [[ $command != help ]] || page=$manual
  grep -qE "(^|[^a-z])lk[ -]$command($|[^a-z])" <<<"$(plain "$manual")" || breaks "$manual: does not name lk $command"
  [[ -f $page ]] || {
    breaks "there is no $page for lk $command"
    continue
  }
  for option in $(only_left "$options" "$(plain "$page" | options_in)"); do
    breaks "$page: does not have $option of lk $command"
  done
  for title in 'EXIT STATUS' EXAMPLES; do
    [[ -n $(section "$title" <"$page") ]] || breaks "$page: has no $title"
  done
done

for page in man/*.1; do
  command=${page#man/lk-}
  command=${command%.1}
  [[ $page == "$manual" ]] || grep -qx -- "$command" <<<"$commands" || breaks "$page: there is no lk $command"
  for status in $(only_left "$(statuses_in "$page")" "$in_code"); do
    breaks "$page: EXIT STATUS has $status, which src/cli/exit_code.hpp has not"
  done
done

# Options of other programs stand on lines with their names.
for document in man/*.[157] README.md share/lk/SKILL.md examples/*; do
  for option in $(only_left "$(plain "$document" | sed -E '/cmake|tools\/dev|timeout --/d' | options_in)" "$all_options"); do
    breaks "$document: has $option, which no command has"
  done
done

# --- Settings -------------------------------------------------------------------------------------------------------

# strings_of FUNCTION FILE: the words in quotes in its body.
strings_of() {
  awk -v name=" $1(" '/^[^ }]/{inside = index($0, name) > 0} inside' "$2" | { grep -oE '"[a-z_]+"' || true; } |
    tr -d '"' | sort -u
}

for names in 'default_names DEFAULTS' 'store_names STORES' 'lock_names LOCKS'; do
  title=${names#* }
  in_code=$(strings_of "${names% *}" src/cli/config_file.cpp)
  in_manual=$(section "$title" <man/lk.conf.5 | entries)
  [[ -n $in_code ]] || breaks "src/cli/config_file.cpp: no names found in ${names% *}"
  for name in $(only_left "$in_code" "$in_manual"); do
    breaks "man/lk.conf.5: $title does not have $name of src/cli/config_file.cpp"
  done
  for name in $(only_left "$in_manual" "$in_code"); do
    breaks "man/lk.conf.5: $title has $name, which src/cli/config_file.cpp has not"
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
