#!/usr/bin/env bats
# Every example of README.md, CONTRIBUTING.md, the manual, share/lk/SKILL.md and examples/ is taken out of the document and
# run; what the documents say about files, versions, statuses and names is compared with them.

load common

setup_file() {
  export root="$BATS_TEST_DIRNAME/../.."
}

# blocks FILE LANGUAGE: the fenced blocks of a language, each ended by a line with a form feed. For a manual page (FILE ends
# in .1, .5 or .7): those of its EXAMPLES.
blocks() {
  case $1 in
    *.[157])
      awk '/^\.SH /{examples = $2 == "EXAMPLES"} /^\.EE/{if (inside) print "\f"; inside = 0} inside{print}
           /^\.EX/{inside = examples}' "$root/$1" |
        sed -e 's/\\-/-/g' -e 's/\\&//g' -e "s/\\\\(aq/'/g" -e 's/\\e/\\/g'
      ;;
    *)
      awk -v opening="^\`\`\`$2\$" '/^```$/{if (inside) print "\f"; inside = 0} inside{print} $0 ~ opening{inside = 1}' "$root/$1"
      ;;
  esac
}

# read_blocks FILE LANGUAGE: the same as the array all_blocks, and there is at least one.
read_blocks() {
  all_blocks=()
  local line block=
  while IFS= read -r line; do
    if [ "$line" = $'\f' ]; then
      all_blocks+=("$block")
      block=
    else
      block+=$line$'\n'
    fi
  done < <(blocks "$1" "$2")
  [ ${#all_blocks[@]} -gt 0 ]
}

# What the examples run besides lk and the system's own commands. Each writes its name and the key it runs under.
stubs='sync-mail fetch-mail import-mail send-report ./deploy.sh ./run-tests.sh ./send-invoice ./dump ./upload ./import
  ./migrate ./report ./dispatch'

# A folder in which the examples find what they call, as installed; and a store that is not the caller's.
workshop() {
  fresh_store sqlite
  mkdir bin tools
  local stub
  for stub in $stubs; do
    case $stub in ./*) ;; *) stub=bin/$stub ;; esac
      printf '#!/bin/sh\necho "${0##*/} key=$LK_KEY" >>%q\n' "$PWD/calls" >"$stub"
    chmod +x "$stub"
  done
  ln -s "$LK" bin/lk
  : >calls

  # tools/dev: `run` is lk, everything else must be a command that the real one lists.
  cat >tools/dev <<'SCRIPT'
#!/bin/bash
"$root/tools/dev" help | grep -Eq "^  $1( |\$)" || exit 1
[ "$1" != run ] || exec lk "${@:2}"
echo "tools/dev $*" >>calls
SCRIPT
  printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
  # cmake --install of the build that is tested, into a folder of this test.
  cat >bin/cmake <<'SCRIPT'
#!/bin/bash
[ "$1 $2" = "--install build/release" ] || exit 1
PATH=${PATH#*:} exec cmake --install "${LK%/*}" --prefix "$PWD/installed"
SCRIPT
  chmod +x tools/dev bin/sudo bin/cmake
  PATH=$PWD/bin:$PATH
}

# Everything that differs from run to run.
leveled() {
  sed -E -e 's/[^ ]+@[^ ]+ \(pid [0-9]+/USER@HOST (pid N/g' -e 's/\b[0-9]{16}\b/FENCE/g' \
    -e 's/\b([0-9.]+(ms|s|m|h|d))+\b/TIME/g' -e 's/ +/ /g'
}

# Everything that an example block names must have been called, and under the lock where it stands after a `--`.
all_called() {
  local stub name
  for stub in $stubs; do
    name=${stub##*/}
    if grep -qE "(^|[ '])${stub//./\\.}( |'|\$)" <<<"$1"; then
      echo "$stub must have been called:"
      grep "^$name key=" calls
    fi
    if grep -qE -- " -- .*(^|[ '])${stub//./\\.}( |'|\$)" <<<"$1"; then
      grep "^$name key=." calls
    fi
  done
}

run_block() {
  echo "--- $1"
  bash -eu -o pipefail -c "$1" </dev/null
  all_called "$1"
}

# The folders and groups of an example, as they are here.
here() {
  local block=${1//\/srv\//$PWD/srv/}
  echo "${block//-g ops/-g $(id -gn)}"
}

# settings TEXT: the settings of the user.
settings() {
  mkdir -p "$HOME/.config/lk"
  (umask 077 && cat >"$HOME/.config/lk/config.toml" <<<"$1")
}

# cron_line TEXT ['with user']: the commands of crontab lines, run as cron does; its variables are set first.
cron_line() {
  local line
  local -a variables=()
  while IFS= read -r line; do
    case $line in
      '' | '#'*) ;;
      PATH=*) variables+=("PATH=$PWD/bin:${line#PATH=}") ;;
      [A-Z]*=*) variables+=("$line") ;;
      *)
        [[ $line =~ ^(([0-9*/,-]+\ ){5})([^ ].*)$ ]] || return 1
        [[ ${BASH_REMATCH[3]} != *%* ]] || return 1 # a new line for cron
        line=${BASH_REMATCH[3]//\/usr\/local\/bin\//}
        # In /etc/cron.d the user comes first.
        [ "${2-}" != 'with user' ] || line=${line#* }
        env "${variables[@]}" sh -c "$line" </dev/null || return
        ;;
    esac
  done <<<"$1"
}

# transcript TEXT: runs the commands after "$ " one by one in one shell, and compares what each says.
transcript() {
  local line script='' number=0
  rm -rf said expected
  mkdir said expected
  while IFS= read -r line; do
    case $line in
      '$ '*)
        number=$((number + 1))
        : >"expected/$number"
        # In a group the command still sees the status of the one before it.
        script+="{ ${line#\$ }"$'\n'"} >said/$number 2>&1"$'\n'
        # A command in the background has the lock before the next line.
        [[ $line != *\& ]] || script+='until [ "$(lk status)" ]; do sleep 0.02; done 2>/dev/null'$'\n'
        ;;
      *) echo "$line" >>"expected/$number" ;;
    esac
  done < <(printf %s "$1")
  [ "$number" -gt 0 ]
  bash -c "$script"' kill $(jobs -p) 2>/dev/null; wait' </dev/null
  for ((; number > 0; number--)); do
    echo "command $number:"
    diff <(leveled <"expected/$number") <(leveled <"said/$number")
  done
}

# --- README ---------------------------------------------------------------------------------------------------------

@test "the first example of README says what it shows" {
  workshop
  read_blocks README.md console
  transcript "${all_blocks[0]}"
}

@test "each shell block of README runs, in their order, and calls its commands under the lock" {
  workshop
  mkdir srv
  read_blocks README.md toml
  settings "${all_blocks[0]}"
  read_blocks README.md sh
  local block
  for block in "${all_blocks[@]}"; do
    run_block "$(here "$block")"
  done
  run -1 lk status
  [ "$(stat -c %a srv/lk)" = 2770 ]
  grep -q '^tools/dev test$' calls
}

@test "README installs a program, its manual and its examples" {
  workshop
  [ -e "${LK%/*}/cmake_install.cmake" ] || skip "the lk that is tested lies in no build folder"
  read_blocks README.md sh
  local block page
  for block in "${all_blocks[@]}"; do
    [[ $block != *--install* ]] || run_block "$block"
  done
  [ "$(installed/bin/lk --version)" = "$("$LK" --version)" ]
  for page in "$root"/man/*; do
    cmp "$page" "installed/share/man/man${page##*.}/${page##*/}"
  done
  diff -r "$root/examples" installed/share/doc/lk/examples
  cmp "$root/share/lk/SKILL.md" installed/share/lk/SKILL.md
}

@test "README, the cron job: a run that finds another is silent and 0; a failure of the job is its own" {
  workshop
  read_blocks README.md crontab
  cron_line "${all_blocks[0]}"
  all_called "${all_blocks[0]}"
  : >calls
  lk acquire --key sync-mail --owner me -q >token
  run -0 cron_line "${all_blocks[0]}"
  [ -z "$output" ]
  [ ! -s calls ]
  lk release --key sync-mail --owner me
  printf '#!/bin/sh\nexit 3\n' >bin/sync-mail
  run -3 cron_line "${all_blocks[0]}"
}

@test "README, deploys: the second waits and runs after the first, the third is refused" {
  workshop
  read_blocks README.md sh
  local block deploy=
  for block in "${all_blocks[@]}"; do
    [[ $block != *deploy:prod* ]] || deploy=$block
  done
  [ -n "$deploy" ]
  printf '#!/bin/sh\necho ran >>runs\nuntil [ -e go ]; do sleep 0.02; done\n' >deploy.sh
  bash -c "$deploy" 3>&- &
  local first=$!
  wait_until 20 is_field deploy:prod .state held
  bash -c "$deploy" 3>&- &
  local second=$!
  wait_until 20 is_field deploy:prod .waiting 1
  run -75 timeout 20 bash -c "$deploy"
  : >go
  ends_with 0 "$first"
  ends_with 0 "$second"
  [ "$(wc -l <runs)" -eq 2 ]
}

@test "README, a stuck lock: the table and the sentence are those that it shows, and the fence frees that grant alone" {
  workshop
  read_blocks README.md console
  local stuck=${all_blocks[1]} note
  note=$(sed -n '3s/.*  //p' <<<"$stuck")
  printf '#!/bin/sh\nexec sleep 60\n' >deploy.sh
  lk exec --key deploy:prod --note "$note" -- ./deploy.sh 3>&- &
  wait_until 20 is_field deploy:prod .state held
  lk exec --key deploy:prod --wait 1m -- true 3>&- &
  wait_until 20 is_field deploy:prod .waiting 1
  local fence old
  fence=$(field deploy:prod .fence)
  old=$(sed -nE 's/.*--fence ([0-9]{16}).*/\1/p' <<<"$stuck")
  [ -n "$old" ]
  run -75 lk release --key deploy:prod --force --yes --fence "$old"
  transcript "${stuck//$old/$fence}"
}

@test "README, once per schedule: a second start within the hour does nothing" {
  workshop
  read_blocks README.md crontab
  local block
  block=${all_blocks[1]/redis:\/\/redis.example.com:6379/$LK_STORE}
  cron_line "$block"
  all_called "$block"
  run -0 cron_line "$block"
  [ -z "$output" ]
  [ "$(grep -c '^send-report ' calls)" -eq 1 ]
  [ "$(field report:daily .left_ms)" -gt 3500000 ]
}

@test "README and the manual, Redis: each example runs over a server" {
  [[ $stores == *redis* ]] || skip "the suites do not run over Redis"
  workshop
  fresh_store redis
  local block url=$LK_STORE ran=0
  read_blocks README.md shell
  local -a both=("${all_blocks[@]}")
  read_blocks man/lk-stores.7 ''
  both+=("${all_blocks[@]}")
  unset LK_STORE
  for block in "${both[@]}"; do
    if [[ $block == *redis://* ]]; then
      run_block "${block//redis:\/\/redis.example.com:6379/$url}"
      ran=$((ran + 1))
    fi
  done
  [ "$ran" -ge 3 ]
  [ ! -e "$HOME/.local/state/lk" ]
}

# with_help COMMAND: it with --help, before the command that it would run. What is before that is looked at.
with_help() {
  if [[ $1 =~ ^(.*[^ ])\ --(\ .*)?$ ]]; then
    echo "${BASH_REMATCH[1]} --help"
  else
    echo "$1 --help"
  fi
}

@test "the commands that README names in its text are good ones" {
  workshop
  lk acquire --key staging --ttl 1m >token
  local command renewed=0
  while IFS= read -r command; do
    echo "$command"
    case $command in
      *' renew '*) renewed=1 ;;
      'lk status' | 'sudo lk status') ;;
      *) command="$(with_help "$command") >help" ;;
    esac
    bash -c "$command"
  done < <(tr '\n' ' ' <"$root/README.md" | grep -oE '`(sudo )?lk [^`]*`' | tr -d '`')
  [ "$renewed" -eq 1 ]
}

@test "the statuses in README's table are lk's" {
  local status statuses
  statuses=$(sed -n '/^| status/,/^$/p' "$root/README.md" | sed -nE 's/^\| ([0-9, ]+) \|.*/\1/p' | tr -d ',')
  [ -n "$statuses" ]
  for status in $statuses; do
    grep -Eq "= $status,( |\$)" "$root/src/cli/exit_code.hpp"
  done
}

# --- The manual -----------------------------------------------------------------------------------------------------

# For the examples that show or free it.
hold_deploy() {
  is_field deploy:prod .state held || lk acquire --key deploy:prod --ttl 1m --owner me -q >token
}

@test "each example of the manual runs, in their order, and calls its commands under the lock" {
  workshop
  mkdir srv
  local page block fence ran=0
  for page in "$root"/man/*.[17]; do
    echo "=== $page"
    cp "$root/examples/config.toml" lk.toml
    read_blocks "man/${page##*/}" ''
    for block in "${all_blocks[@]}"; do
      ran=$((ran + 1))
      if [[ $block == *redis://* ]]; then
        continue # above
      elif [[ $block == PATH=* ]]; then
        cron_line "$block"
        all_called "$block"
        continue
      fi
      if [[ $block =~ lk\ (status|release).*deploy: ]]; then
        hold_deploy
        fence=$(field deploy:prod .fence)
        block=$(sed -E "s/--fence [0-9]{16}/--fence $fence/" <<<"$block")
      fi
      run_block "$(here "$block")"
    done
    lk release --key deploy:prod --owner me -q || [ $? -eq 1 ]
    run -1 lk status
  done
  [ "$ran" -gt 20 ]
  jq -e '.ran and .released and .child_exit == 0' ended.json
}

@test "each command has a page with an example of its own, and so have settings and stores" {
  local page
  for page in "$root"/man/*; do
    echo "$page"
    read_blocks "man/${page##*/}" ''
  done
}

@test "the settings that the manual shows are good ones, and its examples use them" {
  workshop
  mkdir -p srv/lk
  read_blocks man/lk.conf.5 ''
  local file
  file=$(here "${all_blocks[0]}")
  settings "${file/rediss:\/\/redis.example.com:6380\/2/$PWD/prod.db}"
  echo secret >"$HOME/.config/lk/redis-password"
  chmod 600 "$HOME/.config/lk/redis-password"
  unset LK_STORE
  lk config >effective
  # Each lock and store of the file, and each entry that the page explains but password, which the file has in a file.
  local entry section
  while IFS= read -r section; do
    grep -q "^$section" effective
  done < <(sed -nE 's/^\[(stores|locks)\.(.*)\]$/\1.\2./p' <<<"$file")
  for entry in url password_file prefix key note min_hold busy_exit store ttl wait max_waiting kill_after on_lost; do
    grep -Eq "^(stores|locks)\.[a-z_]+\.$entry " effective
  done
  mkdir -p srv/lk
  all_blocks=("${all_blocks[@]:1}")
  lk acquire --lock shipment_dispatch --with shipment=8 -q >token
  local block
  for block in "${all_blocks[@]}"; do
    run_block "$block" >said
    cat said
  done
  grep -q 'shipment_dispatch:8' said
}

@test "the manual's case over the status of an import tells what it says" {
  workshop
  read_blocks man/lk-exec.1 ''
  local block import=
  for block in "${all_blocks[@]}"; do
    [[ $block != *'case $?'* ]] || import=$block
  done
  run -0 bash -c "$import"
  [ "$output" = imported ]
  printf '#!/bin/sh\nexit 1\n' >import
  run -0 bash -c "$import"
  [ "$output" = 'the import failed' ]
  printf '#!/bin/sh\nlk release --force --yes\n' >import
  run -0 --separate-stderr bash -c "$import"
  [ "$output" = 'the lock was lost half-way' ]
  lk acquire --key import --owner me -q >token
  run -0 --separate-stderr bash -c "$import"
  [ "$output" = 'somebody else is at it' ]
}

@test "the manual's script ends where its lock cannot be had" {
  workshop
  lk acquire --key migrate --ttl 1m -q >token
  local page block migrate
  for page in lk.1 lk-block.1; do
    read_blocks "man/$page" ''
    migrate=
    for block in "${all_blocks[@]}"; do
      [[ $block != *eval* ]] || migrate=${block//--wait 5m/--wait 0}
    done
    run -75 bash -c "$migrate"
  done
  [ ! -s calls ]
}

@test "the JSON that the manual shows has the fields that --status-fd writes" {
  workshop
  lk exec --key k --status-fd 3 -- true 3>line
  diff <(tr -d '\n' < <(sed -n '/^{"v"/,/}$/p' "$root/man/lk-exec.1") | sed 's/\\&//g' | jq -r keys_unsorted[]) \
    <(jq -r keys_unsorted[] line)
}

@test "the manual names what status --json and acquire --output json have" {
  workshop
  lk acquire --key k --ttl 1m --output json >granted
  lk block --key k --wait 1m >waited 3>&- &
  wait_until 20 is_field k .waiting 1
  lk status --json k >states
  json=$(sed -n '/^\.SH JSON/,/^\.SH EXIT/p' "$root/man/lk-status.1")
  diff <(sed -nE 's/^\.IR? //p' <<<"$json" | sed '/^_ms$/d; s/ ", " /\n/g' | sort) <(jq -r '.[0] | keys[]' states | sort)
  for name in $(jq -r '.[0].line[0] | keys[]' states); do
    grep -Eq "(^|[ :])${name}[, ]" <<<"$json"
  done
  for name in $(jq -r 'keys[]' granted); do
    grep -Eq "object with .*\b$name\b" "$root/man/lk-acquire.1"
  done
}

@test "the manual is well-formed" {
  command -v mandoc >"$BATS_TEST_TMPDIR/mandoc" || skip "there is no mandoc"
  mandoc -T lint -W warning "$root"/man/*
}

@test "no line of the manual is wider than 80 columns" {
  command -v mandoc >"$BATS_TEST_TMPDIR/mandoc" || skip "there is no mandoc"
  local page
  for page in "$root"/man/*; do
    run ! grep -E '^.{81}' <(mandoc -T utf8 -O width=80 "$page" | sed 's/.\x08//g')
  done
}

@test "man on a terminal of 80 columns has no complaints" {
  command -v tbl >"$BATS_TEST_TMPDIR/tbl" || skip "there is no groff with tables"
  local page
  for page in "$root"/man/*; do
    run -0 --separate-stderr groff -t -man -Tutf8 -rLL=78n -ww "$page"
    [ -z "$stderr" ]
  done
}

# --- Examples and the short page ------------------------------------------------------------------------------------

@test "the example of the settings is a good one" {
  workshop
  lk config --config "$root/examples/config.toml" >effective
  grep -q '^locks.shipment_dispatch.kill_after ' effective
}

@test "the lines of the example for cron run: one job skips its turn, the other runs once" {
  workshop
  settings $'[stores.prod]\nurl = "./prod.db"'
  local lines
  lines=$(cat "$root/examples/sync-mail.cron")
  cron_line "$lines" 'with user'
  all_called "$lines"
  lk acquire --key sync-mail --owner me -q >token
  run -0 cron_line "$lines" 'with user'
  [ -z "$output" ]
  [ "$(wc -l <calls)" -eq 2 ]
}

@test "the units of systemd are good ones" {
  command -v systemd-analyze >analyze || skip "there is no systemd"
  workshop
  mkdir units
  sed "s|^ExecStart=lk |ExecStart=$LK |" "$root/examples/sync-mail.service" >units/sync-mail.service
  cp "$root/examples/sync-mail.timer" units
  [ "$(grep -c "^ExecStart=$LK " units/sync-mail.service)" -eq 1 ]
  run -0 systemd-analyze --man=no verify "$PWD"/units/*
  [ -z "$output" ]
  # What it would start.
  local line
  line=$(sed -n 's/^ExecStart=//p' units/sync-mail.service)
  run_block "$line"
}

@test "each command of the short page is a good one, and its examples run" {
  workshop
  printf '#!/bin/sh\necho ran >>runs\n' >bin/CMD
  chmod +x bin/CMD
  local command block number=0
  while IFS= read -r command; do
    echo "$command"
    [[ $command == *' -- CMD' ]] || command="$(with_help "$command") >help"
    bash -c "$command"
    number=$((number + 1))
  done < <(sed -n '/^|/p' "$root/share/lk/SKILL.md" | grep -oE '`lk [^`]*`' | tr -d '`')
  [ "$number" -ge 10 ]
  [ "$(wc -l <runs)" -eq "$(grep -c '^|.* -- CMD`' "$root/share/lk/SKILL.md")" ]
  lk release --key K --force --yes -q
  read_blocks share/lk/SKILL.md sh
  for block in "${all_blocks[@]}"; do
    run_block "$block"
  done
  run -1 lk status
}

# --- All documents --------------------------------------------------------------------------------------------------

@test "each shell block of CONTRIBUTING names commands that tools/dev has" {
  workshop
  read_blocks CONTRIBUTING.md sh
  local block
  for block in "${all_blocks[@]}"; do
    run_block "$block"
  done
  grep -q '^tools/dev test$' calls
}

@test "manual and changelog are of this version" {
  local version
  version=$(lk --version)
  for page in "$root"/man/*; do
    grep -qF "\"$version\"" "$page"
  done
  grep -qF "## [${version#lk }]" "$root/CHANGELOG.md"
}

@test "ARCHITECTURE has a line for each folder of sources and tests" {
  local folder
  cd "$root"
  for folder in src/*/ tests/*/; do
    echo "$folder"
    grep -qF "\`$folder\`" ARCHITECTURE.md
  done
}

@test "what the documents link to and name as files is there" {
  cd "$root"
  local file document found=0
  for document in README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md; do
    while IFS= read -r file; do
      echo "$document: $file"
      [ -e "$file" ]
      found=$((found + 1))
    done < <(grep -oE '\]\([A-Za-z][^):]*\)|`(src|tests|man|tools)/[a-z_0-9/.]+`' "$document" | tr -d '])(`')
  done
  [ "$found" -gt 10 ]
}
