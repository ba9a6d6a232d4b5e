-- acquire: KEYS lock meta line places; ARGV owner ask ttl patience max_waiting(-1: any) durable belled bell who place
local owner, ask, ttl, patience, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local bell, me = ARGV[8], ask .. owner
local by = occupant()
if by and by[1] == 'held' and by[2] == owner and by[4] == ask then
  redis.call('PEXPIRE', K[1], expiry(ttl))
  keep(K[2], ttl + fence_kept)
  return {'granted', by[5], '1'}
end

if not by then
  -- Its holder's time ended, or somebody removed it by hand, and nobody rang: does the head still listen?
  local first = ring_head(head(), bell, me)
  if not first or first == me then
    local last = tonumber(redis.call('HGET', K[2], 'fence') or '0')
    local fence = text(math.max(last + 1, now_us()))
    -- The first write is one that wants memory: where there is none, nothing has happened. The lock comes last: who may not
    -- write the rest takes no lock.
    redis.call('HSET', K[2], 'owner', owner, 'ask', ask, 'fence', fence, 'durable', ARGV[6], 'since', text(now()), 'who', ARGV[9])
    redis.call('PEXPIRE', K[2], text(ttl + fence_kept))
    redis.call('SET', K[1], owner, 'PX', expiry(ttl))
    if not first then return {'granted', fence, '0'} end
    forget(me)
    local next = head()
    -- From now on the next one is to look after the holder as often as a head does. An exec tells it by its first renewal
    -- (renew.lua): a command that is done before spares it that.
    if next and ARGV[6] == '1' then ring_head(next, bell) end
    return {'granted', fence, '0', next and ARGV[6] == '0' and '1' or '0'}
  end
  by = {'promised', first, redis.call('HGET', K[4], first .. ':w') or '', text(now())}
end

-- Where am I? Who lapsed before me has left.
local ahead, mine = 0, false
for _, claim in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
  if not is_waiting(claim) then
    forget(claim)
  elseif claim == me then
    mine = true
    break
  else
    ahead = ahead + 1
  end
end

if not mine and (patience <= 0 or (most >= 0 and ahead >= most)) then
  return {patience > 0 and 'full' or 'busy', text(ahead), unpack(by)}
end
if patience > 0 then
  -- The places come first: where they cannot be written, nobody stands in the line without one.
  redis.call('HSET', K[4], me .. ':l', text(now() + patience), me .. ':b', ARGV[7])
  keep(K[4], patience)
  if not mine then
    redis.call('HSET', K[4], me .. ':w', text(now()) .. '\0' .. ARGV[10])
    local last = redis.call('ZRANGE', K[3], -1, -1, 'WITHSCORES')[2] or '0'
    redis.call('ZADD', K[3], text(tonumber(last) + 1), me)
  end
  keep(K[3], patience)
end
return {'queued', text(ahead), unpack(by)}
