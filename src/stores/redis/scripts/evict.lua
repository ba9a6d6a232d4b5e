-- evict: KEYS lock meta line places; ARGV kind owner-or-type ask-or-digest fence bell
local by = occupant(true)
if not by then return 'free' end
if by[1] ~= ARGV[1] or by[2] ~= ARGV[2] then return 'changed' end
if by[1] == 'held' then
  if (by[4] or '') ~= ARGV[3] or (by[5] or '') ~= ARGV[4] then return 'changed' end
elseif by[3] == '' then
  -- Who may not look cannot compare, and is told so.
  return redis.call('DUMP', K[1]) and 'changed'
elseif by[3] ~= ARGV[3] then
  return 'changed'
end
remove_lock(ARGV[5])
return 'evicted'
