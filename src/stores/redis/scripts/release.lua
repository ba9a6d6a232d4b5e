-- release: KEYS lock meta line places; ARGV owner ask('': any) fence('': any) bell
local owner, ask, fence = ARGV[1], ARGV[2], ARGV[3]
local mine = held_by(owner, ask)
if mine and (fence == '' or mine.fence == fence) then
  remove_lock(ARGV[4])
  return {'released'}
end
if fence == '' and leave_line(owner, ask) then
  ring_head(head(), ARGV[4])
  return {'left_line'}
end
local by = occupant()
if by then return {'not_mine', unpack(by)} end
return {'not_held'}
