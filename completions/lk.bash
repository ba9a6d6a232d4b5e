# bash completion of lk. What there is at this moment (keys, owners, stores, locks, parameters) is asked of lk, once.
# shellcheck shell=bash

# All variables begin with lk_: a word like "$key" on the line means the user's own.

# _lk_unquote RAW: lk_text becomes what the shell makes of it, lk_quote the quote that is still open, and lk_base the
# part of lk_text in front of what readline will replace. Fails where only running something could tell.
_lk_unquote() {
  local lk_word=$1 lk_i lk_c lk_piece='' lk_name lk_front=''
  lk_text='' lk_quote='' lk_base=''
  for ((lk_i = 0; lk_i < ${#lk_word}; lk_i++)); do
    lk_c=${lk_word:lk_i:1}
    case $lk_quote$lk_c in
      "''" | '""')
        lk_quote=''
        ;;
      "'"?)
        lk_text+=$lk_c
        ;;
      "$'")
        printf -v lk_piece %b "$lk_piece"
        lk_text+=$lk_piece lk_quote=''
        ;;
      "$\\")
        lk_i=$((lk_i + 1))
        case ${lk_word:lk_i:1} in
          [\'\"]) lk_piece+=${lk_word:lk_i:1} ;;
          *) lk_piece+=\\${lk_word:lk_i:1} ;;
        esac
        ;;
      '$'?)
        lk_piece+=$lk_c
        ;;
      \' | \")
        lk_quote=$lk_c lk_front=$lk_text
        ;;
      "\\" | "\"\\")
        if [[ ! $lk_quote || ${lk_word:lk_i+1:1} == [\$\`\"\\] ]]; then
          lk_i=$((lk_i + 1))
        fi
        lk_text+=${lk_word:lk_i:1}
        ;;
      '$' | '"$')
        if [[ ${lk_word:lk_i} =~ ^\$([A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}) ]]; then
          lk_i=$((lk_i + ${#BASH_REMATCH[1]}))
          lk_name=${BASH_REMATCH[1]#\{}
          lk_name=${lk_name%\}}
          [[ ${!lk_name+set} ]] || return
          lk_text+=${!lk_name}
        elif [[ ! $lk_quote && ${lk_word:lk_i+1:1} == \' ]]; then
          lk_i=$((lk_i + 1))
          lk_quote='$' lk_piece='' lk_front=$lk_text
        elif [[ ${lk_word:lk_i+1:1} == [\(\{\[0-9@*#?!\$-] ]]; then
          return 1
        elif [[ $lk_quote || ${lk_word:lk_i+1:1} != \" ]]; then
          lk_text+=$lk_c
        fi
        ;;
      \` | '"`')
        return 1
        ;;
      *)
        lk_text+=$lk_c
        if [[ ! $lk_quote && ${COMP_WORDBREAKS-} == *"$lk_c"* ]]; then
          lk_base=$lk_text
        fi
        ;;
    esac
  done
  if [[ $lk_quote ]]; then
    lk_base=$lk_front
  fi
  if [[ $lk_quote == '$' ]]; then
    printf -v lk_piece %b "$lk_piece"
    lk_text+=$lk_piece
  fi
}

# The words up to the cursor, put together where readline has cut them at : and =, as they are written: lk_raw. The word
# lk_raw[N] begins at COMP_WORDS[lk_at[N]].
_lk_join() {
  local lk_line=${COMP_LINE-} lk_rest lk_part lk_i lk_blanks=$' \t\n'
  lk_line=${lk_line:0:${COMP_POINT-${#lk_line}}}
  lk_raw=() lk_at=()
  for ((lk_i = 0; lk_i <= COMP_CWORD; lk_i++)); do
    lk_part=${COMP_WORDS[lk_i]-}
    lk_rest=${lk_line#"${lk_line%%[!"$lk_blanks"]*}"}
    if ((lk_i == COMP_CWORD)) && [[ ${COMP_LINE-} ]]; then
      lk_part=$lk_rest
    fi
    if ((lk_i > 0)) && [[ ${COMP_LINE-} && $lk_rest == "$lk_line" ]]; then
      lk_raw[${#lk_raw[@]} - 1]+=$lk_part
    else
      lk_raw+=("$lk_part") lk_at+=("$lk_i")
    fi
    lk_line=${lk_rest#"$lk_part"}
  done
}

# _lk_quoted TEXT: lk_text becomes TEXT in the quote that is open, which readline then closes, unless TEXT ends with it.
_lk_quoted() {
  lk_text=$1
  case $lk_quote in
    \')
      lk_text=${lk_text//\'/"'\\''"}
      case $lk_text in
        *\') lk_text=${lk_text%\'} ;;
      esac
      ;;
    \")
      lk_text=${lk_text//"\\"/"\\\\"}
      lk_text=${lk_text//\"/"\\\""}
      lk_text=${lk_text//\$/"\\\$"}
      lk_text=${lk_text//\`/"\\\`"}
      lk_text=${lk_text//!/"\"\\!\""} # or it would be a word of the history
      case $lk_text in
        *'\!"') lk_text+=\" ;;
        *\") lk_text=${lk_text%??}"\"\\\"" ;;
      esac
      ;;
    '$')
      lk_text=${lk_text//"\\"/"\\\\"}
      lk_text=${lk_text//\'/"\\047"}
      ;;
    *)
      [[ ! $lk_text ]] || printf -v lk_text %q "$lk_text"
      ;;
  esac
}

# _lk_offer WORD...: those that begin with what is typed. lk_front, the option of a value behind =, stands in front of each.
_lk_offer() {
  local lk_typed=${lk_cur#"$lk_front"} lk_found=("$@") lk_word IFS=/
  if [[ $lk_typed ]]; then
    lk_found=()
    for lk_word; do
      [[ $lk_word != "$lk_typed"* ]] || lk_found+=("$lk_word")
    done
  fi
  lk_found=("${lk_found[@]/#/"$lk_front"}")
  lk_found=("${lk_found[@]#"$lk_base"}")
  if [[ ${lk_found[*]} != *[!A-Za-z0-9_:./@%+=-]* ]]; then
    COMPREPLY+=("${lk_found[@]}")
    return
  fi
  for lk_word in "${lk_found[@]}"; do
    _lk_quoted "$lk_word"
    COMPREPLY+=("$lk_text")
  done
}

# _lk_ask WHAT: lk_answer becomes what there is now, in the store and the settings file that the line names.
_lk_ask() {
  # Split without a loop and without globs; mapfile reads a pipe byte by byte.
  local - IFS=$'\n'
  set -f
  lk_answer=()
  if [[ $lk_known ]]; then
    # shellcheck disable=SC2207
    lk_answer=($(exec "$lk_program" completion --list "$1" "${lk_asks[@]}" 2>/dev/null </dev/null))
  fi
}

# _lk_files PATH [ACTION]: the files that begin so, or what another action of compgen gives.
_lk_files() {
  local lk_files lk_file
  mapfile -t lk_files < <(compgen -A "${2:-file}" -- "$1")
  compopt -o filenames 2>/dev/null
  for lk_file in "${lk_files[@]}"; do
    lk_file=$lk_front$lk_file
    COMPREPLY+=("${lk_file#"$lk_base"}")
  done
}

# The stores of the settings file, and files: lk takes a word without a slash for the name of a store.
_lk_stores() {
  local lk_path=${lk_cur#"$lk_front"} lk_file lk_files
  case $lk_path in
    sqlite:*)
      lk_front+=sqlite:
      _lk_files "${lk_path#sqlite:}"
      return
      ;;
    */* | \~*)
      _lk_files "$lk_path"
      return
      ;;
  esac
  _lk_ask stores
  _lk_offer "${lk_answer[@]}"
  local lk_names=${#COMPREPLY[@]}
  ((lk_names > 0)) || compopt -o filenames 2>/dev/null
  mapfile -t lk_files < <(compgen -f -- "$lk_path")
  for lk_file in "${lk_files[@]}"; do
    if [[ -d $lk_file ]]; then
      lk_text=$lk_front$lk_file/
    else
      lk_text=$lk_front./$lk_file
    fi
    lk_text=${lk_text#"$lk_base"}
    # Beside names readline is not told of files, and quotes none.
    ((lk_names == 0)) || _lk_quoted "$lk_text"
    COMPREPLY+=("$lk_text")
  done
}

# _lk_values OPTION: what the option may be given.
_lk_values() {
  case $1 in
    --color) _lk_offer auto always never ;;
    --config) _lk_files "${lk_cur#"$lk_front"}" ;;
    --list) _lk_offer stores locks parameters keys owners ;;
    --on-lost) _lk_offer term kill warn ;;
    --output) _lk_offer token env json ;;
    --store) _lk_stores ;;
    --wait) _lk_offer forever ;;
    --lock)
      _lk_ask locks
      _lk_offer "${lk_answer[@]}"
      ;;
    --with)
      compopt -o nospace 2>/dev/null
      _lk_ask parameters
      for lk_n in "${lk_answer[@]}"; do
        [[ ${lk_asks[*]} == *"--with=$lk_n="* ]] || _lk_offer "$lk_n="
      done
      ;;
    --key | --owner)
      case $1,$lk_command in
        --key,release | --key,renew | --key,status | --key,completion) _lk_ask keys ;;
        --owner,release | --owner,renew) _lk_ask owners ;;
        *) return ;;
      esac
      _lk_offer "${lk_answer[@]}"
      ;;
  esac
}

# The options of lk_command that can still be given.
_lk_options() {
  local lk_all lk_option lk_lock='--key --lock --with'
  local lk_common='--store --prefix --config -q --quiet -v --verbose -h --help'
  case $lk_command in
    exec)
      lk_all="$lk_lock --ttl --wait --max-waiting --owner --note -E --busy-exit --kill-after --on-lost --min-hold
        --status-fd --nested --raw-key $lk_common --"
      ;;
    acquire) lk_all="$lk_lock --ttl --owner --note --output --raw-key $lk_common" ;;
    block) lk_all="$lk_lock --ttl --wait --max-waiting --owner --note --output --raw-key $lk_common" ;;
    renew) lk_all="$lk_lock --owner --ttl $lk_common" ;;
    release) lk_all="$lk_lock --owner --force --yes --fence $lk_common" ;;
    status) lk_all="$lk_lock --json --watch --held-longer-than --color $lk_common" ;;
    config) lk_all="--color $lk_common" ;;
    completion) lk_all="--list $lk_lock $lk_common" ;;
    help) lk_all='-h --help' ;;
    '') lk_all="--color $lk_common --version" ;;
  esac
  for lk_option in $lk_all; do
    case $lk_option in
      --key | --lock) [[ $lk_given != *' --key '* && $lk_given != *' --lock '* ]] ;;
      --with) [[ $lk_given != *' --key '* ]] ;;
      *) [[ $lk_given != *" $lk_option "* ]] ;;
    esac && _lk_offer "$lk_option"
  done
}

# _lk_of_the_command N: what the shell completes for the command that begins at lk_raw[N].
_lk_of_the_command() {
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "${lk_at[$1]}"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "${lk_at[$1]}"
  elif (($1 < ${#lk_raw[@]} - 1)); then
    compopt -o default 2>/dev/null
  elif _lk_unquote "${lk_raw[$1]}"; then
    _lk_files "$lk_text" command
    _lk_files "$lk_text" directory
  fi
}

# _lk_note OPTION RAW: what a value typed before means for what will be asked.
_lk_note() {
  case $1 in
    --store | --config | --prefix | --lock | --with | --key) ;;
    *) return ;;
  esac
  if _lk_unquote "$2"; then
    lk_asks+=("$1=$lk_text")
  else
    lk_known=''
  fi
}

_lk() {
  local IFS=$' \t\n'
  local lk_raw lk_at lk_text lk_quote lk_base lk_cur lk_front='' lk_answer
  local lk_command='' lk_option='' lk_given=' ' lk_asks=() lk_known=1 lk_dashes='' lk_words=0 lk_program=lk lk_n
  COMPREPLY=()
  _lk_join
  if ((COMP_CWORD > 0)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} =~ ^[0-9]*[\<\>][\<\>\&\|]*$ ]]; then
    compopt -o default 2>/dev/null
    return
  fi
  if _lk_unquote "${lk_raw[0]/#\~\//${HOME-}/}" && [[ $lk_text == */* ]]; then
    lk_program=$lk_text
  fi

  local lk_last=$((${#lk_raw[@]} - 1))
  for ((lk_n = 1; lk_n < lk_last; lk_n++)); do
    _lk_unquote "${lk_raw[lk_n]}" || lk_text=${lk_raw[lk_n]}
    if [[ $lk_dashes ]]; then
      lk_words=$((lk_words + 1))
    elif [[ $lk_text == -- ]]; then
      lk_dashes=1 lk_option=''
      if [[ $lk_command == exec ]]; then
        _lk_of_the_command $((lk_n + 1))
        return
      fi
    elif [[ $lk_option ]]; then
      _lk_note "$lk_option" "${lk_raw[lk_n]/#\~\//${HOME-}/}"
      lk_option=''
    else
      case $lk_text in
        --*=*)
          lk_given+="${lk_text%%=*} "
          _lk_note "${lk_text%%=*}" "${lk_raw[lk_n]#*=}"
          ;;
        --store | --prefix | --config | --color | --key | --lock | --with | --ttl | --wait | --max-waiting | --owner | \
          --note | --busy-exit | --held-longer-than | --kill-after | --on-lost | --min-hold | --status-fd | --output | --fence | --list)
          lk_given+="$lk_text "
          lk_option=$lk_text
          ;;
        -E | -[!-]*E) lk_given+='-E --busy-exit ' lk_option=--busy-exit ;;
        -q | --quiet) lk_given+='-q --quiet ' ;;
        -v | --verbose) lk_given+='-v --verbose ' ;;
        -?*) lk_given+="$lk_text " ;;
        *)
          if [[ $lk_command ]]; then
            lk_words=$((lk_words + 1))
          else
            lk_command=$lk_text
          fi
          ;;
      esac
    fi
  done

  _lk_unquote "${lk_raw[lk_last]}" || return
  lk_cur=$lk_text
  if [[ $lk_option ]]; then
    _lk_values "$lk_option"
  elif [[ ! $lk_dashes && $lk_cur == --*=* ]]; then
    lk_front=${lk_cur%%=*}=
    _lk_values "${lk_cur%%=*}"
  elif [[ ! $lk_dashes && $lk_cur == -* ]]; then
    _lk_options
  else
    case $lk_command in
      '') _lk_offer exec acquire block renew release status config completion help ;;
      help) ((lk_words > 0)) || _lk_offer exec acquire block renew release status config completion help ;;
      completion) ((lk_words > 0)) || _lk_offer bash zsh fish ;;
      status)
        _lk_ask keys
        # A word of status is a pattern.
        for lk_n in "\\" '*' '?' '['; do
          lk_answer=("${lk_answer[@]//"$lk_n"/"\\$lk_n"}")
        done
        _lk_offer "${lk_answer[@]}"
        ;;
      exec)
        # Who has a lock goes on to the command.
        if [[ $lk_given == *' --key '* || $lk_given == *' --lock '* ]]; then
          _lk_offer --
        else
          _lk_options
        fi
        ;;
      *) [[ $lk_dashes ]] || _lk_options ;;
    esac
  fi
}

complete -o nosort -F _lk lk 2>/dev/null || complete -F _lk lk
