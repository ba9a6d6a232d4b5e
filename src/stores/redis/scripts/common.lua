-- Shared by all scripts: what stands at the lock, and the line. K[1] lock, K[2] meta, K[3] line, K[4] places.
-- The lock is the wire format that other lock libraries share: a string (the owner) with an expiry. Everything else is lk's own:
--   meta    hash: owner ask fence durable since(ms) who; believed only while its owner is the lock's value
--   line    sorted set: ask id by number of arrival
--   places  hash: ASK:l lapses at (ms)  ASK:b 1 if it has a bell  ASK:w what status shows of it
local K = KEYS
local stamp = redis.call('TIME')
local now_us = stamp[1] * 1000000 + stamp[2]
local now = math.floor(now_us / 1000)
-- How long a released lock's last fence is kept: fences rise even if the server's clock goes back by that much.
local fence_kept = 600000

local function text(number) return string.format('%.0f', number) end

local function type_of(key)
  local answer = redis.call('TYPE', key)
  return type(answer) == 'table' and answer.ok or answer
end

-- The meta fields, if they are those of this owner.
local function meta_of(value)
  local m = redis.call('HMGET', K[2], 'owner', 'ask', 'fence', 'durable', 'since', 'who')
  if m[1] and m[1] == value then return {ask = m[2], fence = m[3], durable = m[4], since = m[5], who = m[6]} end
end

local function forget(ask)
  redis.call('ZREM', K[3], ask)
  redis.call('HDEL', K[4], ask .. ':l', ask .. ':b', ask .. ':w')
end

-- The first in line whose place has not lapsed.
local function head()
  while true do
    local first = redis.call('ZRANGE', K[3], 0, 0)[1]
    if not first then return nil end
    local lapses = redis.call('HGET', K[4], first .. ':l')
    if lapses and tonumber(lapses) > now then return first end
    forget(first)
  end
end

-- Called last: a PUBLISH that is not permitted must not undo what the script has done.
local function rings(ask, channel)
  local heard = redis.pcall('PUBLISH', channel .. ask, '')
  return type(heard) ~= 'number' or heard > 0 or redis.call('HGET', K[4], ask .. ':b') ~= '1'
end

local function ring_head(channel)
  local first = head()
  while first and not rings(first, channel) do
    forget(first)
    first = head()
  end
  return first
end

-- {'held', owner, left, ask, fence, durable, held_for, since, who}, {'foreign', type, bytes, left} or nil. left: -1 never ends.
local function occupant()
  local kind = type_of(K[1])
  if kind == 'none' then return nil end
  local left = text(redis.call('PTTL', K[1]))
  if kind == 'string' then
    local value = redis.call('GET', K[1])
    local meta = meta_of(value)
    if not meta then return {'held', value, left} end
    return {'held', value, left, meta.ask, meta.fence, meta.durable, text(math.max(0, now - tonumber(meta.since))), meta.since, meta.who}
  end
  local dump = redis.pcall('DUMP', K[1])
  return {'foreign', kind, type(dump) == 'string' and redis.sha1hex(dump) or '', left}
end

-- Whether the lock is held by this owner and, unless ask is '', by this asker.
local function is_held_by(owner, ask)
  if type_of(K[1]) ~= 'string' or redis.call('GET', K[1]) ~= owner then return false end
  local meta = meta_of(owner)
  return ask == '' or not meta or meta.ask == ask
end

-- Whether there was a place of this asker ('': of any asker of this owner).
local function leave_line(owner, ask)
  head()
  local left = false
  for _, waiter in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
    if waiter == ask or (ask == '' and string.match(redis.call('HGET', K[4], waiter .. ':w') or '', '^%d+%z(%Z*)') == owner) then
      forget(waiter)
      left = true
    end
  end
  return left
end

-- Takes the lock away from whoever has it. What keeps fences rising is written last and may be refused for want of memory.
local function remove_lock(channel)
  local fence = redis.call('HGET', K[2], 'fence')
  redis.call('DEL', K[1], K[2])
  if fence then
    redis.pcall('HSET', K[2], 'fence', fence)
    redis.pcall('PEXPIRE', K[2], fence_kept)
  end
  -- python-redis-lock waits by BLPOP on this list and would sleep on.
  local name = string.match(K[1], '^lock:(.*)$')
  if name then
    local signal = 'lock-signal:' .. name
    redis.pcall('DEL', signal)
    redis.pcall('LPUSH', signal, '1')
    redis.pcall('PEXPIRE', signal, 1000)
  end
  ring_head(channel)
end

