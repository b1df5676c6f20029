/* test_spec.c: spec files, good and malformed: what they yield, and that no text hangs, crashes or escapes. */
#include "../../spec/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/stridec-spec-XXXXXX";
static char file[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/a.lua", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static void write_spec(const char *text, size_t bytes)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static struct spec *load(const char *text)
{
    struct reason why = {""};
    write_spec(text, strlen(text));
    struct spec *s = spec_load(file, &why);
    if (!s)
        fail_msg("%s", why.text);
    return s;
}

/* The message for a text that must fail: it begins with FILE:LINE, or FILE where line is 0. */
static const char *refusal(const char *text, size_t bytes, int line)
{
    static struct reason why;
    char place[96], number[16] = "";
    write_spec(text, bytes);
    memset(&why, 0, sizeof why);
    struct spec *s = spec_load(file, &why);
    spec_free(s);
    assert_null(s);
    if (line) snprintf(number, sizeof number, ":%d", line);
    snprintf(place, sizeof place, "%s%s: ", file, number);
    if (strncmp(why.text, place, strlen(place)) != 0)
        fail_msg("expected %s..., got %s\n%s", place, why.text, bytes < 400 ? text : "");
    const char *what = why.text + strlen(place), *colon = strstr(what, ": ");
    if (colon && !strncmp(colon + 2, what, (size_t)(colon + 2 - what))) fail_msg("named twice: %s", why.text);
    return why.text;
}

static void refused(const char *text, int line, const char *part)
{
    const char *message = refusal(text, strlen(text), line);
    if (!strstr(message, part))
        fail_msg("'%s' is not in: %s", part, message);
}

/* ---- what is right ---- */

static void check_numbers(const char *constructor, int64_t size, int64_t lb, int64_t extent)
{
    char text[256];
    snprintf(text, sizeof text, "return {t = %s}", constructor);
    struct spec *s = load(text);
    assert_int_equal(s->count, 1);
    assert_string_equal(s->item[0].name, "t");
    const struct type *t = s->item[0].type;
    if (t->size != size || t->lb != lb || t->ub - t->lb != extent)
        fail_msg("%s: size %lld, lb %lld, extent %lld", constructor, (long long)t->size, (long long)t->lb,
                 (long long)(t->ub - t->lb));
    spec_free(s);
}

static void each_constructor(void **state)
{
    (void)state;
    check_numbers("contiguous(3, int)", 12, 0, 12);
    check_numbers("vector(2, 3, 5, int)", 24, 0, 32);
    check_numbers("hvector(2, 3, 48, int)", 24, 0, 60);
    check_numbers("hvector(2, 1, -8, int)", 8, -8, 12);
    check_numbers("indexed({1, 2}, {3, 5}, int)", 12, 12, 16);
    check_numbers("hindexed({1, 2}, {4, 16}, int)", 12, 4, 20);
    check_numbers("indexed_block(2, {0, 4}, int)", 16, 0, 24);
    check_numbers("hindexed_block(2, {0, 40}, int)", 16, 0, 48);
    check_numbers("struct({1, 1}, {0, 8}, {double, char})", 9, 0, 16);
    check_numbers("subarray{sizes = {4, 6}, subsizes = {2, 3}, starts = {1, 2}, of = float}", 24, 0, 96);
    check_numbers("darray{size = 4, rank = 3, gsizes = {7, 5}, distribs = {'cyclic', 'block'}, dargs = {2, 0}, "
                  "psizes = {2, 2}, of = float}", 24, 0, 140);
    check_numbers("subarray{sizes = {6, 4}, subsizes = {3, 2}, starts = {2, 1}, order = 'Fortran', of = float}", 24,
                  0, 96);
    check_numbers("resized(-4, 32, int)", 4, -4, 32);
    check_numbers("dup(double_complex)", 16, 0, 16);
    check_numbers("signature 's(3,16,d(4))@8'", 12, 8, 36);
    check_numbers("signature{'s(3,16', ',d(4))@8', ''}", 12, 8, 36);
    check_numbers("contiguous(2, signature 'd(4)@4')", 8, 4, 8);
    check_numbers("contiguous(0, int)", 0, 0, 0);
    check_numbers("contiguous(2.0, int)", 8, 0, 8);
    check_numbers("contiguous(2^32, contiguous(2^20, byte))", (int64_t)1 << 52, 0, (int64_t)1 << 52);
}

static void each_named_type(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
    } named[] = {
        {"byte", 1}, {"char", 1}, {"short", sizeof(short)}, {"int", sizeof(int)}, {"long", sizeof(long)},
        {"long_long", sizeof(long long)}, {"float", 4}, {"double", 8}, {"long_double", sizeof(long double)},
        {"float_complex", 8}, {"double_complex", 16}, {"int8", 1}, {"int16", 2}, {"int32", 4}, {"int64", 8},
        {"uint8", 1}, {"uint16", 2}, {"uint32", 4}, {"uint64", 8},
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        check_numbers(named[i].name, (int64_t)named[i].size, 0, (int64_t)named[i].size);
}

static void names_and_lines(void **state)
{
    (void)state;
    struct spec *s = load("#! a line for the shell\nlocal a = contiguous(2, int)\nreturn {\n  b = vector(1, 1, 1, a),\n"
                          "  ['x-1.y_'] = a,\n  _ = a, B = dup(a) }\n");
    static const char *const names[] = {"B", "_", "b", "x-1.y_"};
    static const int lines[] = {6, 2, 4, 2};
    assert_int_equal(s->count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(s->item[i].name, names[i]);
        assert_int_equal(s->item[i].line, lines[i]);
    }
    spec_free(s);
}

static void libraries(void **state)
{
    (void)state;
    struct spec *s = load("local l = {3, 1, 2}\ntable.sort(l)\nassert(l[1] == 1 and l[3] == 3)\n"
                          "table.sort(l, function(a, b) return a > b end)\nassert(l[1] == 3)\n"
                          "table.insert(l, 9) table.insert(l, 1, 7)\n"
                          "assert(table.concat(l, ',') == '7,3,2,1,9')\n"
                          "assert(table.remove(l, 1) == 7 and table.remove(l) == 9 and #l == 3)\n"
                          "assert(table.remove({}) == nil and select('#', table.unpack({1, 2})) == 2)\n"
                          "assert(('ab'):rep(3, '-') == 'ab-ab-ab' and ('x'):rep(0) == '')\n"
                          "assert((''):rep(1 << 62) == '')\n"
                          "assert(not pcall(contiguous, -1, int) and tostring(int):len() > 4)\n"
                          "assert(math.max(1, 2) == 2 and ('%d'):format(3) == '3' and tonumber('4') == 4)\n"
                          "return {t = int}");
    spec_free(s);
}

/* ---- what is wrong ---- */

static void unsafe_things_are_absent(void **state)
{
    (void)state;
    static const char *const absent[] = {
        "io", "os", "require", "load", "loadstring", "loadfile", "dofile", "debug", "package", "coroutine", "utf8",
        "setmetatable", "getmetatable", "rawset", "rawget", "collectgarbage", "print", "warn", "xpcall", "_G",
        "string.dump", "string.find", "string.gsub", "string.gmatch", "string.match", "('').find", "('').dump",
        "table.move", "math.random", "string.pack",
    };
    char text[128];
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        snprintf(text, sizeof text, "local there, it = pcall(function() return %s end)\nassert(not there or it == nil)\nreturn {t = int}", absent[i]);
        spec_free(load(text));
    }
}

static void wrong_arguments(void **state)
{
    (void)state;
    refused("return {a = contiguous(-1, int)}", 1, "contiguous: count must not be negative, is -1");
    refused("\nreturn {a = vector(1, -2, 3, int)}", 2, "vector: blocklength must not be negative, is -2");
    refused("return {a = contiguous(1.5, int)}", 1, "count must be a whole number below 2^63, is 1.5");
    refused("return {a = contiguous('2', int)}", 1, "count must be a whole number below 2^63, is string");
    refused("return {a = contiguous(2^63, byte)}", 1, "count must be a whole number below 2^63");
    refused("return {a = contiguous(9223372036854775808, byte)}", 1, "below 2^63");
    refused("return {a = contiguous(0/0, byte)}", 1, "below 2^63");
    refused("return {a = contiguous(2, itn)}", 1, "there is no `itn`");
    refused("return {a = int,\nb = complex}", 2, "there is no `complex`");
    refused("return {a = contiguous(2, nil)}", 1, "contiguous: oldtype must be a type, is nil");
    refused("return {a = contiguous(2, {})}", 1, "contiguous: oldtype must be a type, is table");
    refused("return {a = contiguous(2)}", 1, "contiguous: oldtype must be a type, is nil");
    refused("return {a = contiguous(2, int, 3)}", 1, "contiguous: takes 2 arguments, got 3");
    refused("return {a = dup()}", 1, "dup: oldtype must be a type, is nil");
    refused("return {a = resized(0, 'x', int)}", 1, "resized: extent must be");
    refused("return {a = vectr(2, int)}", 1, "vectr");
}

static void wrong_signatures(void **state)
{
    (void)state;
    refused("return {a = signature(5)}", 1, "signature: takes a signature, or a list of its parts");
    refused("return {a = signature{'s(3,16', 5}}", 1, "signature: part 2 is no string");
    refused("return {\n a = signature 's(3,16,d(4)'}", 2, "signature: ");
    refused("return {a = signature ''}", 1, "signature: ");
    refused("return {a = signature('d(4)', int)}", 1, "signature: takes 1 argument");
}

/* Lists of signatures in place of Lua. */
static void lists_of_signatures(void **state)
{
    (void)state;
    struct spec *s = load("\n # of a run\nface x\ts(3,16,d(4))@8\n\nd(8)\r\n");
    static const char *const names[] = {"face x", "line_5"};
    static const int lines[] = {3, 5}, sizes[] = {12, 8};
    assert_int_equal(s->count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(s->item[i].name, names[i]);
        assert_int_equal(s->item[i].line, lines[i]);
        assert_int_equal(s->item[i].type->size, sizes[i]);
    }
    spec_free(s);
    refused("d(4)\n\nx\ts(3,16,d(4)\n", 3, "signature: ");
    refused("d(4)\nreturn {}\n", 2, "signature: ");
}

static void wrong_lists(void **state)
{
    (void)state;
    refused("return {a = indexed({1}, {1, 2}, int)}", 1, "blocklengths has 1 entries, displacements has 2");
    refused("return {a = indexed({-1}, {1}, int)}", 1, "blocklengths[1] must not be negative, is -1");
    refused("return {a = indexed({1, 'x'}, {1, 2}, int)}", 1, "blocklengths[2] must be a whole number");
    refused("return {a = indexed(3, {1, 2}, int)}", 1, "blocklengths must be a list, is 3");
    refused("return {a = indexed({1, x = 2}, {1, 2}, int)}", 1, "without gaps or named entries");
    refused("return {a = hindexed_block(1, {[1] = 0, [3] = 1}, int)}", 1, "without gaps");
    refused("local t = {}\nfor i = 0, 62 do t[1 << i] = 1 end\nreturn {a = indexed_block(1, t, int)}", 3,
            "displacements must");
    refused("return {a = struct({1}, {0}, {1})}", 1, "types[1] must be a type, is 1");
    refused("return {a = struct({1}, {0}, {int, int})}", 1, "blocklengths has 1 entries, types has 2");
}

static void wrong_darrays(void **state)
{
    (void)state;
    refused("return {a = darray{}}", 1, "size must be a whole number");
    refused("return {a = darray{size = 2, rank = 2, gsizes = {4}, distribs = {'block'}, psizes = {2}, of = int}}", 1,
            "rank 2 of size 2 does not lie in a grid of 2");
    refused("return {a = darray{size = 2, rank = 0, gsizes = {4}, distribs = {'blok'}, psizes = {2}, of = int}}", 1,
            "distribs[1] must be");
    refused("return {a = darray{size = 2, rank = 0, gsizes = {4}, distribs = {'none'}, psizes = {2}, of = int}}", 1,
            "psizes[1] is 2, not 1");
    refused("return {a = darray{size = 2, rank = 0, gsizes = {4, 4}, distribs = {'none'}, psizes = {2, 1}, of = int}}",
            1, "distribs must have as many entries as gsizes, 2");
    refused("return {a = darray{size = 2, rank = 0, gsizes = {4}, distribs = {'block'}, dargs = {1}, psizes = {2}, "
            "of = int}}", 1, "dargs[1] is 1, not enough");
}

static void wrong_subarrays(void **state)
{
    (void)state;
    refused("return {a = subarray{sizes = {2}, subsizes = {3}, starts = {0}, of = int}}", 1, "do not lie within");
    refused("return {a = subarray{sizes = {2}, subsizes = {1}, starts = {2}, of = int}}", 1, "do not lie within");
    refused("return {a = subarray{sizes = {2}, subsizes = {1}, starts = {math.maxinteger}, of = int}}", 1,
            "do not lie within");
    refused("return {a = subarray{sizes = {2}, subsizes = {-1}, starts = {0}, of = int}}", 1, "do not lie within");
    refused("return {a = subarray{sizes = {2, 2}, subsizes = {1}, starts = {0}, of = int}}", 1, "equally many");
    refused("return {a = subarray{sizes = {}, subsizes = {}, starts = {}, of = int}}", 1, "dimensions");
    refused("return {a = subarray{sizes = {2}, sub_sizes = {1}, starts = {0}, of = int}}", 1,
            "unknown field sub_sizes");
    refused("return {a = subarray{sizes = {2}, starts = {0}, of = int}}", 1, "subsizes must be a list, is nil");
    refused("return {a = subarray{sizes = {2}, subsizes = {1}, starts = {0}, order = 'c', of = int}}", 1, "order");
    refused("return {a = subarray{sizes = {2}, subsizes = {1}, starts = {0}}}", 1, "of must be a type, is nil");
    refused("return {a = subarray(2, {1}, {1}, {0}, int)}", 1, "takes one table");
}

static void overflow(void **state)
{
    (void)state;
    refused("return {a = contiguous(math.maxinteger, int)}", 1, "contiguous: ");
    refused("local t = byte\nfor i = 1, 70 do\n  t = contiguous(2, t)\nend\nreturn {t = t}", 3, "contiguous: ");
    refused("return {a = vector(2, 1, math.maxinteger, int)}", 1, "vector: ");
    refused("return {a = hvector(3, 1, math.maxinteger, int)}", 1, "hvector: ");
    refused("return {a = hvector(3, 1, math.mininteger, int)}", 1, "hvector: ");
    refused("return {a = hindexed({1, 1}, {math.mininteger, math.maxinteger}, int)}", 1, "hindexed: ");
    refused("return {a = resized(math.maxinteger, math.maxinteger, int)}", 1, "resized: ");
    refused("return {a = struct({1, math.maxinteger}, {0, 0}, {int, int})}", 1, "struct: ");
    refused("return {a = subarray{sizes = {1 << 40, 1 << 40}, subsizes = {1, 1}, starts = {0, 0}, of = int}}", 1,
            "subarray: ");
}

static void deep_nesting(void **state)
{
    (void)state;
    refused("local t = int\nwhile true do\n t = hvector(2, 1, 1, resized(0, 1, t))\nend\nreturn {t = t}", 3, "");
    refused("local t = contiguous(0, int)\nfor i = 1, 1000 do\n t = struct({1, 1}, {0, 0}, {t, t})\nend\n"
            "return {t = t}", 3, "struct: ");
    /* Shared subtrees: few nodes in memory, 2^40 when they are walked. */
    refused("local t = int\nfor i = 1, 40 do\n t = struct({1, 1}, {0, 1 << i}, {t, t})\nend\nreturn {t = t}", 3,
            "unfolds to more than");
    char *text = malloc(1 << 20);
    assert_non_null(text);
    memset(text, '(', 1 << 20);
    memcpy(text, "return ", 7);
    refusal(text, 1 << 20, 0);
    memset(text + 7, '{', (1 << 20) - 7);
    refusal(text, 1 << 20, 0);
    free(text);
    refused("local function f() return 1 + f() end\nf()", 1, "stack overflow");
}

static void results(void **state)
{
    (void)state;
    refused("return 7", 1, "must return a table of types, this one returns number");
    refused("", 1, "this one returns nil");
    refused("local t = int\nreturn t", 2, "a single type");
    refused("return {}", 1, "no types");
    refused("return {\n  a = int,\n  b = {int}\n}", 4,
            "'b' is a table, not a type; the returned table may not be nested");
    refused("local t = {}\nt.t = t\nreturn t", 3, "'t' is a table");
    refused("return {a = 5}", 1, "'a' is a number, not a type");
    refused("return {int, double}", 1, "name must be a string");
    refused("return {['a b'] = int}", 1, "name must be letters");
    refused("return {['1a'] = int}", 1, "name must be letters");
    refused("return {[''] = int}", 1, "name must be letters");
    refused("return {['a\\0b'] = int}", 1, "name must be letters");
    refused("return {['a/b'] = int}", 1, "name must be letters");
    refused("return {[('a'):rep(256)] = int}", 1, "name must be letters");
    refused("return {a = int, a = 3}", 1, "'a' is a number");
}

static void errors(void **state)
{
    (void)state;
    refused("return {\n  a = contiguous(,)\n}", 2, "unexpected symbol");
    refused("return {a = int", 1, "expected");
    refused("x = = 3", 1, "unexpected symbol");
    refused("\n\nerror('no such grid')", 3, "no such grid");
    refused("\nerror('plain', 0)", 2, "plain");
    refused("\nerror({})", 2, "the error raised is a table");
    refused("\nerror()", 2, "the error raised is a nil");
    refused("local t = nil\nt.x = 1", 2, "attempt to index");
    refused("local t = setmetatable", 1, "there is no `setmetatable`");
    refused("return {a = contiguous(2, nil + 1)}", 1, "arithmetic");
}

static void files(void **state)
{
    (void)state;
    struct reason why = {""};
    assert_null(spec_load("/nonexistent/a.lua", &why));
    assert_string_equal(why.text, "/nonexistent/a.lua: No such file or directory");
    assert_null(spec_load(folder, &why));
    assert_non_null(strstr(why.text, ": Is a directory"));
    assert_null(spec_load("/dev/zero", &why));
    assert_non_null(strstr(why.text, ": File too large"));
    assert_null(spec_load("", &why));
    refusal("\x1bLua\x54\x00\x19\x93\r\n\x1a\n", 12, 0);
    refusal("\0\0\0\0", 4, 1);
    refusal("\xff\xfe\x80", 3, 1);
}

/* ---- what never ends or never fits ---- */

static void endless(void **state)
{
    (void)state;
    refused("while true do end", 1, "still running after");
    refused("\nwhile true do\n  pcall(function() while true do end end)\nend", 3, "still running after");
    refused("local f\nf = function() pcall(pcall, f) return f() end\nf()", 2, "still running after");
    refused("local l = {}\nfor i = 1, 1000 do l[i] = i end\n"
            "table.sort(l, function() while true do end end)", 3, "still running after");
    refused("local t = {n = 1}\nfor i = 62, 0, -1 do t[1 << i] = 1 end\nassert(#t == 1 << 62)\n"
            "table.insert(t, 1, 5)", 4, "still running after");
    refused("goto a ::a:: ::b:: goto b", 1, "still running after");
}

static void too_much_memory(void **state)
{
    (void)state;
    refused("local s = 'x'\nwhile true do\n  s = s .. s\nend", 3, "out of memory");
    refused("local t = {}\nwhile true do t[#t + 1] = #t end", 2, "out of memory");
    refused("local t = {}\nwhile true do\n  t[#t + 1] = ('x'):rep(1 << 20 - 1, tostring(#t))\nend", 3, "");
    refused("\nlocal s = ('x'):rep(1 << 33)", 2, "string.rep: the result would be longer");
    refused("\nlocal s = string.rep('x', math.maxinteger, 'yy')", 2, "string.rep: the result would be longer");
    refused("local t = {}\nfor i = 1, 1000 do t[i] = ('x'):rep(1000000) end\nreturn {[table.concat(t)] = int}", 2,
            "out of memory");
    refused("local l, t = {}, {}\nfor i = 1, 1 << 18 do l[i] = 2 * i end\n"
            "while true do\n  t[#t + 1] = indexed_block(1, l, int)\nend", 4, "out of memory");
}

/* Each call here is short in Lua and would be long in C. */
static void long_calls(void **state)
{
    (void)state;
    time_t begin = time(NULL);
    refused("local p = ('a'):rep(40)\nreturn p:find(('a-'):rep(40) .. 'b')", 2, "find");
    refused("local s, l = ('x'):rep(1 << 20 - 1), {}\nfor i = 1, 1 << 20 do l[i] = s end\ntable.sort(l)", 3,
            "still running after 10 seconds");
    spec_free(load("local s = string.rep('', math.maxinteger)\nreturn {t = int}"));
    assert_true(time(NULL) - begin < 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_constructor), cmocka_unit_test(each_named_type), cmocka_unit_test(names_and_lines),
        cmocka_unit_test(libraries),        cmocka_unit_test(unsafe_things_are_absent),
        cmocka_unit_test(wrong_arguments),  cmocka_unit_test(wrong_lists),     cmocka_unit_test(wrong_subarrays),
        cmocka_unit_test(wrong_darrays),   cmocka_unit_test(wrong_signatures), cmocka_unit_test(lists_of_signatures),
        cmocka_unit_test(overflow),         cmocka_unit_test(deep_nesting),    cmocka_unit_test(results),
        cmocka_unit_test(errors),           cmocka_unit_test(files),           cmocka_unit_test(endless),
        cmocka_unit_test(too_much_memory),  cmocka_unit_test(long_calls),
    };
    return cmocka_run_group_tests_name("spec", tests, make_folder, remove_folder);
}
