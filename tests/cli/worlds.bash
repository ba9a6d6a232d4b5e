# Other worlds to run lk in: other users, namespaces, clocks and file systems. Where there is none the test is skipped.
# shellcheck shell=bash

need_root() {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
}

# need_namespaces OPTION...: those of unshare(1).
need_namespaces() {
  unshare "$@" true 2>unshare.err || skip "no namespaces: $(cat unshare.err)"
}

# Other users can reach the test's folder, and lk: the program itself may lie where only root can go.
need_users() {
  need_root
  cp "$LK" "$BATS_TEST_TMPDIR/lk"
  chmod 755 "$BATS_TEST_TMPDIR/lk"
  chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_SUITE_TMPDIR" "$(dirname "$BATS_TEST_TMPDIR")"
  chmod 755 "$BATS_TEST_TMPDIR"
  LK=$BATS_TEST_TMPDIR/lk
}

# as_user UID GID WORDS...
as_user() {
  setpriv --reuid "$1" --regid "$2" --clear-groups -- "${@:3}"
}

# The wall clock shows another time, the machine's other clocks do not: with_wall_clock TIME WORDS..., TIME as in faketime(1).
need_wall_clock() {
  local found=(/usr/lib/*/faketime/libfaketimeMT.so.1)
  [ -e "${found[0]}" ] || skip "needs libfaketime"
  faketime=${found[0]}
}
with_wall_clock() {
  LD_PRELOAD=$faketime FAKETIME=$1 FAKETIME_DONT_FAKE_MONOTONIC=1 "${@:2}"
}

# in_world NAME=VALUE... WORDS...: lk with another kernel around it; the names are explained in support/world.c.
need_worlds() {
  compile world -shared -fPIC
}
in_world() {
  env LD_PRELOAD="$BATS_FILE_TMPDIR/world" "$@"
}

# Somebody else holds the write lock of the store's file until `leave_file`, which is told through descriptor 7.
hold_file() {
  mkfifo sql
  sqlite3 "$LK_STORE" <sql >sql.out 3>&- &
  file_holder=$!
  exec 7>sql
  rm sql
  printf '%s\n' "$@" 'BEGIN IMMEDIATE;' "SELECT 'locked';" >&7
  wait_until 20 grep -q locked sql.out
}
leave_file() {
  exec 7>&-
  ends_with 0 "$file_holder"
}
