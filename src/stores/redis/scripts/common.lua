-- Shared by all scripts: what stands at the lock, and the line. K[1] lock, K[2] meta, K[3] line, K[4] places.
-- The lock is the wire format that other lock libraries share: a string (the owner) with an expiry. Everything else is lk's own:
--   meta    hash: owner ask fence durable(1 0 left) since(ms) who; believed only while its owner is the lock's value
--   line    sorted set: claim (16 digits of the ask id, then the owner) by number of arrival
--   places  hash: CLAIM:l lapses at (ms)  CLAIM:b 1 if it has a bell  CLAIM:w what status shows of it
local K = KEYS
-- The server's clock, asked where it is first wanted: each question costs the server 3 us, and most of a short script is its
-- questions.
local stamp
local function now_us()
  stamp = stamp or redis.call('TIME')
  return stamp[1] * 1000000 + stamp[2]
end
local function now() return math.floor(now_us() / 1000) end
-- How long a released lock's last fence is kept: fences rise even if the server's clock goes back by that much.
local fence_kept = 600000

local function text(number) return string.format('%.0f', number) end

-- The owner that stands at the lock; false: it is free; nil: something else stands there.
local function owner_of_lock()
  local value = redis.pcall('GET', K[1])
  if type(value) ~= 'table' then return value end
  -- What is no wrong type is trouble.
  return string.find(value.err, 'WRONGTYPE', 1, true) == nil and redis.call('GET', K[1]) or nil
end

-- A key lives through the last millisecond of its expiry: PX n ends it n + 1 ms later.
local function expiry(ttl) return text(math.max(ttl - 1, 1)) end
local function time_left()
  local left = redis.call('PTTL', K[1])
  return left < 0 and left or left + 1
end

-- Nothing of lk's own outlives its use.
local function keep(key, at_least)
  if redis.call('PTTL', key) < at_least then redis.call('PEXPIRE', key, text(at_least)) end
end

-- The meta fields, if they are those of this owner.
local function meta_of(value)
  local m = redis.call('HMGET', K[2], 'owner', 'ask', 'fence', 'durable', 'since', 'who')
  if m[1] and m[1] == value then return {ask = m[2], fence = m[3], durable = m[4], since = m[5], who = m[6]} end
end

-- {'held', owner, left, ask, fence, durable, held_for, since, who}, {'foreign', type, digest, left} or nil. left: -1 never ends.
local function occupant(with_digest)
  local owner = owner_of_lock()
  if owner == false then return nil end
  local left = text(time_left())
  if owner then
    local meta = meta_of(owner)
    if not meta then return {'held', owner, left} end
    return {'held', owner, left, meta.ask, meta.fence, meta.durable, text(math.max(0, now() - tonumber(meta.since))), meta.since, meta.who}
  end
  local answer = redis.call('TYPE', K[1])
  local kind = type(answer) == 'table' and answer.ok or answer
  local dump = with_digest and redis.pcall('DUMP', K[1])
  return {'foreign', kind, type(dump) == 'string' and redis.sha1hex(dump) or '', left}
end

-- The meta fields of the grant ({}: it has none) where the lock is held by this owner and, unless ask is '', by this asker:
-- another tool's lock is no asker's of lk, even with the same owner.
local function held_by(owner, ask)
  if owner_of_lock() ~= owner then return nil end
  local meta = meta_of(owner) or {}
  if ask == '' or meta.ask == ask then return meta end
end

local function is_waiting(claim)
  local lapses = redis.call('HGET', K[4], claim .. ':l')
  return lapses and tonumber(lapses) > now()
end

local function forget(claim)
  redis.call('ZREM', K[3], claim)
  redis.call('HDEL', K[4], claim .. ':l', claim .. ':b', claim .. ':w')
end

-- The first in line whose place has not lapsed.
local function head()
  while true do
    local first = redis.call('ZRANGE', K[3], 0, 0)[1]
    if not first or is_waiting(first) then return first end
    forget(first)
  end
end

-- False: it has a bell, and nobody listens to it any more. Whoever subscribed to a pattern hears it, but is not woken by it.
-- What the server does not permit must not undo what the script has done: it proves nothing.
local function rings(claim, bell)
  local heard = redis.pcall('PUBLISH', bell .. claim, '')
  if type(heard) ~= 'number' or redis.call('HGET', K[4], claim .. ':b') ~= '1' then return true end
  return heard > 0 and redis.pcall('PUBSUB', 'NUMSUB', bell .. claim)[2] ~= 0
end

-- Tells the head, `first`, that asking is worth it; a dead head leaves, and the next one is told. `me` asks already.
local function ring_head(first, bell, me)
  while first and first ~= me and not rings(first, bell) do
    forget(first)
    first = head()
  end
  return first
end

-- Whether there was a place of this asker ('': of any asker of this owner).
local function leave_line(owner, ask)
  local left = false
  for _, claim in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
    if string.sub(claim, 17) == owner and (ask == '' or string.sub(claim, 1, 16) == ask) then
      left = is_waiting(claim) or left
      forget(claim)
    end
  end
  return left
end

-- Takes the lock away from whoever has it; its fence stays. Nothing here needs memory. The line is looked at first: where
-- something else stands there, nothing has happened.
local function remove_lock(bell)
  local first = head()
  redis.call('HDEL', K[2], 'owner', 'ask', 'durable', 'since', 'who')
  redis.call('PEXPIRE', K[2], text(fence_kept))
  redis.call('DEL', K[1])
  -- python-redis-lock waits by BLPOP on this list and would sleep on.
  local name = string.match(K[1], '^lock:(.*)$')
  if name then
    local signal = 'lock-signal:' .. name
    redis.pcall('DEL', signal)
    redis.pcall('LPUSH', signal, '1')
    redis.pcall('PEXPIRE', signal, '1000')
  end
  ring_head(first, bell)
end
