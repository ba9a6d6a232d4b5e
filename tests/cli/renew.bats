#!/usr/bin/env bats
# lk renew: prolonging a lock that is still held.

load common

@test "renew sets a later end, and is silent" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    fence=$(field k .fence)
    run -0 --separate-stderr lk renew --key k --owner me --ttl 1h
    [ -z "$output$stderr" ]
    [ "$(field k .left_ms)" -gt 3500000 ]
    is_field k .fence "$fence"
  done
}

@test "renew without --ttl is for 15 minutes, or LK_TTL" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner me >token
    lk renew --key k --owner me
    [ "$(field k .left_ms)" -gt 890000 ]
    [ "$(field k .left_ms)" -le 900000 ]
    LK_TTL=2h lk renew --key k --owner me
    [ "$(field k .left_ms)" -gt 7000000 ]
  done
}

@test "renew never shortens" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 1h --owner me >token
    lk renew --key k --owner me --ttl 1
    [ "$(field k .left_ms)" -gt 3500000 ]
  done
}

@test "a lock that is not held is not renewed: 1" {
  for store in $stores; do
    fresh_store "$store"
    run -1 --separate-stderr lk renew --key k --owner me
    [ "$stderr" = "lk: not renewed: k is not held any more in $LK_STORE" ]
    run -1 lk status k
  done
}

@test "another's lock is not renewed: 75, and who has it" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 30 --owner other >token
    run -75 --separate-stderr lk renew --key k --owner me --ttl 1h
    [[ $stderr == 'lk: not yours: k is held by '* ]]
    [ "$(field k .left_ms)" -le 30000 ]
  done
}

@test "the old holder cannot renew after a takeover" {
  for store in $stores; do
    fresh_store "$store"
    lk acquire --key k --ttl 100ms --owner old >token
    wait_until 5 lk acquire --key k --ttl 30 --owner new -q
    run -75 lk renew --key k --owner old
    is_field k .owner new
  done
}

@test "LK_KEY and LK_OWNER stand in for the options" {
  for store in $stores; do
    fresh_store "$store"
    eval "$(lk acquire --key k --ttl 30 --output env)"
    lk renew --ttl 1h
    [ "$(field k .left_ms)" -gt 3500000 ]
    unset LK_KEY LK_OWNER LK_FENCE
  done
}
