-- leave: KEYS lock meta line places; ARGV owner ask('': any) after bell
local after = tonumber(ARGV[3])
local mine = held_by(ARGV[1], ARGV[2])
if mine then
  -- Where something else stands in the place of the line, nothing has happened.
  local first = head()
  redis.call('PEXPIRE', K[1], expiry(after))
  keep(K[2], after + fence_kept)
  -- For people alone: where there is no memory for it, nothing else is amiss.
  if mine.durable == '0' then redis.pcall('HSET', K[2], 'durable', 'left') end
  ring_head(first, ARGV[4])
  return {'released'}
end
if leave_line(ARGV[1], ARGV[2]) then
  ring_head(head(), ARGV[4])
  return {'left_line'}
end
local by = occupant()
if by then return {'not_mine', unpack(by)} end
return {'not_held'}
