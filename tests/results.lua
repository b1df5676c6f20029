-- results.lua: for the tests in Lua: a line for each check. `package.path` must hold "tests/?.lua".
local results = {failed = false}

-- Prints whether a check found nothing wrong, and what it found.
function results.check(name, wrong)
  print((#wrong == 0 and "ok " or "not ok ") .. name)
  for _, what in ipairs(wrong) do print("    " .. what) end
  results.failed = results.failed or #wrong > 0
end

-- Returns what a command writes; an error if it fails.
function results.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  assert(pipe:close(), command)
  return text
end

-- Ends the test.
function results.exit() os.exit(not results.failed) end

return results
