#!/usr/bin/env bash
# The benchmark still runs: cheap scenarios give figures for flock and for lk on SQLite, and a tool that fails shows.
set -euo pipefail

cd -- "${1:-$(dirname -- "${BASH_SOURCE[0]}")/../..}"
: "${LK:?the lk to measure}"

for program in python3 cc flock jq; do
  command -v "$program" >/dev/null || { echo "bench.sh: skipped: there is no $program here"; exit 125; }
done

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

broken=0
breaks() {
  printf '%s\n' "$*"
  broken=$((broken + 1))
}

# bench NAME ARG...: measures flock and lk on SQLite; table in NAME.txt, JSON lines in NAME.jsonl.
bench() {
  local name=$1
  shift
  bench/run --quick --rounds 1 --tools 'true,flock,lk sqlite' --dir "$folder" --json "$folder/$name.jsonl" "$@" \
    >"$folder/$name.txt"
}

# positive SCENARIO TOOL FIELD...: the line of that tool has these figures, all above zero, and did not fail.
positive() {
  local scenario=$1 tool=$2 field
  shift 2
  for field in "$@"; do
    jq -se --arg scenario "$scenario" --arg tool "$tool" --arg field "$field" \
      'map(select(.scenario == $scenario and .tool == $tool)) | length > 0 and all(.[$field] > 0 and .failed == null)' \
      "$folder/good.jsonl" >/dev/null || breaks "$scenario of $tool: no positive $field"
  done
}

PYTHONPYCACHEPREFIX=$folder python3 -m py_compile bench/run bench/*.py bench/*/*.py
bench/run --list >/dev/null
bench good wrap herd recovery status

jq -se '.[0].machine | .cores > 0 and (.cpu, .kernel, .file_system, .versions.lk, .versions.flock | type == "string")' \
  "$folder/good.jsonl" >/dev/null || breaks 'the first line does not describe the machine'
for tool in true flock 'lk sqlite'; do
  positive wrap "$tool" rounds wall_ms cpu_ms peak_kib wall_x_flock wall_x_true
done
positive status 'lk sqlite' locks wall_ms
for tool in flock 'lk sqlite'; do
  positive herd "$tool" grants_per_second in_order evenness x_flock
done
jq -se 'map(select(.scenario == "recovery" and .tool == "lk sqlite")) |
  length == 2 and all(.ms_p50 > 0 and .two_inside == 0 and .command_ran_on == 0)' \
  "$folder/good.jsonl" >/dev/null || breaks 'recovery of lk sqlite: not measured, or its command ran on'

LK=/bin/false bench bad wrap
jq -se 'map(select(.tool == "lk sqlite")) | length == 1 and .[0].failed != null and .[0].wall_ms == null' \
  "$folder/bad.jsonl" >/dev/null || breaks 'a tool that fails has figures, or no line'
grep -qE '^  lk sqlite +failed: status 1' "$folder/bad.txt" || breaks 'a tool that fails is not seen in the table'

((broken == 0)) || {
  cat -- "$folder"/*.txt
  exit 1
}
