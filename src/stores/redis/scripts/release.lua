-- release: KEYS lock meta line places; ARGV owner ask('': any) fence('': any) channel
local by = occupant()
if is_held_by(ARGV[1], ARGV[2]) and (ARGV[3] == '' or by[5] == ARGV[3]) then
  remove_lock(ARGV[4])
  return {'released'}
end
if ARGV[3] == '' and leave_line(ARGV[1], ARGV[2]) then
  ring_head(ARGV[4])
  return {'left_line'}
end
if by then return {'not_mine', unpack(by)} end
return {'not_held'}
