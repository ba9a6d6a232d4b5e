#!/usr/bin/env bats
# The completion scripts, in the shells that they are for.

load common

commands=(acquire block completion config exec help release renew status)
shells=(bash zsh fish)
# Readline's "insert all completions", and what is made of it for zsh below.
all_of_bash=$'\e*'
all_of_zsh=$'\x18*'

# The scripts as lk prints them, and shells that start with them: each prompts with READY N>, and leaves the words of its
# lk in the file args. On the path there is the real one, for the scripts.
workshop() {
  mkdir bin zsh
  ln -s "$LK" bin/lk
  PATH=$PWD/bin:$PATH
  export LC_ALL=C.UTF-8 TERM=xterm ZDOTDIR=$PWD/zsh
  lk completion bash >lk.bash
  lk completion zsh >zsh/_lk
  lk completion fish >lk.fish

  cat >rc.bash <<'RC'
PS1='READY $n> ' n=0
source /usr/share/bash-completion/bash_completion
source ./lk.bash
lk() { n=$((n + 1)); local IFS='|'; echo "$*" >args.new; command mv args.new args; }
RC
  cat >zsh/.zshrc <<'RC'
setopt prompt_subst
PS1='READY $n> ' n=0
fpath=($ZDOTDIR $fpath)
autoload -U compinit && compinit -u -d $ZDOTDIR/dump
zle -C all-matches complete-word _generic
bindkey '^X*' all-matches
zstyle ':completion:all-matches::::' completer _all_matches _complete
zstyle ':completion:all-matches:*' insert true
lk() { n=$((n + 1)); print -r -- "${(j:|:)@}" >args.new; command mv args.new args }
RC
  cat >rc.fish <<'RC'
set fish_greeting
set -g n 0
function fish_prompt; echo -n "READY $n> "; end
source lk.fish
function lk; set n (math $n + 1); string join '|' -- $argv >args.new; command mv args.new args; end
RC

  # complete.bash LINE: what the function offers at the end of a line without quotes, one a line.
  cat >complete.bash <<'SCRIPT'
source ./lk.bash
COMP_LINE=$1 COMP_POINT=${#1}
line=${1//:/ : }
read -ra COMP_WORDS <<<"${line//=/ = }"
[[ $1 != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_lk lk "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
for word in "${COMPREPLY[@]}"; do
  eval "printf '%s\n' $word"
done
SCRIPT
}

# typed SHELL [OPTION...] LINE...: the words of lk for each line as it is typed, separated by |.
typed() {
  local words
  case $1 in
    bash) words=(bash --noprofile --rcfile rc.bash -i) ;;
    zsh) words=(zsh -i) ;;
    fish) words=(fish --init-command 'source rc.fish' -i) ;;
  esac
  python3 "$BATS_TEST_DIRNAME/../support/typed.py" "${@:2}" -- "${words[@]}"
}

# words_of SHELL LINE: all that is offered at the end of a line without quotes, one a line.
words_of() {
  local words
  case $1 in
    bash) bash --noprofile --norc complete.bash "$2" ;;
    zsh)
      words=$(typed zsh "$2$all_of_zsh")
      # Without those that were there, but for the one that was completed.
      read -ra before <<<"${2% *}"
      tr '|' '\n' <<<"$words" | tail -n "+${#before[@]}"
      ;;
    fish) fish -c 'source lk.fish; complete -C $argv[1]' -- "$2" | cut -f 1 ;;
  esac
}

# offers SHELL LINE WORD...: exactly these words, in any order, and nothing on stderr.
offers() {
  local shell=$1 line=$2 expected
  shift 2
  expected=$(printf '%s\n' "$@" | sort)
  run --separate-stderr words_of "$shell" "$line"
  echo "$shell: $line: $status: $output: $stderr"
  [ "$status" -eq 0 ] && [ -z "$stderr" ] && [ "$(sort <<<"$output")" = "$expected" ]
}

@test "lk completion prints exactly the scripts, and each shell can read its own" {
  for pair in bash:lk.bash zsh:_lk fish:lk.fish; do
    lk completion "${pair%:*}" >script
    cmp script "$BATS_TEST_DIRNAME/../../completions/${pair#*:}"
    run -0 --separate-stderr "${pair%:*}" -n script
    [ -z "$output$stderr" ]
  done
}

@test "commands, and what help and completion take" {
  workshop
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk ' "${commands[@]}"
    offers "$shell" 'lk re' release renew
    offers "$shell" 'lk -q --color never re' release renew
    offers "$shell" 'lk help ' "${commands[@]}"
    offers "$shell" 'lk help sta' status
    offers "$shell" 'lk completion ' bash zsh fish
  done
}

@test "the options of each command are those of its help" {
  workshop
  for command in "${commands[@]}"; do
    mapfile -t options < <(lk "$command" --help | sed -nE 's/^  (-., )?(--[a-z-]+)( .*|$)/\2/p')
    [ "${#options[@]}" -gt 0 ]
    for shell in "${shells[@]}"; do
      run -0 --separate-stderr words_of "$shell" "lk $command --"
      echo "$shell: $command: $output: $stderr"
      [ -z "$stderr" ]
      # `lk exec --` may also be meant as it is; zsh shows that an option takes its value behind =.
      [ "$(sed -e 's/=$//' -e '/^--$/d' <<<"$output" | sort)" = "$(printf '%s\n' "${options[@]}" | sort)" ]
    done
  done
  for shell in "${shells[@]}"; do
    run -0 words_of "$shell" 'lk --'
    [ "$(tr -d = <<<"$output" | sort | paste -sd' ')" = '--color --config --help --prefix --quiet --store --verbose --version' ]
    run -0 words_of "$shell" 'lk exec -'
    for short in E h q v; do
      grep -qx -- "-$short" <<<"$output"
    done
  done
}

@test "zsh and fish say what each option and command does" {
  workshop
  for command in "${commands[@]}"; do
    run -0 fish -c 'source lk.fish; complete -C $argv' -- "lk $command -"
    [ "${#lines[@]}" -gt 1 ]
    for line in "${lines[@]}"; do
      [[ $line =~ ^-[^$'\t']+$'\t'.+ ]]
    done
  done
  run -0 fish -c 'source lk.fish; complete -C "lk "'
  [ "$(grep -cP '\t.' <<<"$output")" -eq "${#commands[@]}" ]
  run -0 typed zsh --see '-- run under the lock if a parent exec holds it' $'lk exec --\t'
  run -0 typed zsh --see '-- Prolong a lock that is still held' $'lk \t'
}

@test "values that are words of a list" {
  workshop
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk exec --on-lost ' term kill warn
    offers "$shell" 'lk exec -qE 5 --on-lost w' warn
    offers "$shell" 'lk status --color ' auto always never
    offers "$shell" 'lk acquire --output ' token env json
    offers "$shell" 'lk block --wait ' forever
    offers "$shell" 'lk completion --list ' stores locks parameters keys owners
  done
  typing=()
  for option in --ttl --note --prefix --max-waiting --kill-after --min-hold --status-fd --busy-exit --owner --key; do
    offers bash "lk exec $option "
    offers fish "lk exec $option "
    typing+=("lk exec $option $all_of_zsh")
    expected+=("exec|$option")
  done
  run -0 typed zsh "${typing[@]}"
  [ "$output" = "$(printf '%s\n' "${expected[@]}")" ]
  run -0 typed bash $'lk exec --on-lost=w\t'
  [ "$output" = 'exec|--on-lost=warn' ]
  run -0 typed zsh $'lk exec --on-lost=w\t'
  [ "$output" = 'exec|--on-lost=warn' ]
  run -0 typed fish $'lk exec --on-lost=w\t'
  [ "$output" = 'exec|--on-lost=warn' ]
}

# Whatever a shell might take for something else.
odd_keys=('a:b' 'a:c' 'two words' 'größe' "it's" 'x"y' 'pay$day' 'back\slash' 'a*b' '~home' '#1' 'last!' 'p@q' 'k=v' '{x,y}' '`id`'
  "fin'" 'stop"' 'wow!"' '(;&)' '*')

take_odd_keys() {
  for key in "${odd_keys[@]}"; do
    lk acquire --key "$key" --ttl 1h --owner "owner of $key" >token
  done
}

@test "--key: the keys that are held, whatever is in them" {
  workshop
  for store in $stores; do
    fresh_store "$store"
    take_odd_keys
    for command in release renew status completion; do
      offers fish "lk $command --key " "${odd_keys[@]}"
    done
    for shell in bash zsh; do
      for command in release renew status completion; do
        offers "$shell" "lk $command --key " "${odd_keys[@]}"
      done
    done
    # All of them put into the line at once are the words that lk gets.
    for pair in bash:"$all_of_bash" zsh:"$all_of_zsh"; do
      run -0 typed "${pair%%:*}" "lk release --key ${pair#*:}"
      [ "$(tr '|' '\n' <<<"$output" | tail -n +3 | sort)" = "$(printf '%s\n' "${odd_keys[@]}" | sort)" ]
    done
  done
}

@test "--key: each key is completed from its first letters, in any quotes" {
  workshop
  fresh_store sqlite
  take_odd_keys
  for quote in '' "'" '"' "$'"; do
    for shell in "${shells[@]}"; do
      [ "$shell$quote" != "fish$'" ] || continue
      typing=() expected=()
      for start in tw:'two words' gr:größe it:"it's" x:'x"y' pay:'pay$day' back:'back\slash' last:'last!' p@:'p@q' k:'k=v' \
        fin:"fin'" stop:'stop"' wow:'wow!"'; do
        typing+=("lk release --key $quote${start%%:*}"$'\t')
        expected+=("release|--key|${start#*:}")
      done
      run -0 typed "$shell" "${typing[@]}"
      echo "$shell $quote: $output"
      [ "$output" = "$(printf '%s\n' "${expected[@]}")" ]
    done
  done
}

@test "a colon in a key, with and without readline's cut at it" {
  workshop
  fresh_store sqlite
  for key in a:b 'a:c d' invoice:42; do
    lk acquire --key "$key" --ttl 1h >token
  done
  typing=($'lk release --key in\t' $'lk release --key invoice:\t' $'lk release --key invoice:4\t' $'lk release --key=invoice:4\t'
    $'lk release --key a:c\t' $'lk release --key "a:c\t' $'lk release --key=\'a:c\t' $'lk release --key a\\:c\t'
    $'lk release --key a:"c\t' $'lk status a:c\t' $'lk status -- a:c\t')
  words=('release|--key|invoice:42' 'release|--key|invoice:42' 'release|--key|invoice:42' 'release|--key=invoice:42'
    'release|--key|a:c d' 'release|--key|a:c d' 'release|--key=a:c d' 'release|--key|a:c d'
    'release|--key|a:c d' 'status|a:c d' 'status|--|a:c d')
  for shell in bash zsh; do
    run -0 typed "$shell" "${typing[@]}"
    echo "$shell: $output $stderr"
    [ "$output" = "$(printf '%s\n' "${words[@]}")" ]
  done
  # shellcheck disable=SC2016
  echo 'COMP_WORDBREAKS=${COMP_WORDBREAKS//:}' >>rc.bash
  run -0 typed bash "${typing[@]}"
  [ "$output" = "$(printf '%s\n' "${words[@]}")" ]
  # fish closes no quote in the middle of a word.
  unset 'typing[8]' 'words[8]'
  run -0 typed fish "${typing[@]}"
  echo "$output"
  [ "$output" = "$(printf '%s\n' "${words[@]}")" ]

  offers bash 'lk release --key a:' b 'c d'
}

@test "--owner: the token of the key before it" {
  workshop
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key a:b --ttl 1h --owner 'worker 7' >token
    lk acquire --key "it's two" --ttl 1h --owner other >token
    uuid=$(lk acquire --key uuid --ttl 1h)
    for shell in "${shells[@]}"; do
      for command in release renew; do
        offers "$shell" "lk $command --key uuid --owner " "$uuid"
        offers "$shell" "lk $command --key=uuid --owner ${uuid:0:3}" "$uuid"
        offers "$shell" "lk $command --key free --owner "
        offers "$shell" "lk $command --owner "
        LK_KEY=uuid offers "$shell" "lk $command --owner " "$uuid"
      done
      run -0 typed "$shell" $'lk release --key a:b --owner \t' $'lk release --key "it\'s two" --owner=\t' \
        $'lk renew --key it\\\'s\\ two -q --owner o\t' $'lk renew -v --key \'a:b\' --owner w\t'
      echo "$shell: $output $stderr"
      [ "${lines[0]}" = 'release|--key|a:b|--owner|worker 7' ]
      [ "${lines[1]}" = "release|--key|it's two|--owner=other" ]
      [ "${lines[2]}" = "renew|--key|it's two|-q|--owner|other" ]
      [ "${lines[3]}" = 'renew|-v|--key|a:b|--owner|worker 7' ]
    done
  done
}

# Two stores and some locks in a settings file. The store "here" has the lock k of the owner "me".
settle() {
  fresh_store sqlite
  here=$LK_STORE
  unset LK_STORE
  cat >lk.toml <<SETTINGS
[defaults]
store = "far"
[stores.here]
url = "$here"
[stores.far]
url = "$PWD/nowhere/far.db"
[locks.shipment]
key = "shipment:{id}:{day}"
[locks.small]
key = "k"
store = "here"
SETTINGS
  lk acquire --store "$here" --key k --ttl 1h --owner me >token
  lk acquire --store "$here" --key shipment:7:mon --ttl 1h --owner carrier >token
}

@test "--store and --config: names of the settings file, and files and folders as lk takes them" {
  workshop
  settle
  export LK_CONFIG=lk.toml
  mkdir zz-folder data
  touch zz-locks.db data/other.db 'data/my locks.db' home/at-home.db far-away
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk status --store her' here
    run -0 words_of "$shell" 'lk status --store '
    echo "$shell: $output"
    for word in far here 'data/*' 'zz-folder/*'; do
      grep -qx "$word" <<<"$output"
    done
    run -0 typed "$shell" $'lk status --store data/o\t' $'lk status --store=data/o\t' $'lk status --store sqlite:data/o\t' \
      $'lk status --store data/m\t' $'lk status --store "data/m\t' $'lk status --store ~/at-\t' \
      $'lk status --config data/m\t' $'lk exec --config=data/o\t' $'lk status --store zz-f\tx'
    echo "$shell: $output $stderr"
    expected=(status\|--store\|data/other.db status\|--store=data/other.db status\|--store\|sqlite:data/other.db
      'status|--store|data/my locks.db' 'status|--store|data/my locks.db' "status|--store|$HOME/at-home.db"
      'status|--config|data/my locks.db' exec\|--config=data/other.db status\|--store\|zz-folder/x)
    [ "$output" = "$(printf '%s\n' "${expected[@]}")" ]
  done
  # Without a slash it would be the name of a store.
  offers bash 'lk status --store zz-' ./zz-locks.db zz-folder/
  offers zsh 'lk status --store zz-' ./zz-locks.db zz-folder
  for shell in bash zsh; do
    offers "$shell" 'lk status --store far' far ./far-away
    run -0 typed "$shell" $'lk status --store zz-l\t' $'lk status --store="zz-l\t'
    [ "$output" = $'status|--store|./zz-locks.db\nstatus|--store=./zz-locks.db' ]
  done
}

@test "--lock and --with: the locks of the settings file and their parameters" {
  workshop
  settle
  printf '[locks.another]\nkey = "x"\n' >other.toml
  for shell in "${shells[@]}"; do
    for command in exec acquire block renew release status; do
      LK_CONFIG=lk.toml offers "$shell" "lk $command --lock " shipment small
    done
    offers "$shell" 'lk exec --config lk.toml --lock sm' small
    offers "$shell" 'lk exec --config=other.toml --lock ' another
    offers "$shell" 'lk --config lk.toml exec --lock shipment --with ' id= day=
    offers "$shell" 'lk exec --config lk.toml --lock shipment --with id=7 --with ' day=
    offers "$shell" 'lk exec --config lk.toml --lock small --with '
    offers "$shell" 'lk exec --config lk.toml --with '
    offers "$shell" 'lk exec --config missing.toml --lock '
    LK_CONFIG=lk.toml offers "$shell" 'lk release --lock small --owner ' me
    LK_CONFIG=lk.toml offers "$shell" 'lk release --store here --lock shipment --with id=7 --with=day=mon --owner ' carrier
    LK_CONFIG=lk.toml offers "$shell" 'lk release --store here --lock shipment --with id=7 --owner '
    LK_CONFIG=lk.toml run -0 typed "$shell" $'lk acquire --lock sh\t--with i\t7 --with=d\tmon'
    echo "$shell: $output"
    [ "$output" = 'acquire|--lock|shipment|--with|id=7|--with=day=mon' ]
  done
}

@test "what is typed before says which store is asked" {
  workshop
  settle
  export LK_CONFIG=lk.toml place=here
  mkdir 'a folder'
  lk acquire --store './a folder/locks.db' --key elsewhere --ttl 1h >token
  lk acquire --store "$HOME/locks.db" --key at-home --ttl 1h >token
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk release --key '
    offers "$shell" 'lk release --store here --key ' k shipment:7:mon
    offers "$shell" 'lk release --store=here --key ship' shipment:7:mon
    offers "$shell" "lk --store $here status k" k
    run -0 typed "$shell" $'lk status --store ~/locks.db a\t' $'lk status --store ./~/locks.db a\t' $'lk status --store=~/locks.db a\t'
    [ "${lines[0]}" = "status|--store|$HOME/locks.db|at-home" ]
    [ "${lines[1]}" = 'status|--store|./~/locks.db|a' ]
    [ "${lines[2]}" = 'status|--store=~/locks.db|a' ]
    run -0 typed "$shell" $'lk -v --store "./a folder/locks.db" release --key e\t' $'lk status --store=./a\\ folder/locks.db e\t' \
      $'lk renew --store \'./a folder/locks.db\' --key e\t--owner='
    [ "${lines[0]}" = '-v|--store|./a folder/locks.db|release|--key|elsewhere' ]
    [ "${lines[1]}" = 'status|--store=./a folder/locks.db|elsewhere' ]
    [ "${lines[2]}" = 'renew|--store|./a folder/locks.db|--key|elsewhere|--owner=' ]
  done
  for shell in bash zsh; do
    # shellcheck disable=SC2016
    run -0 typed "$shell" $'lk release --store $place --key sh\t' $'lk release --store "${place}" --key sh\t' \
      $'lk release --store \'$place\' --key sh\t' $'lk release --store $nothing --key sh\t'
    [ "${lines[0]}" = 'release|--store|here|--key|shipment:7:mon' ]
    [ "${lines[1]}" = 'release|--store|here|--key|shipment:7:mon' ]
    # shellcheck disable=SC2016
    [ "${lines[2]}" = 'release|--store|$place|--key|sh' ]
    [[ ${lines[3]} == *'--key|sh' ]]
  done
}

@test "nothing on the line is run to find out what it means" {
  workshop
  fresh_store sqlite
  lk acquire --key k --ttl 1h >token
  lk acquire --key '$(touch ran)' --ttl 1h --owner '`touch ran`' >token
  for shell in "${shells[@]}"; do
    # The line is thrown away: what it asks for would be done.
    typing=()
    for word in '$(touch ran)' '"$(touch ran)"' '`touch ran`' '"x`touch ran`"' '${x:=$(touch ran)}' '(touch ran)' '$((x[$(touch ran)]))'; do
      typing+=("lk release --store $word --key "$'\t\x15lk'" release --store=$word --key "$'\t\x15lk gone')
      # zsh itself expands what it is asked to complete.
      [ "$shell" = zsh ] || typing+=("lk release --key $word"$'\t\x15lk'" status --store=$word"$'\t\x15lk gone')
    done
    run -0 typed "$shell" "${typing[@]}" $'lk release --key \'$(to\t--owner \t'
    echo "$shell: $output $stderr"
    [ "${#lines[@]}" -eq $((${#typing[@]} + 1)) ]
    for n in "${!typing[@]}"; do
      [ "${lines[n]}" = gone ]
    done
    [ "${lines[-1]}" = 'release|--key|$(touch ran)|--owner|`touch ran`' ]
    [ ! -e ran ]
  done
}

@test "a store that is away has no words, and nobody says so" {
  workshop
  echo 'this is no database, whatever else it may be' >corrupt.db
  echo 'this is no settings file' >bad.toml
  cat >silent.py <<'SERVER'
import socket, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(600)
SERVER
  python3 silent.py >port 3>&- &
  wait_until 20 test -s port
  for address in ./missing/locks.db ./corrupt.db redis://127.0.0.1:1 "redis://127.0.0.1:$(cat port)" redis://nobody.invalid no-such-store ''; do
    export LK_STORE=$address
    for shell in "${shells[@]}"; do
      offers "$shell" 'lk release --key '
      run -0 typed "$shell" --screen screen $'lk status \t' $'lk renew --key k\t --owner \t'
      [ "$output" = $'status\nrenew|--key|k|--owner' ]
      run -1 grep -a 'lk: ' screen
    done
  done
  [ ! -e missing ]
  unset LK_STORE
  export LK_CONFIG=bad.toml
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk release --lock '
    run -0 typed "$shell" --screen screen $'lk renew --lock k\t --with \t'
    run -1 grep -a 'lk: ' screen
  done
  rm bin/lk
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk rel' release
    offers "$shell" 'lk release --key '
  done
}

@test "keys and tokens that lk itself would refuse are not offered" {
  workshop
  fresh_store sqlite
  for key in good two token; do
    lk acquire --key "$key" --ttl 1h --owner me >token
  done
  sqlite3 "$LK_STORE" "UPDATE holder SET key = 'two' || char(10) || 'lines' WHERE key = 'two';
    UPDATE holder SET owner = 'a' || char(10) || 'b' WHERE key = 'token';"
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk release --key ' good token
    offers "$shell" 'lk release --key token --owner '
    offers "$shell" 'lk release --key good --owner ' me
  done
}

@test "a word of status is a pattern: what means more than itself is escaped" {
  workshop
  fresh_store sqlite
  for key in 'a*' 'b?' 'c[1]' 'd\e' plain; do
    lk acquire --key "$key" --ttl 1h >token
  done
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk status ' 'a\*' 'b\?' 'c\[1]' 'd\\e' plain
    offers "$shell" 'lk status --json plain p' plain
    run -0 typed "$shell" $'lk status a\t' $'lk status \'b\t' $'lk status c\t' $'lk status "d\t'
    [ "$output" = 'status|a\*
status|b\?
status|c\[1]
status|d\\e' ]
  done
}

@test "after --: the command, and what the shell completes for it" {
  workshop
  fresh_store sqlite
  lk acquire --key a:b --ttl 1h >token
  printf '#!/bin/sh\n' >bin/guarded-command
  chmod +x bin/guarded-command
  echo 'complete -W "alpha --beta" guarded-command' >>rc.bash
  # shellcheck disable=SC2016
  echo 'compdef "compadd -- alpha --beta" guarded-command' >>zsh/.zshrc
  echo 'complete -c guarded-command -f -a "alpha --beta"' >>rc.fish
  for shell in "${shells[@]}"; do
    offers "$shell" 'lk exec --key k ' --
    # fish adds no blank to a word that ends with a dash.
    after=
    [ "$shell" != fish ] || after=' '
    run -0 typed "$shell" $'lk exec --key a:b -- guarded-c\tal\t' $'lk exec --note "a -- b" --key k \t'"$after"$'guarded-c\t--b\t' \
      $'lk exec -q --key=a:b -- lk release --key a:\t' $'lk exec --key "a:b" -- guarded-command --ke\t' \
      $'lk exec --key k -- lk exec --key k -- guarded-command al\t'
    echo "$shell: $output $stderr"
    [ "${lines[0]}" = 'exec|--key|a:b|--|guarded-command|alpha' ]
    [ "${lines[1]}" = 'exec|--note|a -- b|--key|k|--|guarded-command|--beta' ]
    [ "${lines[2]}" = 'exec|-q|--key=a:b|--|lk|release|--key|a:b' ]
    [ "${lines[3]}" = 'exec|--key|a:b|--|guarded-command|--ke' ]
    [ "${lines[4]}" = 'exec|--key|k|--|lk|exec|--key|k|--|guarded-command|alpha' ]
  done
  # Without bash-completion: commands and files.
  sed -i '/bash-completion/d' rc.bash
  touch 'a file'
  run -0 typed bash $'lk exec --key a:b -- guarded-c\ta\\ \t'
  echo "$output"
  [ "$output" = 'exec|--key|a:b|--|guarded-command|a file' ]
}

@test "shells with unusual options, and scripts that are read by hand" {
  workshop
  fresh_store sqlite
  lk acquire --key 'a:b c' --ttl 1h --owner me >token
  typing=($'lk rele\t--ke\ta:\t--ow\t\t' $'lk exec --key k \tec\t')
  echo 'set -u; shopt -s failglob nocasematch dotglob; IFS=el; set -o posix' >>rc.bash
  echo 'setopt nounset sh_word_split ksh_arrays ksh_glob no_glob; IFS=el' >>zsh/.zshrc
  for shell in bash zsh; do
    run -0 typed "$shell" --screen screen "${typing[@]}"
    echo "$shell: $output $stderr"
    # zsh offers to write --key=…
    [ "${output//=/|}" = $'release|--key|a:b c|--owner|me\nexec|--key|k|--|echo' ]
  done
  rm zsh/_lk
  echo 'autoload -U compinit; compinit -u -D; source <(command lk completion zsh)' >>zsh/.zshrc
  run -0 typed zsh --screen screen "${typing[@]}"
  echo "$output"; cat screen
  [ "${output//=/|}" = $'release|--key|a:b c|--owner|me\nexec|--key|k|--|echo' ]
  # Before compinit there is nothing to tell of it.
  run -0 --separate-stderr zsh -f -c 'source =(lk completion zsh)'
  [ -z "$output$stderr" ]
}
