#!/bin/sh
# A lock as scripts make one from redis-cli: SET NX PX, run, delete what is still ours. usage: SOCKET KEY TTL_MS CMD...
socket=$1 key=$2 ttl_ms=$3
shift 3

ours_then_delete='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'

with_lock() {
  read -r token </proc/sys/kernel/random/uuid
  while answer=$(redis-cli -s "$socket" SET "$key" "$token" NX PX "$ttl_ms") && [ "$answer" != OK ]; do
    sleep 0.1
  done
  [ "$answer" = OK ] || return 69
  "$@"
  status=$?
  redis-cli -s "$socket" EVAL "$ours_then_delete" 1 "$key" "$token" >/dev/null
  return "$status"
}

with_lock "$@"
