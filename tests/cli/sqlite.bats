#!/usr/bin/env bats
# The SQLite store: where its file lies, who may use it, what it survives, and which clock counts.

load common
load guarded
load worlds

setup_file() {
  export LC_ALL=C.UTF-8
}

# refused STATUS PATTERN WORDS...: one line on stderr that matches, and nothing on stdout.
refused() {
  local expected=$1 pattern=$2
  shift 2
  run "-$expected" --separate-stderr "$@"
  echo "$*: $stderr"
  [ -z "$output" ] && [ "${#stderr_lines[@]}" -eq 1 ] && [[ $stderr =~ $pattern ]]
}

mode_of() { stat -c %a "$1"; }

# All of the file's content in the file itself, none in its log.
without_log() {
  sqlite3 "$LK_STORE" 'PRAGMA wal_checkpoint(TRUNCATE)' >checkpoint
}

# --- The file ---------------------------------------------------------------------------------------------------------

@test "the file comes into being with its folders, for this user alone, whatever the umask" {
  for mask in 000 022 077; do
    umask "$mask"
    export LK_STORE="$BATS_TEST_TMPDIR/$mask/a/b/locks.db"
    run -0 lk acquire --key k --ttl 60
    umask 022
    [ "$(mode_of "$BATS_TEST_TMPDIR/$mask")" = 700 ]
    [ "$(mode_of "$BATS_TEST_TMPDIR/$mask/a/b")" = 700 ]
    [ "$(mode_of "$LK_STORE")" = 600 ]
    [ "$(mode_of "$LK_STORE-wal")" = 600 ]
    [ "$(mode_of "$LK_STORE-shm")" = 600 ]
  done
}

@test "what it is can be told from outside: its application id, its version, its log" {
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  [ "$(look 'PRAGMA application_id')" -ne 0 ]
  [ "$(look 'PRAGMA user_version')" -ge 1 ]
  [ "$(look 'PRAGMA journal_mode')" = wal ]
}

@test "a path and its sqlite: form are one store, from any folder; LK_STORE in the command is absolute" {
  mkdir sub
  lk acquire --store sqlite:sub/locks.db --key k --ttl 60 >token
  run -75 lk acquire --store "$PWD/sub/locks.db" --key k
  (cd sub && run -75 lk acquire --store ./locks.db --key k)
  cd sub
  [ "$(lk exec --store ./locks.db --key j -- sh -c 'echo "$LK_STORE"')" = "$PWD/locks.db" ]
  [ "$(lk exec --store sqlite:../sub/locks.db --key j -- sh -c 'echo "$LK_STORE"')" = "$PWD/locks.db" ]
  # The command may change folder: it is the same store.
  run -75 lk exec --store ./locks.db --key j -- sh -c 'cd / && "$LK" acquire --key k'
}

@test "a link and the file it leads to are one store" {
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  ln -s "$LK_STORE" link.db
  run -75 lk acquire --store ./link.db --key k
  # The release through one name wakes the waiter of the other.
  "$LK" block --store ./link.db --key k --ttl 60 >token.2 3>&- &
  waiter=$!
  wait_until 10 is_field k .waiting 1
  lk release --key k --owner "$(cat token)"
  ends_with 0 "$waiter"
  is_field k .owner "$(cat token.2)"
}

@test "a link that leads nowhere yet is where the file will be" {
  mkdir elsewhere
  ln -s "$PWD/elsewhere/real.db" dangling.db
  lk acquire --store ./dangling.db --key k --ttl 60 >token
  [ -f elsewhere/real.db ]
  run -75 lk acquire --store ./elsewhere/real.db --key k
}

@test "an odd path is no address: blanks, quotes, question marks, percent signs, hashes" {
  for name in 'a b' "it's" 'q?mode=ro' 'p%41' 'h#f' 'ü' 'x"y' ':memory:'; do
    export LK_STORE="$BATS_TEST_TMPDIR/$name.db"
    run -0 lk acquire --key k --ttl 60
    [ -f "$LK_STORE" ]
    run -75 lk exec --key k -- true
  done
}

@test "no bytes at all are an empty store" { # S11
  fresh_store sqlite
  : >"$LK_STORE"
  run -1 lk status k
  [ ! -s "$LK_STORE" ]
  run -0 lk acquire --key k --ttl 60
  run -75 lk acquire --key k
  is_sound
}

@test "another program's database is refused, and left as it was" { # S11
  fresh_store sqlite
  sqlite3 "$LK_STORE" 'CREATE TABLE other(x); INSERT INTO other VALUES (1)'
  cp "$LK_STORE" before
  for words in 'acquire --key k' 'status' 'exec --key k -- true' 'release --key k --owner me'; do
    # shellcheck disable=SC2086
    refused 69 'locks\.db is the database of another program; ' lk $words
  done
  cmp "$LK_STORE" before
  [ ! -e "$LK_STORE-wal" ]
}

@test "a file of the first schema is brought up to date by whoever comes first, and its locks stay" {
  fresh_store sqlite
  lk acquire --key k --ttl 600 >token
  version=$(look 'PRAGMA user_version')
  sqlite3 "$LK_STORE" 'DROP INDEX line; ALTER TABLE store DROP COLUMN grants; PRAGMA user_version = 1'
  run -75 lk exec --key k -- touch ran
  [ ! -e ran ]
  [ "$(look 'PRAGMA user_version')" -eq "$version" ]
  is_sound
  lk exec --key j -- true
  run -0 lk release --key k --owner "$(cat token)"
}

@test "a file of a newer lk is refused, and left as it was" { # S17
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  sqlite3 "$LK_STORE" 'PRAGMA user_version = 9999'
  cp "$LK_STORE" before
  for words in 'acquire --key j' 'status' 'exec --key j -- true'; do
    # shellcheck disable=SC2086
    refused 69 'locks\.db was written by a newer lk .*; update lk(;|$)' lk $words
  done
  cmp "$LK_STORE" before
}

@test "what is no database is refused, and left as it was" { # S10
  fresh_store sqlite
  head -c 4096 /dev/urandom >"$LK_STORE"
  cp "$LK_STORE" before
  for words in 'acquire --key k' 'status' 'exec --key k -- true' 'release --key k --force --yes'; do
    # shellcheck disable=SC2086
    refused 69 "^lk: $LK_STORE is not a database; nothing was changed" lk $words
    cmp "$LK_STORE" before
  done
  for short in hello x; do
    printf %s "$short" >"$LK_STORE"
    for words in 'acquire --key k' 'status' 'exec --key k -- true'; do
      # shellcheck disable=SC2086
      refused 69 "^lk: $LK_STORE is not a database; nothing was changed" lk $words
    done
    [ "$(cat "$LK_STORE")" = "$short" ]
  done
  rm "$LK_STORE"
  ln -s "$LK_STORE" "$LK_STORE"
  refused 69 "^lk: cannot open $LK_STORE: Too many levels of symbolic links" lk acquire --key k
}

@test "a file that was cut short or overwritten in part is trouble, never a free lock, and left as it was" { # S10
  fresh_store sqlite
  for n in {1..40}; do
    lk acquire --key "k$n" --ttl 600 --note "$(printf '%0200d' "$n")"
  done >tokens
  without_log
  cp "$LK_STORE" good
  size=$(stat -c %s good)
  page=$(look 'PRAGMA page_size')
  damaged() {
    cp good damaged
    "$@"
    rm -f "$LK_STORE"-*
    cp damaged "$LK_STORE"
    # Either the damage is met and told, or the lock is seen as it is.
    for words in 'acquire --key k20' 'status k20' 'exec --key k20 -- touch ran' 'status'; do
      # shellcheck disable=SC2086
      run --separate-stderr lk $words
      echo "$*: lk $words: $status $stderr"
      case $status in
        69) [[ $stderr == "lk: $LK_STORE"* ]] && ((++met)) ;;
        75) [[ $words != status* ]] ;;
        0) [[ $words == status* && $output == *k20* ]] ;;
        *) return 1 ;;
      esac
      [ ! -e ran ]
      cmp "$LK_STORE" damaged
    done
  }
  overwritten() { dd if=/dev/urandom of=damaged bs=1 seek="$1" count="$2" conv=notrunc 2>dd.err; }
  met=0
  damaged truncate -s 2500 damaged
  damaged truncate -s $((page / 2)) damaged
  damaged truncate -s $((size / 2)) damaged
  [ "$met" -ge 12 ]
  met=0
  damaged overwritten 100 $((page - 100))
  damaged overwritten $((page / 4)) 200
  damaged overwritten "$page" $((size - page))
  [ "$met" -ge 8 ]
}

@test "a log or shared memory that is garbage does not free a lock" {
  fresh_store sqlite
  lk acquire --key k --ttl 600 >token
  without_log
  lk acquire --key j --ttl 600 >token
  cp "$LK_STORE-wal" wal
  # The shared memory is only a cache of the log.
  head -c 32768 /dev/urandom >"$LK_STORE-shm"
  run -75 lk acquire --key k
  run -75 lk acquire --key j
  # Of a log with a wrong checksum SQLite takes what is before it: here, nothing.
  head -c 8192 /dev/urandom >"$LK_STORE-wal"
  rm "$LK_STORE-shm"
  run -75 lk acquire --key k
  is_sound
}

@test "a rollback journal that a killed writer left is rolled back by whoever comes, status too" { # S15
  fresh_store sqlite
  lk acquire --key k --ttl 600 --owner me >token
  python3 - "$LK_STORE" <<'PY'
import os, signal, sqlite3, sys
path = sys.argv[1]
if os.fork() == 0:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA cache_size = 2")
    db.execute("BEGIN IMMEDIATE")
    db.execute("CREATE TABLE big(x)")
    db.execute("UPDATE holder SET owner = 'overwritten'")
    for n in range(200):
        db.execute("INSERT INTO big VALUES (randomblob(3000))")
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
PY
  [ -s "$LK_STORE-journal" ]
  cp "$LK_STORE" hot.db
  cp "$LK_STORE-journal" hot.db-journal
  is_field k .owner me
  cp hot.db "$LK_STORE"
  cp hot.db-journal "$LK_STORE-journal"
  run -75 lk acquire --key k
  lk release --key k --owner me
  run -0 lk exec --key k -- true
  is_sound
}

@test "a backup made while the store is in use is complete; a copy of the main file alone is a sound store" { # S14
  fresh_store sqlite
  lk acquire --key old --ttl 600 >token
  without_log
  start_guarded --key k --ttl 5
  sqlite3 -readonly "$LK_STORE" ".backup $PWD/backup.db"
  cp "$LK_STORE" copy.db
  run -75 lk acquire --store ./backup.db --key k
  run -75 lk acquire --store ./backup.db --key old
  run -75 lk acquire --store ./copy.db --key old
  let_go
  ends_with 0 "$lk_pid"
}

# --- Who may use it -----------------------------------------------------------------------------------------------------

@test "who may not write there is told which folder or file, whose it is, and its mode: 77" { # S06
  need_users
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  folder=$(dirname "$LK_STORE")
  chmod 755 "$folder"
  chmod 644 "$LK_STORE"*
  nobody() { as_user 65534 65534 "$LK" "$@"; }
  for words in 'acquire --key k2' 'exec --key k2 -- touch ran' 'block --key k2' 'block --key k --wait 1h'; do
    # shellcheck disable=SC2086
    refused 77 "^lk: no permission to write in the folder $folder \(owner uid 0, mode 0755\)" nobody $words
  done
  chmod 600 "$LK_STORE"*
  refused 77 "^lk: no permission to read and write $LK_STORE \(owner uid 0, mode 0600\)" nobody status
  chmod 644 "$LK_STORE"*
  chmod 777 "$folder"
  refused 77 "^lk: no permission to read and write $LK_STORE \(owner uid 0, mode 0644\)" nobody acquire --key k2
  chmod 666 "$LK_STORE"
  refused 77 "^lk: no permission to read and write $LK_STORE-(wal|shm) \(owner uid 0, mode 0644\)" nobody acquire --key k2
  chmod 700 "$folder"
  refused 77 "^lk: .*$folder" nobody acquire --key k2
  refused 77 '^lk: cannot create the folder /no-such-folder: Permission denied; ' \
    nobody acquire --key k2 --store /no-such-folder/locks.db
  [ ! -e ran ]
}

@test "who may read there but not write is told so also of a lock that is held" { # S06
  need_users
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  chmod 755 "$(dirname "$LK_STORE")"
  chmod 644 "$LK_STORE"*
  refused 77 '^lk: no permission to ' as_user 65534 65534 "$LK" acquire --key k
}

@test "a team shares a store in a setgid folder that its group may write to" { # S06
  need_users
  mkdir team
  chown 0:54321 team
  chmod 2770 team
  export LK_STORE="$BATS_TEST_TMPDIR/team/locks.db"
  (
    umask 077
    as_user 11111 54321 "$LK" acquire --key k --ttl 60 --owner first >token
  )
  for file in "$LK_STORE" "$LK_STORE-wal" "$LK_STORE-shm"; do
    [ "$(stat -c '%a %g' "$file")" = '660 54321' ]
  done
  refused 75 '^lk: k is held by ' as_user 22222 54321 "$LK" acquire --key k
  # The bells of its lines are shared, too.
  as_user 22222 54321 "$LK" block --key k --ttl 60 >token.2 3>&- &
  waiter=$!
  wait_until 10 is_field k .waiting 1
  began=$(now_ms)
  as_user 11111 54321 "$LK" release --key k --owner first
  ends_with 0 "$waiter"
  [ $(($(now_ms) - began)) -lt 2000 ]
  refused 77 '^lk: ' as_user 33333 33333 "$LK" acquire --key k
}

@test "a folder, a pipe or a device in the file's place, a file in the folder's place: 78" {
  fresh_store sqlite
  mkdir folder.db
  mkfifo pipe.db
  : >plain
  refused 78 '/folder\.db is not a regular file' lk acquire --key k --store ./folder.db
  refused 78 '/pipe\.db is not a regular file' lk acquire --key k --store ./pipe.db
  refused 78 '/dev/null is not a regular file' lk acquire --key k --store /dev/null
  refused 78 '/plain' lk acquire --key k --store ./plain/locks.db
  refused 78 '' lk exec --key k --store ./plain/deeper/locks.db -- touch ran
  [ ! -e ran ]
}

@test "a -wal or -shm that cannot be is told by its name, and nothing is run" { # S05
  for suffix in wal shm; do
    fresh_store sqlite
    mkdir "$LK_STORE-$suffix"
    refused 78 "^lk: (LK_STORE: )?$LK_STORE-$suffix is not a regular file" lk acquire --key k --ttl 5
    refused 78 "^lk: (LK_STORE: )?$LK_STORE-$suffix is not a regular file" lk exec --key k --ttl 5 -- touch ran
    [ ! -e ran ]
    rmdir "$LK_STORE-$suffix"
    run -0 lk acquire --key k --ttl 5
  done
}

# --- Where it cannot lie ------------------------------------------------------------------------------------------------

@test "network file systems are refused with a way out, and nothing is created: 78" { # S05
  need_worlds
  fresh_store sqlite
  for pair in 0x6969:NFS 0x517b:SMB 0xfe534d42:SMB 0xff534d42:SMB 0x01021997:9p 0x786f4256:vboxsf; do
    refused 78 "^lk: (LK_STORE: )?[^ ]+ is on a network file system \(${pair#*:}\), .*Redis" \
      in_world WORLD_STATFS="${pair%:*}" "$LK" acquire --key k --ttl 5
    refused 78 "\(${pair#*:}\)" in_world WORLD_STATFS="${pair%:*}" "$LK" exec --key k -- touch ran
  done
  # Also where it may be one (virtiofs, sshfs and the like are FUSE).
  refused 78 '^lk: (LK_STORE: )?[^ ]+ is on a file system that other machines may share .*Redis' \
    in_world WORLD_STATFS=0x65735546 "$LK" acquire --key k --ttl 5
  [ ! -e "$LK_STORE" ]
  [ ! -e ran ]
  # A lock that was there before is neither seen as free nor taken.
  lk acquire --key k --ttl 60 >token
  refused 78 NFS in_world WORLD_STATFS=0x6969 "$LK" acquire --key k --ttl 5
  run -78 in_world WORLD_STATFS=0x6969 "$LK" status k
  # tmpfs and overlayfs are this machine's own.
  for magic in 0x01021994 0x794c7630; do
    run -75 in_world WORLD_STATFS="$magic" "$LK" acquire --key k --ttl 5
  done
}

@test "a file that is mounted alone, as into a container, is refused: two would have locks of their own" {
  need_root
  need_namespaces --mount
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  mkdir inside
  : >inside/locks.db
  mounted() { unshare --mount sh -c 'mount --bind "$1" inside/locks.db && shift && exec "$LK" "$@"' - "$LK_STORE" "$@"; }
  refused 78 'inside/locks\.db is mounted alone, .*; mount the folder instead' mounted acquire --store ./inside/locks.db --key k
  refused 78 'mount the folder instead' mounted exec --store ./inside/locks.db --key k -- touch ran
  [ ! -e ran ]
  # Its folder may be mounted.
  with_folder() { unshare --mount sh -c 'mount --bind "$1" inside && shift && exec "$LK" "$@"' - "$(dirname "$LK_STORE")" "$@"; }
  refused 75 '^lk: k is held by ' with_folder acquire --store ./inside/locks.db --key k
}

@test "a read-only file system: 77, and it says so" {
  need_root
  need_namespaces --mount
  fresh_store sqlite
  lk acquire --key k --ttl 60 >token
  read_only() {
    unshare --mount sh -c 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$LK" "$@"' - "$(dirname "$LK_STORE")" "$@"
  }
  refused 77 'is on a read-only file system' read_only acquire --key j
  refused 77 'is on a read-only file system' read_only exec --key j -- touch ran
  rm "$LK_STORE"*
  refused 77 'read-only file system|Read-only file system' read_only acquire --key j
  [ ! -e ran ]
}

@test "a full disk: 69, it says so, nothing is run, and it goes on once there is room" {
  need_root
  need_namespaces --mount
  export LK_STORE="$BATS_TEST_TMPDIR/disk/locks.db"
  mkdir disk
  # On a disk of 400 kB: filled up before there is a file, then with one.
  run -0 unshare --mount bash -c '
    mount -t tmpfs -o size=400k none disk || exit 125
    fill() { cat /dev/zero >disk/filler 2>cat.err; }
    fill
    "$LK" acquire --key k --ttl 60 >token.1 2>err.1; echo "new: $?"
    rm disk/filler
    "$LK" acquire --key k --ttl 60 >token.2 2>err.2; echo "room: $?"
    fill
    for n in 1 2 3 4 5 6; do
      "$LK" exec --key "j$n" --ttl 60 -- true 2>err.3 || { echo "full: $?"; break; }
    done
    "$LK" acquire --key k 2>err.4; echo "held: $?"
    "$LK" status k >card; echo "status: $?"
    rm disk/filler
    "$LK" release --key k --owner "$(cat token.2)"; echo "again: $?"
    sqlite3 disk/locks.db "PRAGMA integrity_check"'
  [ "$output" = $'new: 69\nroom: 0\nfull: 69\nheld: 75\nstatus: 0\nagain: 0\nok' ] ||
    [ "$output" = $'new: 69\nroom: 0\nfull: 69\nheld: 69\nstatus: 0\nagain: 0\nok' ]
  [ ! -s token.1 ]
  [[ $(cat err.1) =~ ^'lk: no room to '(create|write)' '[^\ ]+locks.db ]]
  [[ $(cat err.3) =~ ^'lk: no room to write '[^\ ]+locks.db ]]
}

@test "a file size limit is a full disk for lk, and no death: the command is stopped before the lock can end, the file stays sound" { # S09
  fresh_store sqlite
  # On a new file.
  run -69 --separate-stderr bash -c 'ulimit -f 8; exec "$LK" exec --key k --ttl 3 -- touch ran'
  [[ $stderr == "lk: no room to write $LK_STORE"* ]]
  [ ! -e ran ]
  run -0 lk acquire --key after --ttl 60
  is_sound
  # While the command runs: each renewal makes the log longer, up to the limit, which is not the command's.
  fresh_store sqlite
  log_is_long() { lk acquire --key other --ttl 100ms -q >token && [ "$(stat -c %s "$LK_STORE-wal")" -gt 40000 ]; }
  wait_until 30 log_is_long
  limit=$(($(stat -c %s "$LK_STORE-wal") / 1024 + 16))
  rm -f child go
  env --default-signal setsid bash -c 'ulimit -S -f "$0"; exec "$LK" exec --key k --ttl 1 -- bash -c "
    grep Sig /proc/self/status >signals; echo \$\$ >child; exec sleep 60"' "$limit" 2>err 3>&- &
  lk_pid=$!
  wait_until 20 has_child
  wait_until 60 is_gone "$(cat child)"
  ends_with 79 "$lk_pid"
  grep -q '^lk: cannot renew k: no room to write .*; trying again$' err
  grep -q '^lk: lost k: ' err
  grep Sig /proc/self/status >without
  cmp <(grep -E 'SigIgn' signals) <(env --default-signal grep SigIgn /proc/self/status)
  wait_until 10 lk acquire --key k --ttl 60 -q
  is_sound
}

# --- The file in other hands ----------------------------------------------------------------------------------------------

@test "another program that keeps the file locked for a while is waited for" { # S02
  fresh_store sqlite
  lk exec --key warm -- true
  hold_file
  "$LK" acquire --key k --ttl 60 >token 2>err 3>&- 7>&- &
  asking=$!
  start_exec --key j --ttl 60 -- touch ran 2>err.2
  sleep 1
  runs "$asking"
  [ ! -e ran ]
  leave_file
  ends_with 0 "$asking"
  ends_with 0 "$lk_pid"
  [ ! -s err ]
  [ ! -s err.2 ]
  [ -e ran ]
}

@test "renewals ride out another program's lock on the file" { # S02
  fresh_store sqlite
  start_guarded --key k --ttl 8 2>err
  fence=$(field k .fence)
  began=$SECONDS
  hold_file
  # The first renewal that finds it locked.
  wait_until 20 grep -q "^lk: cannot renew k: another program kept the file $LK_STORE locked for more than .*; trying again$" err
  [ $((SECONDS - began)) -lt 7 ]
  leave_file
  # Past the end of what was granted before.
  while ((SECONDS - began < 10)); do
    is_field k .fence "$fence"
    sleep 0.2
  done
  let_go
  ends_with 0 "$lk_pid"
  [ "$(wc -l <err)" -eq 1 ]
}

@test "a file that stays locked: the command is dead before its lock can be another's, 79" { # S02 P04
  fresh_store sqlite
  # It ignores TERM: TERM, grace and KILL all fit in.
  start_exec --key k --ttl 4 -- bash -c 'trap "echo TERM >>signals" TERM; echo $$ >child; for n in {1..2000}; do echo "${EPOCHREALTIME/./}" >>ticks; sleep 0.02; done' 2>err
  wait_until 20 has_child
  hold_file
  end_ms=$(field k .expires_ms)
  ends_with 79 "$lk_pid"
  is_gone "$(cat child)"
  [ "$(cat signals)" = TERM ]
  [ $(($(tail -n 1 ticks) / 1000)) -lt "$end_ms" ]
  grep -q '^lk: lost k: no renewal in time (another program kept the file .*); stopping the command (TERM, KILL after 1s)$' err
  leave_file
}

@test "a file that somebody has for himself: 69 within the limit, naming the file, not the key" { # S27
  fresh_store sqlite
  lk exec --key warm -- true
  hold_file 'PRAGMA locking_mode = EXCLUSIVE;'
  began=$(now_ms)
  refused 69 "^lk: another program kept the file $LK_STORE locked for more than 5s" lk acquire --key k --ttl 5
  [ $(($(now_ms) - began)) -lt 8000 ]
  leave_file
  run -0 lk acquire --key k --ttl 5
}

@test "a wait that runs out while the file is locked: 69 at its deadline, and the real reason" { # S27
  fresh_store sqlite
  for how in 'PRAGMA locking_mode = NORMAL;' 'PRAGMA locking_mode = EXCLUSIVE;'; do
    lk exec --key warm -- true
    hold_file "$how"
    for words in 'block --key k --wait 1s' 'exec --key k --wait 1s -- touch ran'; do
      began=$(now_ms)
      # shellcheck disable=SC2086
      run -69 --separate-stderr lk $words
      took=$(($(now_ms) - began))
      echo "$how $words: $took ms: $stderr"
      [ -z "$output" ]
      [[ ${stderr_lines[-1]} == "lk: another program kept the file $LK_STORE locked for more than "* ]]
      [ "$took" -ge 1000 ]
      [ "$took" -lt 1800 ]
    done
    leave_file
  done
  [ ! -e ran ]
}

@test "a signal ends lk at once also while the file is locked" { # P07
  fresh_store sqlite
  lk exec --key warm -- true
  hold_file
  for words in 'acquire --key k' 'block --key k' 'exec --key k -- touch ran' 'exec --key k --wait 1h -- touch ran'; do
    # shellcheck disable=SC2086
    env --default-signal "$LK" $words >out 2>err 3>&- 7>&- &
    lk_pid=$!
    # From here on it reads its signals itself.
    wait_until 10 grep -q '^SigBlk:.*[1-9a-f]' "/proc/$lk_pid/status"
    began=$(now_ms)
    kill -TERM "$lk_pid"
    ends_with 143 "$lk_pid"
    [ $(($(now_ms) - began)) -lt 1000 ]
  done
  leave_file
  [ "$(lk status --json)" = '[]' ]
  [ ! -e ran ]
}

@test "a reader that never ends: all goes on, and the log is used again once it has gone" { # S26
  fresh_store sqlite
  lk exec --key warm -- true
  mkfifo sql
  sqlite3 "$LK_STORE" <sql >sql.out 3>&- &
  reader=$!
  exec 7>sql
  printf '%s\n' 'BEGIN;' "SELECT count(*), 'reading' FROM sqlite_master;" >&7
  wait_until 20 grep -q reading sql.out
  start_guarded --key k --ttl 1
  for _ in {1..300}; do
    run -0 --separate-stderr lk exec --key j -- true
    [ -z "$stderr" ]
  done
  # A few kB for each of them, no more.
  [ "$(stat -c %s "$LK_STORE-wal")" -lt 12000000 ]
  exec 7>&-
  ends_with 0 "$reader"
  size=$(stat -c %s "$LK_STORE-wal")
  for _ in {1..300}; do
    lk exec --key j -- true
  done
  [ "$(stat -c %s "$LK_STORE-wal")" -le "$((size + 100000))" ]
  let_go
  ends_with 0 "$lk_pid"
}

@test "a file that is removed, moved away or replaced under a holder: its lock is lost at the next renewal, 79" { # S12
  removed() { rm -f "$LK_STORE" "$LK_STORE-wal" "$LK_STORE-shm"; }
  moved() { mkdir moved && mv "$LK_STORE"* moved; }
  replaced() {
    LK_STORE=$PWD/new.db "$LK" acquire --key other --ttl 60 >other
    sqlite3 new.db 'PRAGMA wal_checkpoint(TRUNCATE)' >checkpoint
    rm -f "$LK_STORE-wal" "$LK_STORE-shm"
    mv new.db "$LK_STORE"
  }
  for how in removed moved replaced; do
    echo "$how"
    fresh_store sqlite
    # Its ticks, and those of whoever comes next.
    tick='echo $$ >child; for n in {1..2000}; do echo "${EPOCHREALTIME/./}" >>ticks; sleep 0.02; done'
    rm -f ticks
    start_exec --key k --ttl 3 -- bash -c "$tick" 2>err
    wait_until 20 has_child
    child=$(cat child)
    "$how"
    gone=${EPOCHREALTIME/./}
    lk acquire --key k --ttl 60 --owner new >token
    ends_with 79 "$lk_pid"
    is_gone "$child"
    # No longer than a renewal's interval, a third of the ttl.
    [ $(($(tail -n 1 ticks) - gone)) -lt 2500000 ]
    grep -q "^lk: lost k: " err
    is_field k .owner new
  done
}

@test "a file that goes while others wait: they ask the new one" {
  fresh_store sqlite
  lk acquire --key k --ttl 600 >token
  "$LK" block --key k --ttl 60 --owner next >next 2>err 3>&- &
  waiter=$!
  wait_until 10 is_field k .waiting 1
  rm -r "$LK_STORE"*
  ends_with 0 "$waiter"
  is_field k .owner next
}

@test "the open file is never opened a second time by the same process: closing it would drop SQLite's locks" { # S22
  need_worlds
  fresh_store sqlite
  lk exec --key warm -- true
  watched() { in_world WORLD_WATCH="$LK_STORE" "$LK" "$@"; }
  watched exec --key k --ttl 1 --wait 10 -- sleep 1.5
  watched acquire --key k --ttl 60 --owner me >token
  run -0 watched status k
  run -75 watched block --key k --wait 200ms
  watched renew --key k --owner me
  watched release --key k --owner me
  cat "$LK_STORE.opened"
  [ "$(grep -c '^once ' "$LK_STORE.opened")" -ge 6 ]
  run ! grep '^again ' "$LK_STORE.opened"
}

# --- Time ---------------------------------------------------------------------------------------------------------------

@test "a wall clock that is wrong, or steps, neither frees a lock nor keeps one" { # S19
  need_wall_clock
  fresh_store sqlite
  for wrong in +1000d -1000d; do
    # Written with a wrong clock, then seen with the right one; and the other way round.
    with_wall_clock "$wrong" "$LK" acquire --key written --ttl 1s >token
    run -75 lk acquire --key written
    wait_until 10 lk acquire --key written --ttl 300ms -q
    wait_until 10 is_field written .state free
    lk acquire --key seen --ttl 60 --owner me >token
    run -75 with_wall_clock "$wrong" "$LK" acquire --key seen
    run -0 with_wall_clock "$wrong" "$LK" renew --key seen --owner me --ttl 2m
    [ "$(field seen .left_ms)" -le 120000 ]
    [ "$(field seen .left_ms)" -gt 60000 ]
    run -0 with_wall_clock "$wrong" "$LK" release --key seen --owner me
  done
}

@test "fences rise also when the wall clock steps back" { # S19
  need_wall_clock
  fresh_store sqlite
  last=0
  for wrong in +1d -1d +0 -1000d; do
    fence=$(with_wall_clock "$wrong" "$LK" exec --key k -- sh -c 'echo "$LK_FENCE"')
    [ "$fence" -gt "$last" ]
    last=$fence
  done
}

@test "an end that lies further away than the lock's own ttl is impossible: it is no lock" { # S19
  need_worlds
  fresh_store sqlite
  in_world WORLD_BOOT_AHEAD=86400 "$LK" acquire --key k --ttl 5 >token
  run -1 lk status k
  run -0 lk acquire --key k --ttl 60
}

@test "time zones and summer time have no influence" { # S28
  need_wall_clock
  fresh_store sqlite
  TZ=Pacific/Kiritimati lk acquire --key k --ttl 600 --owner me >token
  TZ=Pacific/Pago_Pago run -75 lk acquire --key k --ttl 5
  there=$(TZ=Pacific/Kiritimati lk status --json --key k | jq '.[0].expires_ms')
  here=$(TZ=Pacific/Pago_Pago lk status --json --key k | jq '.[0].expires_ms')
  # The same moment, read from two clocks one after the other.
  [ $((here - there)) -lt 100 ]
  [ $((there - here)) -lt 100 ]
  TZ=Pacific/Kiritimati run -0 lk status k
  [[ $output == *+14:00* ]]
  running=()
  for moment in '2026-03-29 01:59:58' '2026-10-25 02:59:58'; do
    TZ=Europe/Berlin with_wall_clock "@$moment" env --default-signal "$LK" exec --key "$moment" --ttl 1 -- sleep 4 3>&- &
    running+=($!)
  done
  for pid in "${running[@]}"; do
    ends_with 0 "$pid"
  done
}

@test "a process of another time namespace sees the same times" { # S20
  need_root
  need_namespaces --time --monotonic 100000 --boottime 100000 --fork
  fresh_store sqlite
  elsewhere() { unshare --time --monotonic 100000 --boottime 100000 --fork "$LK" "$@"; }
  elsewhere acquire --key written --ttl 2s --owner there >token
  run -75 lk acquire --key written
  wait_until 10 lk acquire --key written --ttl 60 -q
  lk acquire --key seen --ttl 60 --owner here >token
  run -75 elsewhere acquire --key seen --ttl 5
  [ "$(elsewhere status --json --key seen | jq '.[0].left_ms')" -gt 30000 ]
  run -0 elsewhere renew --key seen --owner here --ttl 2m
  [ "$(field seen .left_ms)" -gt 60000 ]
  [ "$(field seen .left_ms)" -le 120000 ]
  run -0 elsewhere exec --key both --ttl 1 -- sleep 2
  run -0 elsewhere release --key seen --owner here
}

@test "a process of another pid namespace neither frees a live lock nor is taken for a dead one" {
  need_root
  need_namespaces --pid --fork --kill-child --mount-proc
  fresh_store sqlite
  elsewhere() { unshare --pid --fork --kill-child --mount-proc "$LK" "$@"; }
  start_guarded --key k --ttl 600
  refused 75 '^lk: k is held by ' elsewhere acquire --key k
  let_go
  ends_with 0 "$lk_pid"
  rm -f child go
  elsewhere exec --key k --ttl 600 -- sh -c "$guarded" 3>&- &
  inside=$!
  wait_until 20 has_child
  refused 75 '^lk: k is held by ' lk acquire --key k
  let_go
  ends_with 0 "$inside"
  is_field k .state free
}
