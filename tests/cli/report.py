"""report.py STRIDEC FOLDER: broken files are refused in one line, and odd ones make pages.
Prints a line `ok ...` or `not ok ...` for each check."""
import json
import os
import random
import re
import sys
from results import Results

work = sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
results = Results(sys.argv[1])
check, run = results.check, results.run


# ---- files that are not what they should be ----

BROKEN = {
    "": "the file ends early",
    "{": "a name in quotes expected",
    "nope": "a value expected",
    "[1, 2": "',' or '\\]' expected",
    '{"a": 01}': "a value expected",
    '{"a": 1, "a": 2}': "second time",
    '{"a": "\t"}': "control character",
    '{"a": "\\x"}': "no such escape",
    '{"a": 1e999}': "out of range",
    '{"format": 1} 2': "more than one value",
    "[" * 70: "nested too deeply",
    "[]": 'no number "format"',
    "7": 'no number "format"',
    '{"format": 2, "types": 5}': "format 2 is unknown: this stridec reads format 1",
    '{"format": 1, "types": {}}': "types is an object, where a list is expected",
    '{"format": 1, "types": [{"calls": "x"}]}': r"types\[1\].calls is a text, where a number",
    '{"format": 1, "totals": {"bytes": -1}}': "totals.bytes is negative",
    '{"format": 1, "pairs": {"ranks": 1e300, "bytes": []}}': "pairs.ranks is no number of ranks",
    '{"format": 1, "pairs": {"ranks": 4, "bytes": [[0, 9, 1]]}}': r"\[0, 9, 1\], of 4 ranks",
}


def report(text):
    """Returns the exit status, standard error, and the page or None."""
    source, page = os.path.join(work, "broken.json"), os.path.join(work, "broken.html")
    with open(source, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    if os.path.exists(page):
        os.remove(page)
    r = run("report", source)
    html = open(page, encoding="utf-8").read() if os.path.exists(page) else None
    return r.returncode, r.stderr.decode(errors="replace"), html


def one_line(status, error, page):
    """A page, or one line that tells of the file and not of this program's parts."""
    if status == 0:
        return page is not None and "<script" not in page and page.endswith("</html>\n") and error == ""
    return status == 1 and page is None and error.count("\n") == 1 and ".lua:" not in error


def broken():
    for text, message in BROKEN.items():
        got = report(text)
        check(f"refused: {message}", got[0] == 1 and one_line(*got) and re.search(message, got[1]), got)
    with open(os.path.join(here, "report.json"), "rb") as f:
        sample = f.read()
    random.seed(41)
    bad = []
    for _ in range(60):
        text = bytearray(sample)
        for _ in range(random.randint(1, 3)):
            text[random.randrange(len(text))] = random.choice(b'{}[],:"\\0a\xff\x00 -e.')
        got = report(bytes(text[:random.choice((len(text), random.randrange(len(text)))) or 1]))
        if not one_line(*got):
            bad.append(got[:2])
    check("files with wrong bytes are pages, or refused in one line", not bad, *bad[:3])


def values():
    status, error, page = report('{"format": 1}')
    check("a file that says nothing", status == 0 and "Nothing that stridec counted" in page, error)
    everything = json.load(open(os.path.join(here, "report.json"), encoding="utf-8"))
    first = everything["types"][0]
    everything["types"] = [dict(first, names=[f"t{i}"], signature=f"s({i + 2},64,d(8))") for i in range(300)]
    everything["pairs"] = {"ranks": 1000, "bytes": [[i, (i * 7 + 1) % 1000, 1 << (i % 40)] for i in range(1000)]}
    status, error, page = report(json.dumps(everything))
    check("many types and ranks: 200 types are shown, and ranks in bins of 16", status == 0 and "100 types more" in page
          and "16 ranks times 16 ranks" in page and len(page) < 2000000, error)
    # The least number, whose remainder by -1 no integer holds.
    for signature in ("s(1,-9223372036854775808,d(1)@1)", "s(2,-9223372036854775808,d(0))",
                      "q(d(1)@1,d(0)@-9223372036854775808)"):
        got = report(json.dumps({"format": 1, "types": [{"signature": signature}]}))
        check(f"extreme numbers: {signature}", one_line(*got), got)
    for name, value in (("null", None), ("a list of null", [None])):
        for key in ("types", "protocols", "left", "gpu", "totals", "pairs"):
            if value is None or key in ("types", "protocols", "left"):
                status, error, page = report(json.dumps({"format": 1, key: value}))
                check(f"{name} for {key}", status == 0, error)


broken()
values()
results.exit()
