-- template_spec.lua: the template engine.
local template = require "template"

local function render(text, variables, more)
  local files = more or {}
  files.t = text
  return template.render("t", function(name) return files[name] end, variables or {})
end

-- The whole message: busted's own error_matches drops file and line.
local function failure(f)
  local ok, message = pcall(f)
  assert.is_false(ok)
  return message
end

describe("template", function()
  it("copies plain text, the last line's end included", function()
    assert.equal("a\n\n  b \"c\" \\n %d\n", render('a\n\n  b "c" \\n %d\n'))
    assert.equal("a\n", render("a"))
  end)

  it("substitutes expressions, nested parentheses included", function()
    assert.equal("x3y 8z\n", render("x@(n)y @((n + 1) * 2)z\n", { n = 3 }))
    assert.equal("7@8\n", render("@(7)@8\n"))
  end)

  it("runs statements at any indentation", function()
    assert.equal("  1\n  2\n", render("@ for i = 1, 2 do\n  @(i)\n  @ end\n"))
  end)

  it("includes other templates with the same variables", function()
    assert.equal("<5>\n", render('@ include "u"\n', { n = 5 }, { u = "<@(n)>\n" }))
  end)

  it("sees nothing but its variables", function()
    assert.matches("global 'os'", failure(function() render("@ os.exit(1)\n") end))
  end)

  it("names file and line of an error when it runs", function()
    assert.matches("^t:2:", failure(function() render("a\nb @(n.x)\n") end))
    assert.matches("^t:3: the value", failure(function() render("a\n\n@(n)\n") end))
  end)

  it("names file and line of an error when it is read", function()
    assert.matches("^t:[23]:", failure(function() render("a\n@ for\nb\n") end))
  end)

  it("names file and line of an include that is not there", function()
    assert.matches('^t:2: there is no template "u"', failure(function() render('a\n@ include "u"\n') end))
  end)

  it("names the included file in its errors", function()
    assert.matches("^u:2:", failure(function() render('@ include "u"\n', {}, { u = "\n@(n)\n" }) end))
  end)
end)
