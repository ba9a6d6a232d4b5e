-- status: KEYS (lock meta line places) for each lock; ARGV 1: with the waiters, 0: only their number. Changes nothing.
local answers = {}
for i = 1, #KEYS, 4 do
  K = {KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3]}
  local by = occupant()
  local line, count = {}, 0
  for _, waiter in ipairs(redis.call('ZRANGE', K[3], 0, -1)) do
    local place = redis.call('HMGET', K[4], waiter .. ':l', waiter .. ':w')
    if place[1] and place[2] and tonumber(place[1]) > now then
      count = count + 1
      if ARGV[1] == '1' or count == 1 then line[#line + 1] = {waiter, place[2]} end
    end
  end
  answers[#answers + 1] = {by or {}, text(count), line}
end
return {text(now), answers}
