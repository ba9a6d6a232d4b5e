-- status: KEYS (lock meta line places) for each lock; ARGV 1: everything, 0: the waiters' number alone, and no digest. Changes nothing.
local whole = ARGV[1] == '1'
local answers = {}
for i = 1, #KEYS, 4 do
  K = {KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3]}
  local by = occupant(whole)
  local line, count = {}, 0
  for _, claim in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
    if is_waiting(claim) then
      count = count + 1
      if whole or count == 1 then line[#line + 1] = {claim, redis.call('HGET', K[4], claim .. ':w') or ''} end
    end
  end
  answers[#answers + 1] = {by or {}, text(count), line}
end
return {text(now()), answers}
