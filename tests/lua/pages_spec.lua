-- pages_spec.lua: what the pages of the command are made with: JSON, numbers for people, advice.
package.path = "runtime/pages/?.lua;" .. package.path
local json, format, advice = require "json", require "format", require "advice"

local function refused(f, ...)
  local ok, why = pcall(f, ...)
  assert.is_false(ok)
  return type(why) == "table" and why[1] or why
end

describe("json", function()
  it("reads all kinds of values", function()
    local v = json.read ' { "a" : [ 1 , -2.5e3, true, false, null, [] ], "b": {"n": 3}, "c": null, "d": "" } '
    assert.same({ "integer", 1, -2500.0, true, false, 6 },
                { math.type(v.a[1]), v.a[1], v.a[2], v.a[3], v.a[4], v.a.n })
    assert.is_nil(v.a[5])
    assert.equal(0, v.a[6].n)
    assert.same({ n = 3 }, v.b)
    assert.is_nil(v.c)
    assert.equal("", v.d)
  end)
  it("keeps large integers", function()
    assert.equal(9223372036854775807, json.read "9223372036854775807")
    assert.equal("float", math.type(json.read "9223372036854775808"))
  end)
  it("reads escapes, and characters of two halves", function()
    assert.equal('a"\\/\b\f\n\r\t\u{e9}\u{1F600}', json.read [["a\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00"]])
    assert.equal("\u{FFFD}x\u{FFFD}", json.read [["\ud83dx\uDE00"]])
  end)
  it("says where a file is broken", function()
    assert.equal("line 2, byte 5 of the file: a value expected", refused(json.read, "[\n1,x]"))
    for _, text in ipairs { "", "{", "[1,]", "{,}", "{1:2}", "01", "1.", ".5", "+1", "1e", "- 1", "truth", '"', '"\n"',
                            '"\\u12"', "[1 2]", '{"a" 1}', "1 2", "NaN", "'a'", '{"a":1,"a":2}', "1e999" } do
      assert.matches("^line %d", refused(json.read, text))
    end
  end)
  it("bounds the depth", function()
    assert.equal(1, json.read(("["):rep(60) .. ("]"):rep(60)).n)
    assert.matches("nested too deeply", refused(json.read, ("["):rep(65) .. ("]"):rep(65)))
  end)
end)

describe("shapes", function()
  local shape = { a = "count", b = { list = { c = "text" } } }
  it("keep what they name, and leave out null", function()
    local v = json.check(json.read '{"a": 1, "b": [{"c": "x", "d": 5}, null, {"c": null}], "e": []}', shape, "")
    assert.same({ a = 1, b = { { c = "x" }, {} } }, v)
  end)
  it("say what is not as expected, and where", function()
    local function check(text) return refused(json.check, json.read(text), shape, "") end
    assert.equal("a is a text, where a number is expected", check '{"a": "1"}')
    assert.equal("a is negative", check '{"a": -1}')
    assert.equal("b is an object, where a list is expected", check '{"b": {"n": 1}}')
    assert.equal("b[2].c is a boolean, where a text is expected", check '{"b": [{}, {"c": true}]}')
  end)
end)

describe("format", function()
  it("writes numbers", function()
    assert.same({ "0", "999", "-1,000", "1,234,567", "0.5" },
                { format.count(0), format.count(999), format.count(-1000), format.count(1234567.0), format.count(0.5) })
    assert.same({ "1,023 B", "1.00 KiB", "10.0 KiB", "100 KiB", "8.00 EiB", "0 B" },
                { format.bytes(1023), format.bytes(1024), format.bytes(10239), format.bytes(102400),
                  format.bytes(1 << 62) and format.bytes(2.0 ^ 63), format.bytes(0) })
    assert.same({ "0.02", "9.99", "41.5", "2,011" },
                { format.rate(0.02), format.rate(9.99), format.rate(41.49), format.rate(2010.5) })
    assert.same({ "–", "0.0 %", "< 0.1 %", "99.99 %", "100.0 %" },
                { format.percent(1, 0), format.percent(0, 5), format.percent(1, 1e5), format.percent(9999, 10000),
                  format.percent(7, 7) })
    assert.same({ "1 row", "2 rows", "0 launches" },
                { format.plural(1, "row"), format.plural(2, "row"), format.plural(0, "launch", "launches") })
  end)
  it("escapes what a page must not hold", function()
    assert.equal("&lt;a b=&quot;&#39;&amp;&quot;&gt;", format.escape [[<a b="'&">]])
    assert.equal("\u{FFFD}\t\n\u{FFFD}\u{E9}", format.escape "\0\t\n\27\u{E9}")
    assert.equal("a\u{FFFD}b", format.escape "a\xff\xfeb")
  end)
  it("cuts between characters", function()
    assert.equal("äö…", format.cut("äöüß", 3))
    assert.equal("äöüß", format.cut("äöüß", 4))
  end)
end)

describe("advice", function()
  it("follows from reasons, most bytes first, what is fine last", function()
    local found = advice.choose({ { why = "host memory, in one piece", bytes = 9e9 },
                                  { why = "not in built-in figures", bytes = 5 }, { why = "a brief message", bytes = 50 },
                                  { why = "by STRIDEC_TRANSPORT", bytes = 50 },
                                  { why = "whatever" } }, { slow = "T is slow." })
    local titles = {}
    for i, one in ipairs(found) do titles[i] = one.rule.title end
    assert.same({ "Messages were short", "A transport was forced", "The ways were chosen by built-in figures",
                  "Packing was far from what this GPU can do", "The MPI is as quick here" }, titles)
    assert.equal("T is slow.", found[4].note)
  end)
end)
