#!/usr/bin/env bash
# The layer rule of ARCHITECTURE.md, held: the first word of an #include is the layer, and each layer sees only some.
set -euo pipefail
shopt -s globstar nullglob extglob

cd -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../..}/src"
files=(**/*.[ch]pp)
((${#files[@]} > 0)) || { echo "layers.sh: there is no source under $PWD" >&2; exit 1; }

broken=0
breaks() {
  printf 'src/%s:%s: %s\n' "$1" "$2" "$3"
  broken=$((broken + 1))
}

# Which includes of lk's own files a file may have, and the rule in words.
rule_of() {
  case $1 in
    core/*) may='core/*' rule='core sees no other layer' ;;
    os/*) may='os/*|core/clock.hpp|core/process_id.hpp' rule='os knows nothing about locks' ;;
    hold/*) may='hold/*|core/*|os/*' rule='hold sees core and os; stores only as core::Store' ;;
    stores/*/*) may="${1%/*}/*|core/*|os/*" rule='a store sees core and os: no hold, no cli, no other store' ;;
    stores/*) may='stores/*|core/*' rule='the registry sees the stores and core' ;;
    cli/*) may='cli/*|hold/*|stores/registry.hpp|core/*|os/*' rule='cli opens stores through the registry' ;;
    main.cpp) may='cli/*|os/*' rule='main only starts cli' ;;
    *) may='' rule='this folder is no layer' ;;
  esac
}

# Which files may have an include of others' files, and the rule in words.
home_of() {
  case $1 in
    toml++/* | nlohmann/*) home='cli/*' rule='only cli knows it' ;;
    SQLiteCpp/* | sqlite3.h) home='stores/sqlite/*' rule='only the sqlite store knows it' ;;
    hiredis/* | openssl/*) home='stores/redis/*' rule='only the redis store knows it' ;;
    fmt/* | tl/*) home='*' rule='' ;;
    *.h | iostream | fstream | filesystem | cstdio | thread) home='!(core/*)' rule='core does no I/O and knows no system' ;;
    */*) home='' rule='no layer knows it' ;;
    *) home='*' rule='' ;;
  esac
}

for file in "${files[@]}"; do
  read -r first <"$file" || true
  [[ $first == '// '* ]] || breaks "$file" 1 'the first line says in a comment what lives here'
done

own='^#[[:space:]]*include[[:space:]]*"(.*)"'
others='^#[[:space:]]*include[[:space:]]*<(.*)>'
includes=0
while IFS=: read -r file line text; do
  includes=$((includes + 1))
  if [[ $text =~ $own ]]; then
    rule_of "$file"
    # shellcheck disable=SC2053 # the right side is a pattern
    [[ ${BASH_REMATCH[1]} == @($may) ]] || breaks "$file" "$line" "\"${BASH_REMATCH[1]}\": $rule"
  elif [[ $text =~ $others ]]; then
    home_of "${BASH_REMATCH[1]}"
    # shellcheck disable=SC2053
    [[ $file == $home ]] || breaks "$file" "$line" "<${BASH_REMATCH[1]}>: $rule"
  else
    breaks "$file" "$line" "cannot read this #include"
  fi
done < <(grep -nHE '^[[:space:]]*#[[:space:]]*include' "${files[@]}" | sed -E 's/^([^:]*:[0-9]*:)[[:space:]]*/\1/')

printf '%d files, %d includes, %d against the rule\n' "${#files[@]}" "$includes" "$broken"
((broken == 0))
