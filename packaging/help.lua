-- help.lua: `lua help.lua LISTING OVERVIEW ENV_C VERSION OUT` writes into the folder OUT man pages (stridec.1 and
-- stridec-COMMAND.1) and completions for bash (stridec.bash) and zsh (_stridec).
-- LISTING is what `stridec help --list` prints, OVERVIEW what `stridec --help` does, ENV_C runtime/base/env.c.
local listing, overview, env_c, version, out = table.unpack(arg)

local function read(path)
  local f <close> = assert(io.open(path))
  return f:read("a")
end
local function write(name, lines)
  local f <close> = assert(io.open(out .. "/" .. name, "w"))
  assert(f:write(table.concat(lines, "\n"), "\n"))
end
local function map(list, f)
  local result = {}
  for i, x in ipairs(list) do result[i] = f(x) end
  return result
end
local function join(list, f, between) return table.concat(map(list, f), between or " ") end

-- The commands as the option tables have them.
local commands = {}
for line in io.lines(listing) do
  local kind, rest = line:match("^(%a+)\t(.*)$")
  local c = commands[#commands]
  if kind == "command" then
    local name, program, synopsis, summary = rest:match("^(.-)\t(.-)\t(.-)\t(.*)$")
    commands[#commands + 1] =
      { name = name, program = program ~= "", synopsis = synopsis, summary = summary, notes = {}, options = {} }
  elseif kind == "note" then
    c.notes[#c.notes + 1] = rest:match("^%s*(.*)$")
  elseif kind == "option" then
    local name, value = rest:match("^(.-)\t(.*)$")
    c.options[#c.options + 1] = { name = name, value = value, help = {} }
  else
    assert(kind == "help", line)
    table.insert(c.options[#c.options].help, rest)
  end
end
assert(#commands > 0, "no commands")
for _, c in ipairs(commands) do
  c.options[#c.options + 1] = { name = "--help", value = "", help = { "print a summary" } }
end

-- ---- man pages ----

local function roff(text)
  return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1"))
end
local function page(name, summary, synopsis)
  return { ('.TH %s 1 "" "stridec %s" "User Commands"'):format(name:upper(), version), ".SH NAME",
           roff(name) .. " \\- " .. roff(summary), ".SH SYNOPSIS", ".ad l", ".nh",
           ".B " .. roff((name:gsub("%-", " "))), roff(synopsis), ".hy", ".ad b" }
end
local function add(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

for _, c in ipairs(commands) do
  local name = "stridec-" .. c.name
  local lines = page(name, c.summary, c.synopsis)
  if #c.notes > 0 then lines[#lines + 1] = ".SH DESCRIPTION" end
  add(lines, map(c.notes, roff))
  lines[#lines + 1] = ".SH OPTIONS"
  for _, o in ipairs(c.options) do
    add(lines, { ".TP", (o.value == "" and ".B %s" or ".BI %s \" %s\""):format(roff(o.name), roff(o.value)) })
    add(lines, map(o.help, roff))
  end
  add(lines, { ".SH SEE ALSO", ".BR stridec (1)" })
  write(name .. ".1", lines)
end

-- Takes from the overview the first sentence and what holds for all commands, not the list of them. Lines that are set
-- in, such as a table of exit statuses, stay as they are.
local prose = {}
for paragraph in (read(overview) .. "\n"):gmatch("(.-\n)\n+") do
  if not paragraph:match("^  stridec ") then
    if #prose > 0 then prose[#prose + 1] = ".PP" end
    local table_of = false
    for line in paragraph:gmatch("[^\n]+") do
      local set_in = line:match("^ ") ~= nil
      if set_in ~= table_of then add(prose, { set_in and ".RS 4\n.nf" or ".fi\n.RE" }) end
      table_of = set_in
      prose[#prose + 1] = roff(line)
    end
    if table_of then prose[#prose + 1] = ".fi\n.RE" end
  end
end
local lines = page("stridec", "compile MPI datatypes into GPU kernels", "COMMAND [OPTION...] [ARGUMENT...]")
lines[#lines + 1] = ".SH DESCRIPTION"
add(lines, prose)
lines[#lines + 1] = ".SH COMMANDS"
for _, c in ipairs(commands) do
  add(lines, { ".TP", (".BR stridec\\-%s (1)"):format(roff(c.name)), roff(c.summary) })
end
lines[#lines + 1] = ".SH ENVIRONMENT"
local variables = 0
for name, default, purpose in read(env_c):gmatch('{"(STRIDEC_[%u_]+)", [%w_]+, "(.-)", .-AS_%u+,%s*"(.-)"') do
  variables = variables + 1
  add(lines, { ".TP", ".B " .. roff(name), roff(purpose), "(default: " .. roff(default) .. ")" })
end
assert(variables > 0, "no variables in " .. env_c)
lines[#lines + 1] = ".SH SEE ALSO"
lines[#lines + 1] = join(commands, function(c) return ".BR stridec\\-" .. roff(c.name) .. " (1)" end, ",\n")
write("stridec.1", lines)

-- ---- completion ----

local words = join(commands, function(c) return c.name end) .. " help --help --version"
-- Which names stand for a value: folders, files, or nothing that a shell knows.
local function kind_of(value)
  if value == "" then return "none" end
  return value:match("DIR") and "folder" or value:match("FILE") and "file" or value:match("SPEC") and "file" or "other"
end

local bash = { "# bash completion of stridec; made from the tables of its options.", "_stridec()", "{",
  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options='' i",
  "    COMPREPLY=()",
  "    if ((COMP_CWORD == 1)); then",
  ("        mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")"):format(words),
  "        return", "    fi", "    case $command in" }
for _, c in ipairs(commands) do
  bash[#bash + 1] = ("    %s) options='%s' ;;"):format(c.name, join(c.options, function(o) return o.name end))
end
add(bash, { ("    help) options='%s' ;;"):format(join(commands, function(c) return c.name end)), "    esac" })
local programs, skipped = {}, { "*\\ -*" }
for _, c in ipairs(commands) do
  if c.program then
    programs[#programs + 1] = c.name
    for _, o in ipairs(c.options) do if o.value ~= "" then table.insert(skipped, 1, o.name .. "\\ *") end end
  end
end
add(bash, {
  "    case $command in",
  ("    %s)   # behind the program all is the program's"):format(table.concat(programs, " | ")),
  "        for ((i = 2; i < COMP_CWORD; i++)); do",
  ("            case \"${COMP_WORDS[i - 1]} ${COMP_WORDS[i]}\" in %s) continue ;; esac")
    :format(table.concat(skipped, " | ")),
  "            ! declare -F _command_offset >/dev/null || _command_offset $i",
  "            return",
  "        done",
  "        if [[ $word != -* ]]; then",
  "            mapfile -t COMPREPLY < <(compgen -c -- \"$word\")",
  "            return",
  "        fi ;;",
  "    esac",
  "    case \"$command $before\" in" })
for _, kind in ipairs { "folder", "other" } do
  local cases = {}
  for _, c in ipairs(commands) do
    for _, o in ipairs(c.options) do
      if kind_of(o.value) == kind then cases[#cases + 1] = ('"%s %s"'):format(c.name, o.name) end
    end
  end
  if #cases > 0 then
    add(bash, { "    " .. table.concat(cases, " | ") .. ")",
      kind == "folder" and "        mapfile -t COMPREPLY < <(compgen -d -- \"$word\")" or "        compopt +o default",
      "        return ;;" })
  end
end
add(bash, { "    esac", "    if [[ $word == -* || $command == help ]]; then",
  "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")", "    fi", "}",
  "complete -o default -F _stridec stridec" })
write("stridec.bash", bash)

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end
local function described(text) return (text:gsub("\\", "\\\\"):gsub("[][:]", "\\%0")) end
local ACTION = { folder = "_files -/", file = "_files", other = " " }
local zsh = { "#compdef stridec", "# zsh completion of stridec; made from the tables of its options.",
  "local -a commands", "commands=(" }
for _, c in ipairs(commands) do zsh[#zsh + 1] = "    " .. quoted(c.name .. ":" .. described(c.summary)) end
add(zsh, { "    'help:a command and its options'", ")",
  "if ((CURRENT == 2)); then", "    _describe command commands -- '(--help --version)'", "    return", "fi",
  "local command=$words[2]", "shift words", "((CURRENT--))", "case $command in" })
for _, c in ipairs(commands) do
  local specs = map(c.options, function(o)
    local action = o.value == "" and "" or (":%s:%s"):format(described(o.value), ACTION[kind_of(o.value)])
    return quoted(("%s[%s]%s"):format(o.name, described(table.concat(o.help, " ")), action))
  end)
  add(specs, c.program and { "'(-):program:_command_names -e'", "'*::argument:_normal'" } or { "'*:file:_files'" })
  zsh[#zsh + 1] = ("%s) _arguments \\\n    %s ;;"):format(c.name, table.concat(specs, " \\\n    "))
end
add(zsh, { "help) ((CURRENT > 2)) || _describe command commands ;;", "esac" })
write("_stridec", zsh)
