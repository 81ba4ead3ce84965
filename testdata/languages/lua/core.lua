-- Tables, closures, metatables, coroutines, patterns, files, processes.
local function sorted(t, by)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, by)
  return keys
end

local count = {}
for w in ('a glove in a box in a cell'):gmatch('%a+') do count[w] = (count[w] or 0) + 1 end
local line = {}
for _, w in ipairs(sorted(count, function(a, b) return count[a] > count[b] or count[a] == count[b] and a < b end)) do line[#line + 1] = w .. '=' .. count[w] end
print(table.concat(line, ','))

local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({ x = a.x + b.x }, Point) end
Point.__tostring = function(p) return '(' .. p.x .. ')' end
Point.__lt = function(a, b) return a.x < b.x end
local p = setmetatable({ x = 1 }, Point)
print(tostring(p + p), p < p + p, getmetatable(p) == Point)

local fib = coroutine.wrap(function()
  local a, b = 0, 1
  while true do
    coroutine.yield(a)
    a, b = b, a + b
  end
end)
for _ = 1, 10 do io.write(fib(), ' ') end
print()
print(('key=value'):gsub('(%w+)=(%w+)', '%2=%1'), ('%05.2f %x %q'):format(math.pi, 255, 'a\n'), utf8.len('→ 漢字'), #'→')
print(7 // 2, 7 % 3, 2 ^ 10, 1 << 4, math.maxinteger, 0x10, 10 / 2, math.type(3.0), tostring(1e100))
print(select('#', table.unpack({ 1, nil, 3 }, 1, 3)), select(2, 'a', 'b', 'c'))
print(pcall(error, { code = 42 }) == false, select(2, pcall(function() error('text', 0) end)), select(2, xpcall(function() return nil + 1 end, function(m) return m:match('attempt.*') end)))
do
  local closed <close> = setmetatable({}, { __close = function() print('closed') end })
  local limit <const> = 3
  for i = 1, limit do if i == 2 then goto continue end io.write(i, ' ') ::continue:: end
  print()
end
print(load('return ...')(42), string.pack('>I2', 258):byte(1, -1))
print(string.unpack('<i4', '\1\0\0\0'), ('x'):rep(3, '-'), ('glove'):reverse():upper())

local name = os.tmpname()
local f = assert(io.open(name, 'w'))
f:write('one\n', 2, '\n', 'three → é\n')
f:close()
local lines = {}
for l in io.lines(name) do lines[#lines + 1] = l end
print(name:match('^/tmp/') ~= nil, table.concat(lines, '|'), select(2, io.open('/etc/shadow')))
print(os.rename(name, '/tmp/moved'), os.remove('/tmp/moved'), select(2, os.remove('/tmp/moved')))
f = io.tmpfile()
f:write('12 0x1F 3.5 rest')
f:seek('set')
print(f:read('n', 'n', 'n', 'a'))

local pipe = io.popen('echo $((6 * 7)); exit 3')
print(pipe:read('a'):gsub('\n', ''), pipe:close())
print(os.execute('exit 4'))
print(os.execute('kill -9 $$'))
pipe = io.popen('tr a-z A-Z', 'w')
pipe:write('through\n')
io.stdout:flush()
pipe:close()
print(os.date('!%F', 86400), os.date('%Z'), os.getenv('HOME'), os.getenv('GIVEN'), os.time({ year = 1970, month = 1, day = 2, hour = 0 }))
print(arg[0], #arg, table.concat(arg, '|'), io.read('l'), io.read('n'), io.read('a'))
package.preload.mod = function() return { v = 1 } end
local other = assert(io.open('other.lua', 'w'))
other:write('return { name = ... }')
other:close()
print(require('mod').v, require('other').name)
local before = collectgarbage('count')
local big = {}
for i = 1, 100000 do big[i] = { i } end
table.sort(big, function(a, b) return a[1] > b[1] end)
print(big[1][1], collectgarbage('count') > before)
io.stderr:write('to stderr\n')
os.exit(7, true)
