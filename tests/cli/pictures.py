"""pictures.py STRIDEC: pictures of layouts are valid, small and right.
Prints a line `ok ...` or `not ok ...` for each check."""
import os
import re
import sys
import xml.etree.ElementTree as ET
from results import Results

here = os.path.dirname(os.path.abspath(__file__))
SVG = "{http://www.w3.org/2000/svg}"
results = Results(sys.argv[1])
check, run = results.check, results.run


def draw(name, spec=os.path.join(here, "layouts.lua")):
    r = run("inspect", spec, *([name] if name else []), "--svg")
    if r.returncode:
        check(f"the picture of {name or spec}", False, r.stderr)
        return None
    tree = ET.fromstring(r.stdout)
    texts = [t.text or "" for t in tree.iter(SVG + "text")]
    check(f"the picture of {name or spec[:40]} is an SVG of at most 200 kB",
          tree.tag == SVG + "svg" and len(r.stdout) <= 200000)
    return tree, texts, r.stdout


def panels(tree):
    """The elements of each picture of memory: headings part them."""
    out = []
    for e in tree:
        if e.get("class") == "h":
            out.append((e.text, []))
        elif out:
            out[-1][1].append(e)
    return [p for title, p in out
            if re.match("As built|Canonical", title) and any(e.get("class") == "memory" for e in p)]


def rows(panel):
    """Rows that are shown, and all that are told of."""
    shown = [e for e in panel if e.get("class") == "t e"]
    skipped = [int(m.group(1).replace(",", "")) for e in panel if e.text
               for m in [re.search(r"⋮ +([\d,]+) rows? of", e.text)] if m]
    return len(shown), len(shown) + sum(skipped)


def blocks(panel):
    return [e for e in panel if re.fullmatch(r"p\d", e.get("class", "")) and e.get("height") == "16"]   # not the legend


def labels(panel):
    return [e.text for e in panel if e.get("class") == "n"]


def layouts():
    drawn = {n: draw(n) for n in ("vector thin subarray record particles indexed negative overlapping nothing_between "
                                  "empty far too_far mixed bytes").split()}
    again = draw("subarray")
    check("pictures are the same each time", again[2] == drawn["subarray"][2])

    one, = panels(drawn["vector"][0])
    check("rows of a vector, those left out counted",
          rows(one) == (5, 100) and labels(one) == ["1", "2", "3", "99", "100"],
          rows(one), labels(one))
    built, canonical = panels(drawn["subarray"][0])
    check("rows of a subarray, empty ones counted", rows(canonical)[1] == 4096 == rows(built)[1], rows(canonical))
    texts = "\n".join(drawn["subarray"][1])
    check("before and after the rewrite rules", all(re.search(p, texts) for p in (
        "As built: 512 blocks", "Canonical: 32 blocks", "one block: 16 copies of 8 B",
        r"signature: s\(4,32768,s\(8,512")))
    check("blocks are one rectangle where they became one", len(blocks(built)) >= 8 * len(blocks(canonical)))
    built, canonical = panels(drawn["record"][0])
    check("parts of a struct", (len(blocks(built)), len(blocks(canonical))) == (4, 3))
    one, = panels(drawn["negative"][0])
    order = [e.get("class") for e in sorted(blocks(one), key=lambda e: float(e.get("x")))]
    check("a negative step is packed from the right", order == sorted(order, reverse=True) and len(order) == 6
          and sorted(labels(one)) == list("123456"), order)
    one, = panels(drawn["overlapping"][0])
    check("what is packed twice has a frame", sum(e.get("class") == "twice" for e in one) > 4
          and "packed more than once" in drawn["overlapping"][1])
    check("what is packed once has none",
          not any("packed more than once" in d[1] for n, d in drawn.items() if n != "overlapping"))
    one = panels(drawn["indexed"][0])[-1]
    check("a list of 100,000 blocks, its end too", "100,000" in labels(one) and rows(one)[1] == 124999
          and any("100,000 blocks" in t for t in drawn["indexed"][1]), rows(one))
    check("a type of no bytes", any(t.startswith("empty") for t in drawn["empty"][1]))
    check("a layout of 2^61 bytes is told in words", not panels(drawn["too_far"][0])
          and any("too far apart" in t for t in drawn["too_far"][1]))
    draw(None, "q(" + "s(2,16,q(d(1),d(2)@5))," * 30 + "d(1)@99)")
    draw(None, "s(40,7,s(40,3,s(40,5,d(2))))@-1000")
    one = panels(draw(None, "s(1000000000,0,q(d(1),d(1)@100))")[0])[0]
    check("a billion copies in one place are two blocks in frames",
          len(blocks(one)) == 2 == sum(e.get("class") == "twice" for e in one))


layouts()
results.exit()
