-- renew: KEYS lock meta line places; ARGV owner ask('': any) ttl
if type_of(K[1]) == 'none' then return 'gone' end
if not is_held_by(ARGV[1], ARGV[2]) then return 'not_mine' end
local ttl = tonumber(ARGV[3])
local left = redis.call('PTTL', K[1])
if left >= 0 and left < ttl then redis.call('PEXPIRE', K[1], ttl) end
if redis.call('PTTL', K[2]) < ttl + fence_kept then redis.call('PEXPIRE', K[2], ttl + fence_kept) end
return 'renewed'
