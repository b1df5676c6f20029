-- template.lua: text with Lua in it.
--
-- A line whose first mark is `@` is a Lua statement; in any other line `@(expression)` is replaced by its
-- value. Each line of a template becomes one line of Lua, so Lua's own messages name the template's file
-- and line. `include "name"` inserts another template, with the same variables in sight.
local template = {}

-- The Lua statement that writes one line of text.
local function write_line(text)
  local parts, at = {}, 1
  while true do
    local first, last, expression = text:find("@(%b())", at)
    parts[#parts + 1] = ("%q"):format(text:sub(at, (first or 0) - 1))
    if not first then break end
    parts[#parts + 1] = expression
    at = last + 1
  end
  return "write(" .. table.concat(parts, ", ") .. ")"
end

local function to_lua(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch("([^\n]*)\n") do
    local statement = line:match("^%s*@([^(].*)$") or line:match("^%s*@()$") and ""
    lines[#lines + 1] = statement or write_line(line)
  end
  return table.concat(lines, "\n")
end

-- Renders the template `name`. read(name) returns its text; `variables` is all that it sees, with Lua's
-- ipairs, pairs, string and table. Raises "FILE:LINE: message".
function template.render(name, read, variables)
  local out = {}
  local env = { ipairs = ipairs, pairs = pairs, string = string, table = table }
  for key, value in pairs(variables) do env[key] = value end

  function env.write(...)
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      if value == nil then error(("the value of expression %d in this line is nil"):format(i // 2), 2) end
      out[#out + 1] = tostring(value)
    end
    out[#out + 1] = "\n"
  end

  function env.include(file)
    local text = read(file)
    if not text then error(("there is no template %q"):format(file), 2) end
    local chunk, message = load(to_lua(text), "@" .. file, "t", env)
    if not chunk then error(message, 0) end
    chunk()
  end

  env.include(name)
  return table.concat(out)
end

return template
