-- renew: KEYS lock meta line places; ARGV owner ask('': any) ttl
if type_of(K[1]) == 'none' then return 'gone' end
if not is_held_by(ARGV[1], ARGV[2]) then return 'not_mine' end
local ttl, left = tonumber(ARGV[3]), time_left()
if left >= 0 and left < ttl then redis.call('PEXPIRE', K[1], expiry(ttl)) end
keep(K[2], ttl + fence_kept)
return 'renewed'
