-- renew: KEYS lock meta line places; ARGV owner ask('': any) ttl bell('': nobody is to be told)
if not held_by(ARGV[1], ARGV[2]) then return owner_of_lock() == false and 'gone' or 'not_mine' end
local ttl, left = tonumber(ARGV[3]), time_left()
if left >= 0 and left < ttl then redis.call('PEXPIRE', K[1], expiry(ttl)) end
keep(K[2], ttl + fence_kept)
if ARGV[4] ~= '' then ring_head(head(), ARGV[4]) end
return 'renewed'
