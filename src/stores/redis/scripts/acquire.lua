-- acquire: KEYS lock meta line places; ARGV owner ask ttl patience max_waiting(-1: any) durable bell channel who place
local owner, ask, ttl, patience = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local by = occupant()
if by and by[1] == 'held' and by[2] == owner and by[4] == ask then
  redis.call('PEXPIRE', K[1], ttl)
  redis.call('PEXPIRE', K[2], ttl + fence_kept)
  return {'granted', by[5], '1'}
end

local first = head()
if not by then
  -- Its holder's time ended, or somebody removed it by hand, and nobody rang: does the head still listen?
  if first and first ~= ask then first = ring_head(ARGV[8]) end
  if not first or first == ask then
    local last = tonumber(redis.call('HGET', K[2], 'fence') or '0')
    local fence = text(math.max(last + 1, now_us))
    redis.call('SET', K[1], owner, 'PX', ttl, 'NX')
    redis.call('DEL', K[2])
    redis.call('HSET', K[2], 'owner', owner, 'ask', ask, 'fence', fence, 'durable', ARGV[6], 'since', text(now), 'who', ARGV[9])
    redis.call('PEXPIRE', K[2], ttl + fence_kept)
    if first then
      -- From now on the next one is to look after the holder as often as a head does.
      forget(ask)
      ring_head(ARGV[8])
    end
    return {'granted', fence, '0'}
  end
  by = {'promised', redis.call('HGET', K[4], first .. ':w') or '', text(now)}
end

-- Where am I? Who lapsed before me has left.
local ahead, mine = 0, false
for _, other in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
  local lapses = redis.call('HGET', K[4], other .. ':l')
  if not lapses or tonumber(lapses) <= now then
    forget(other)
  elseif other == ask then
    mine = true
    break
  else
    ahead = ahead + 1
  end
end

if not mine and (patience <= 0 or (tonumber(ARGV[5]) >= 0 and ahead >= tonumber(ARGV[5]))) then
  return {patience > 0 and 'full' or 'busy', text(ahead), unpack(by)}
end
if patience > 0 then
  if not mine then
    local last = redis.call('ZRANGE', K[3], -1, -1, 'WITHSCORES')[2] or '0'
    redis.call('ZADD', K[3], text(tonumber(last) + 1), ask)
    redis.call('HSET', K[4], ask .. ':w', text(now) .. '\0' .. ARGV[10])
  end
  redis.call('HSET', K[4], ask .. ':l', text(now + patience), ask .. ':b', ARGV[7])
  for _, key in ipairs({K[3], K[4]}) do
    if redis.call('PTTL', key) < patience then redis.call('PEXPIRE', key, patience) end
  end
end
return {'queued', text(ahead), unpack(by)}
