-- docs.lua BUILD: what the pages (*.md) say exists: links and their headings, commands of stridec and their options, goals of
-- make, variables; README fits its length. One line a check.
local build = arg[1] or "build"
package.path = "tests/?.lua;" .. package.path
local results = require "results"
local check, output = results.check, results.output
local function read(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end
local function folder_of(path) return path:match("^(.*)/[^/]*$") or "." end
local function exists(path) return os.execute("test -e '" .. path .. "'") end

local pages = {}
for path in output("find . -name '*.md' -not -path './" .. build .. "*' -not -path './.*' -not -path './build*' | sort"):gmatch("[^\n]+") do
  pages[#pages + 1] = {path = path:sub(3), text = read(path)}
end
local function without_code(text) return (text:gsub("\n```.-\n```", "\n")) end

-- Links, to files and to headings of pages.
local function anchors(text)
  local set = {}
  for heading in ("\n" .. without_code(text)):gmatch("\n#+ ([^\n]+)") do
    set[heading:lower():gsub("[^%w%- _\128-\255]", ""):gsub(" ", "-")] = true
  end
  return set
end
local astray = {}
for _, page in ipairs(pages) do
  for target in without_code(page.text):gmatch("%]%(([^)%s]+)%)") do
    local file, anchor = target:match("^([^#]*)#?(.*)$")
    local path = file == "" and page.path or folder_of(page.path) .. "/" .. file
    if not target:find("^%a+:") and (not exists(path) or anchor ~= "" and not anchors(read(path) or "")[anchor]) then
      astray[#astray + 1] = page.path .. ": " .. target
    end
  end
end
check("links lead somewhere", astray)

-- Variables: the table of runtime/README.md has those of env.c, and no page names another.
local known, unknown = {}, {}
for name in read("runtime/base/env.c"):gmatch('{"(STRIDEC_%u[%u_]*)"') do known[name] = true end
local rows, missing = {}, {}
for name in read("runtime/README.md"):gmatch("\n| `(STRIDEC_[%u_]+)` |") do rows[name] = true end
for name in pairs(known) do if not rows[name] then missing[#missing + 1] = name end end
check("runtime/README.md has all variables", missing)
local header = read("runtime/api/stridec.h")
for _, page in ipairs(pages) do
  for name in page.text:gmatch("STRIDEC_%u[%u_]*") do
    if not known[name] and not header:find(name, 1, true) then unknown[#unknown + 1] = page.path .. ": " .. name end
  end
end
check("variables that pages name exist", unknown)

-- Commands: in code, `stridec WORD` with its options up to `--`.
local help, wrong = {}, {}
local function code_of(text)
  local code = {}
  for block in text:gmatch("\n```[^\n]*\n(.-)\n```") do code[#code + 1] = block end
  for span in without_code(text):gmatch("`([^`]+)`") do code[#code + 1] = span:gsub("%s+", " ") end
  return table.concat(code, "\n")
end
for _, page in ipairs(pages) do
  for line in code_of(page.text):gmatch("[^\n]+") do
    for command, rest in line:gmatch("stridec ([%l]+)([^|;&#]*)") do
      help[command] = help[command] or output(build .. "/stridec help " .. command .. " 2>&1 || true")
      local shown = help[command]
      if shown:find("^usage: ") then
        for option in (rest .. " "):gsub(" %-%- .*", " "):gmatch("%s(%-%-[%l-]+)") do
          if not shown:find(option, 1, true) then
            wrong[#wrong + 1] = page.path .. ": stridec " .. command .. " has no " .. option
          end
        end
      elseif line:find("^%s*stridec " .. command) then
        wrong[#wrong + 1] = page.path .. ": no command " .. command
      end
    end
  end
end
check("commands and options that pages name exist", wrong)

-- Goals of make.
local goals, absent = {}, {}
for goal in output("make -rpn --no-print-directory -f Makefile BUILD=" .. build .. " .PHONY 2>/dev/null || true"):gmatch("\n([%w_-]+):") do
  goals[goal] = true
end
for _, page in ipairs(pages) do
  for words in page.text:gmatch("`make ([^`\n]+)`") do
    local goal = words:match("^([%l][%l%d-]*)")
    if goal and not goals[goal] then absent[#absent + 1] = page.path .. ": make " .. goal end
  end
end
check("goals of make that pages name exist", absent)

local _, lines = read("README.md"):gsub("\n", "\n")
check("README.md has at most 180 lines", lines <= 180 and {} or {lines .. " lines"})
results.exit()
