-- The Redis store: all of it that has to be one step. Written for Redis 6.2 and newer, and for Valkey.
--
-- KEYS  1 cells   hash: key -> cell. Its field "\255", which no text can be, holds the meta
--       2 index   sorted set, every score 0, so that members stand in the order of their bytes. A cell that somebody
--                 still works with, open or free, has one: "o" key. So a claim adds one, and to renew, to release or to
--                 take again changes none. One that is final has "k" key and, if it has an instant, "a" the first byte
--                 of the key, at, key: so runs stand in a row, and not among the effects of their slots; if it wants
--                 attention also "t" at key, with or without an instant. Its first member, "!" and an instant, says
--                 that the others are all there: without it the index was evicted or deleted, and a scan makes it anew
--                 from the cells. The instant is when that was, or 0: never
--
-- A swap that wins a cell of the board is published on the channel beside the keys, "news", as an empty message.
--
-- ARGV  1 the command, and what it takes:
--   swap    head and shapes, items, values, keys: see below
--   load    keys
--   scan    newest first (0 or 1), prefix of the keys, mark (a byte, or "" for all), latest until or "", most members
--           to look at in a range; then of each range: lowest and highest member as ZRANGEBYLEX has them, bytes before
--           the key, limit
--   purge   keys, versions
--   hello   identity, id of its replication, id of the one it continues or "", second by which it had started, durable
--           (0 or 1), replicas waited for, failover (0 or 1), origin, whether that is meant (0 or 1), in a Cluster the
--           other masters that live: of each a line with its identity and the id of its replication; or "?", if nobody
--           has asked them yet: then, should it matter, nothing is done and {nil} is the answer
--   touch
--
-- Returns {now and meta, ...}, or {nil} where the store is empty: then nothing was done.
--   swap    behind the replicas of the meta: what became of each write, a byte: 0 it made its cell, 1 it won over one
--           that was there, it lost: 2 version, 3 early, 4 late, 5 group; then the new head of each cell won over. Of
--           each that lost its cell, or nil, follows. Where none did, this text is the answer, not a table with it:
--           that would take the server as long as a write. A writer that is not believed is told the meta alone
--   load    {meta, cell or nil, ...}
--   scan    of each range: {key, cell, ...}, and the member where it stopped before its limit and its end, or nil
--   purge   how many
--
-- Numbers travel, and are kept, as eight bytes, high ones first, which sort as they do. An instant is whole
-- microseconds since 1970, and 2^50 on top of that, so that those before 1970 sort too. 0 is none. All are below 2^53,
-- as much as a number of Lua holds; it would print no more than 14 digits of them.
--   cell    mark (a byte), version, at, until, birth and number of the fence; then its value as it came
--   meta    schema (a byte), birth, tally, base, since, last write; origin, durable, replicas (a byte each); identity
--           and id of the replication of the server that wrote last, with a blank between them
--   head    birth seen, tally seen, latest not_before, earliest not_after, whether a key comes twice (a byte)
--   shape   what many writes of a batch share: mark, grant (a byte each), ttl + 1, not_before, or 1 if that is `at`,
--           not_after
--   item    of each write: twice the place of its shape, and 1 on top of that if it lands together with the one before
--           it (two bytes), what it expects (a byte: 0 absent, 1 absent or free, 2 the version seen), version seen, at,
--           where its value begins and ends among the values (four bytes each): a loser's is never looked at

local SCHEMA = 1
local FREE, CLOSED, ATTENTION = 2, 3, 4 -- marks; open is 1
local FIELD = '\255'
local BASE = 1125899906842624
local NONE = '\0\0\0\0\0\0\0\0'
local NEWER = 'CRONCENEWER this store was written by a newer cronce'
local BEHIND = 'CRONCEBEHIND nothing was begun'
local SECOND = 1000000
local ITEM = 27 -- bytes of one
local SLICE = 5000 -- Lua's stack holds 8,000

local call, sub, byte, pack, unpacked = redis.call, string.sub, string.byte, struct.pack, struct.unpack
local command, cells, index = ARGV[1], KEYS[1], KEYS[2]
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local now_text = pack('>I8', now + BASE)

-- The meta of the life that follows a loss: born later than any birth known, counting on from the highest tally.
local function next_life(meta, seen_birth, seen_tally)
  local birth, tally = unpacked('>I8I8', meta, 2)
  if seen_birth >= birth then tally = math.max(tally, seen_tally) end
  birth = math.max(now, seen_birth + 1, birth + 1)
  local last = sub(meta, 34, 41)
  return sub(meta, 1, 1) .. pack('>I8I8I8', birth, tally, tally) .. last .. last .. '\3' .. sub(meta, 43)
end

-- A life that began now would be born before what was lost: the slots in between would be granted again.
local function is_behind(meta)
  return now + BASE + SECOND < unpacked('>I8', meta, 34)
end

-- The hot path makes few tables and no functions: what Lua has to collect costs more than what Redis does.
if command == 'swap' then
  local count = #ARGV - 4
  local found = call('HMGET', cells, FIELD, unpack(ARGV, 5))
  local meta = found[1]
  if not meta then return { false } end
  if byte(meta) ~= SCHEMA then return redis.error_reply(NEWER) end

  local texts, items, values = ARGV[2], ARGV[3], ARGV[4]
  local seen_birth, seen_tally, latest, earliest, twice = unpacked('>I8I8I8I8B', texts)
  local birth, tally = unpacked('>I8I8', meta, 2)
  if seen_birth > birth or (seen_birth == birth and seen_tally > tally) then
    if is_behind(meta) then return redis.error_reply(BEHIND) end
    meta = next_life(meta, seen_birth, seen_tally)
    call('HSET', cells, FIELD, meta)
    return now_text .. meta
  end
  if seen_birth ~= birth then return now_text .. meta end

  local birth_text, moment = sub(meta, 2, 9), now + BASE
  local untimely = moment < latest or (earliest > 0 and moment > earliest)
  local wrote = twice == 1 and {} -- the cells that this batch has written so far
  local first, drawn, told, field_count, add_count, drop_count = 1, tally, 1, 0, 0, 0
  -- as large as a run and its turn need them: to grow a table costs more than to fill it
  local became, shapes, fields = { 0, 0 }, { false, false, false }, { '', '', '', '', '', '' }
  local added, dropped, heads, reply, news = { '', '', '', '' }, { '' }, nil, nil, false

  while first <= count do
    -- a group: from the first up to the next that does not land together with the one before it
    local past, lost = first, false
    repeat
      local item = past * ITEM
      local old, why = wrote and wrote[ARGV[4 + past]] or found[past + 1], 0
      local expects = byte(items, item - 24)
      if old then
        if expects == 2 then
          if sub(old, 2, 9) ~= sub(items, item - 23, item - 16) then why = 2 end
        elseif expects == 0 or byte(old) ~= FREE then
          why = 2
        end
      elseif expects == 2 then
        why = 2
      end
      if untimely and why == 0 then
        local high, low = byte(items, item - 26, item - 25)
        local not_before, not_after = unpacked('>I8I8', texts, (high * 256 + low - low % 2) * 13 + 44)
        if not_before == 1 then not_before = unpacked('>I8', items, item - 15) end
        if moment < not_before then why = 3 elseif not_after > 0 and moment > not_after then why = 4 end
      end
      if why > 0 then lost = true end
      became[past] = why
      past = past + 1
    until past > count or byte(items, past * ITEM - 25) % 2 == 0

    for place = first, past - 1 do
      local key = ARGV[4 + place]
      local old = wrote and wrote[key] or found[place + 1]
      if lost then
        if became[place] == 0 then became[place] = 5 end
        reply, told = reply or {}, told + 1
        reply[told] = old
      else
        local item = place * ITEM
        local high, low = byte(items, item - 26, item - 25)
        local number = high * 256 + low - low % 2 + 1
        local shape = shapes[number]
        if not shape then
          local text = number * 13 + 20
          local ttl = unpacked('>I8', texts, text + 3)
          local till = ttl > 0 and pack('>I8', moment + ttl - 1)
          local mark, grant = byte(texts, text + 1, text + 2)
          shape = { mark, till, grant == 1 and birth_text, string.char(mark) }
          shapes[number] = shape
        end
        drawn = drawn + 1
        local version = pack('>I8', drawn)
        local mark, till, fence, fence_number = shape[1], shape[2], shape[3], version
        local live, at, was = mark < CLOSED, nil, nil
        if old then
          was, at, till = byte(old), sub(old, 10, 17), till or sub(old, 18, 25)
          if not fence then fence, fence_number = sub(old, 26, 33), sub(old, 34, 41) end
        else
          at, till = sub(items, item - 15, item - 8), till or NONE
          if not fence then fence, fence_number = NONE, NONE end
        end
        if live ~= (was and was < CLOSED) then
          added[add_count + 1], added[add_count + 2] = '0', (live and 'o' or 'k') .. key
          add_count = add_count + 2
          if was then
            drop_count = drop_count + 1
            dropped[drop_count] = (live and 'k' or 'o') .. key
          end
          if at ~= NONE and not live then
            added[add_count + 1], added[add_count + 2] = '0', 'a' .. sub(key, 1, 1) .. at .. key
            add_count = add_count + 2
          elseif at ~= NONE and was then
            drop_count = drop_count + 1
            dropped[drop_count] = 'a' .. sub(key, 1, 1) .. at .. key
          end
        end
        if mark == ATTENTION and was ~= mark then
          added[add_count + 1], added[add_count + 2] = '0', 't' .. at .. key
          add_count = add_count + 2
        elseif was == ATTENTION and was ~= mark then
          drop_count = drop_count + 1
          dropped[drop_count] = 't' .. at .. key
        end
        local value = sub(values, unpacked('>I4I4', items, item - 7))
        local cell = shape[4] .. version .. at .. till .. fence .. fence_number .. value
        fields[field_count + 1], fields[field_count + 2] = key, cell
        field_count = field_count + 2
        if old then
          became[place], heads = 1, heads or { nil, nil }
          heads[#heads + 1] = sub(cell, 1, 41)
        end
        if byte(key) == 98 and sub(key, 1, 6) == 'board/' then news = true end -- 98 is b: most keys are told by it
        if wrote then wrote[key] = cell end
        if wrote or add_count > SLICE or drop_count > SLICE then
          if drop_count > 0 then call('ZREM', index, unpack(dropped, 1, drop_count)) end
          if add_count > 0 then call('ZADD', index, unpack(added, 1, add_count)) end
          add_count, drop_count = 0, 0
        end
      end
    end
    first = past
  end

  if drawn > tally then
    meta = sub(meta, 1, 9) .. pack('>I8', drawn) .. sub(meta, 18, 33) .. now_text .. sub(meta, 42)
    fields[field_count + 1], fields[field_count + 2] = FIELD, meta
    call('HSET', cells, unpack(fields, 1, field_count + 2))
    if drop_count > 0 then call('ZREM', index, unpack(dropped, 1, drop_count)) end
    if add_count > 0 then call('ZADD', index, unpack(added, 1, add_count)) end
    -- a user who may not publish has written all the same
    if news then redis.pcall('PUBLISH', sub(cells, 1, -6) .. 'news', '') end
  end
  local text = now_text .. sub(meta, 1, 44) .. string.char(unpack(became, 1, count))
  if heads then text = text .. table.concat(heads) end
  if not reply then return text end
  reply[1] = text
  return reply
end

-- What every reply begins with.
local function answered(meta, ...)
  if not meta then return { false } end
  if byte(meta) ~= SCHEMA then return redis.error_reply(NEWER) end
  return { now_text .. meta, ... }
end

local function in_slices(name, key, list)
  for from = 1, #list, SLICE do call(name, key, unpack(list, from, math.min(from + SLICE - 1, #list))) end
end

-- The meta, then the cells whose keys are ARGV[from] to ARGV[upto].
local function read(from, upto)
  local found = { call('HGET', cells, FIELD) }
  for start = from, upto, SLICE do
    for _, cell in ipairs(call('HMGET', cells, unpack(ARGV, start, math.min(start + SLICE - 1, upto)))) do
      found[#found + 1] = cell
    end
  end
  return found
end

if command == 'load' then
  local found = read(2, #ARGV)
  return answered(found[1], found)
end

-- The index anew, from the cells. Of a store from before there was a first member nothing may be missing.
local function rebuild()
  local cursor, found = '0', 0
  repeat
    local part = call('HSCAN', cells, cursor, 'COUNT', 1000)
    local added = {}
    for place = 1, #part[2], 2 do
      local key, cell = part[2][place], part[2][place + 1]
      if key ~= FIELD then
        local mark, at, first = byte(cell), sub(cell, 10, 17), #added
        added[first + 1], added[first + 2] = '0', (mark < CLOSED and 'o' or 'k') .. key
        if mark >= CLOSED and at ~= NONE then
          added[#added + 1], added[#added + 2] = '0', 'a' .. sub(key, 1, 1) .. at .. key
        end
        if mark == ATTENTION then added[#added + 1], added[#added + 2] = '0', 't' .. at .. key end
      end
    end
    for from = 1, #added, SLICE - 1 do -- an even number: a score and its member stay together
      found = found + call('ZADD', index, unpack(added, from, math.min(from + SLICE - 2, #added)))
    end
    cursor = part[1]
  until cursor == '0'
  call('ZADD', index, '0', '!' .. (found > 0 and now_text or NONE))
end

if command == 'scan' then
  local newest, prefix, mark, most = ARGV[2] == '1', ARGV[3], byte(ARGV[4]), tonumber(ARGV[6])
  local upto = ARGV[5] ~= '' and unpacked('>I8', ARGV[5])

  local function wanted(cell)
    if not cell then return false end -- somebody else deleted it
    if mark and byte(cell) ~= mark then return false end
    if not upto then return true end
    local till = unpacked('>I8', cell, 18)
    return till > 0 and till <= upto
  end

  local function walk(low, high, skip, limit)
    local found, count, looked, step, more, last = {}, 0, 0, limit, true, nil
    while more and count < limit and looked < most do
      step = math.min(step, SLICE)
      local keys, members = {}, nil
      if newest then
        members = call('ZREVRANGEBYLEX', index, high, low, 'LIMIT', 0, step)
      else
        members = call('ZRANGEBYLEX', index, low, high, 'LIMIT', 0, step)
      end
      for _, member in ipairs(members) do
        if sub(member, skip + 1, skip + #prefix) == prefix then keys[#keys + 1] = sub(member, skip + 1) end
      end
      for place, cell in ipairs(#keys > 0 and call('HMGET', cells, unpack(keys)) or {}) do
        if count < limit and wanted(cell) then
          found[count * 2 + 1], found[count * 2 + 2] = keys[place], cell
          count = count + 1
        end
      end
      more, looked, last = #members == step, looked + #members, members[#members]
      step = step * 2
      if more and newest then high = '(' .. last elseif more then low = '(' .. last end
    end
    return found, more and count < limit and last
  end

  local reply = answered(call('HGET', cells, FIELD))
  if reply[1] and #call('ZRANGEBYLEX', index, '[!', '("', 'LIMIT', 0, 1) == 0 then rebuild() end
  for range = 7, #ARGV, 4 do
    local skip, limit = tonumber(ARGV[range + 2]), tonumber(ARGV[range + 3])
    reply[#reply + 1], reply[#reply + 2] = walk(ARGV[range], ARGV[range + 1], skip, limit)
  end
  return reply
end

if command == 'purge' then
  local count = (#ARGV - 1) / 2
  local found, gone, dropped = read(2, 1 + count), {}, {}
  for place = 1, count do
    local cell, key = found[place + 1], ARGV[1 + place]
    if cell and unpacked('>I8', cell, 2) == tonumber(ARGV[1 + count + place]) then
      local mark, at = byte(cell), sub(cell, 10, 17)
      gone[#gone + 1] = key
      dropped[#dropped + 1] = (mark < CLOSED and 'o' or 'k') .. key
      if mark >= CLOSED and at ~= NONE then dropped[#dropped + 1] = 'a' .. sub(key, 1, 1) .. at .. key end
      if mark == ATTENTION then dropped[#dropped + 1] = 't' .. at .. key end
    end
  end
  in_slices('HDEL', cells, gone)
  in_slices('ZREM', index, dropped)
  return answered(found[1], #gone)
end

local meta = call('HGET', cells, FIELD)

if command == 'touch' then
  -- a write that changes nothing: a replica that has it has all that came before it
  if meta then call('HSET', cells, FIELD, meta) end
  return answered(meta)
end

-- Hello: said on every new connection, before anything else. A server with another identity than the one that wrote
-- last was restarted, or has taken the other's place. Restarted, it kept what was written if every win was on disk
-- before it was answered, and, where another may have been in between, on a replica too. In the other's place, it kept
-- it if every win was on a replica, and it was the replica of that very one when that wrote last. To continue a
-- replication is no proof of that: a Valkey that is restarted from a dump continues its own. A second is for the clocks.
-- The very one that wrote last may have followed another since, and be the master again: then it has what that one had.
-- (It draws another id without having followed anybody, too, and continues then what it had, or nothing.)
-- In a Cluster a slot may have been moved here from the one that wrote last, with all that it held: if that one lives, is
-- a master, and this server was never its replica, then nothing was lost on the way.
if meta and byte(meta) ~= SCHEMA then return redis.error_reply(NEWER) end
local identity, replication, continued, started = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]) * SECOND
local durable, replicas, failover = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
local others = ARGV[11]
local new
if meta then
  new = sub(meta, 1, 42)
  local was_durable, was_replicas = byte(meta, 43, 44)
  local least = math.min(was_replicas, replicas)
  local was_identity, was_replication = string.match(sub(meta, 45), '^(%S*) ?(%S*)$')
  local followed_another = least == 0 and was_replication ~= '' and was_replication ~= replication
    and continued ~= '' and continued ~= was_replication
  if was_identity ~= identity or followed_another then
    if is_behind(meta) then return redis.error_reply(BEHIND) end
    local kept
    if continued ~= '' then
      local followed = continued == was_replication and started + SECOND + BASE < unpacked('>I8', meta, 34)
      kept = followed and least > 0
    else
      kept = was_durable + durable == 2 and (least > 0 or not failover)
    end
    if not kept and others == '?' then return { false } end
    if not kept and continued ~= was_replication then
      kept = was_identity ~= identity and string.find(others, '\n' .. was_identity .. ' ' .. was_replication .. '\n', 1, true)
    end
    if not kept then
      new, least = sub(next_life(meta, 0, 0), 1, 42), replicas
    end
  end
  if ARGV[10] == '1' and call('HLEN', cells) == 1 then
    new = sub(new, 1, 41) .. string.char(ARGV[9]) -- whoever begins it on purpose says why there is nothing in it
  end
  new = new .. string.char(durable, least)
else
  call('DEL', index) -- it may be left where the cells were evicted or deleted
  call('ZADD', index, '0', '!' .. NONE)
  local birth = pack('>I8I8I8', now, 0, 0) .. NONE .. now_text
  new = string.char(SCHEMA) .. birth .. string.char(ARGV[9], durable, replicas)
end
new = new .. identity .. ' ' .. replication
if new ~= meta then call('HSET', cells, FIELD, new) end
return answered(new)
