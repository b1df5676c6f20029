"""mixed.py: contiguous and derived messages by turns, of the MPI alone and with stridec, as one table in Markdown.

usage: mixed.py OUT.json ALONE.json... -- STRIDEC.json...

The runs of the two kinds took turns on one machine. A row is the median over the runs of each kind; OUT.json gets the rows.
Exit status 1 where a byte was wrong."""
import json
import sys
from statistics import median
from tables import head, number, ran, ratio, spread, table


def load(names):
    runs = []
    for name in names:
        with open(name) as f:
            runs.append(json.load(f))
    return runs


def over(runs, case, what):
    """The median over runs of a number of a case."""
    return median(c[what] for r in runs for c in r["cases"] if c["case"] == case)


def rows(alone, own):
    cases = []
    for c in own[0]["cases"]:
        every = [d for r in alone + own for d in r["cases"] if d["case"] == c["case"]]
        cases.append({"case": c["case"], "bytes": c["bytes"], "block": c["block"], "ok": all(d["ok"] for d in every),
                      "us": over(own, c["case"], "us"), "mean_us": over(own, c["case"], "mean_us"),
                      "alone_us": over(alone, c["case"], "us"), "alone_mean_us": over(alone, c["case"], "mean_us")})
    return cases


def main():
    out, *names = sys.argv[1:]
    at = names.index("--")
    alone, own = load(names[:at]), load(names[at + 1:])
    result = dict(own[-1], benchmark="mixed", cases=rows(alone, own))
    result["command"] = f"{own[0]['command']} ({len(own)} runs, by turns with {len(alone)} of the MPI alone)"
    with open(out, "w") as f:
        keys = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in result.items() if k != "cases")
        f.write("{\n" + keys + ',\n"cases": [\n' + ",\n".join(map(json.dumps, result["cases"])) + "\n]}\n")
    sys.stdout.reconfigure(encoding="utf-8")
    print(head(result, "Contiguous and derived messages of the same device memory, by turns in one process"))
    print("Half a round trip between two ranks, each on a GPU of its own and bound to a core. Rows named fresh: the first message of "
          "memory that was just allocated. Named first: the first message of its kind in a process, memory and type new to it.\n")
    print(table(["message", "bytes", "the MPI alone", "mean", "with stridec", "mean", "ratio"],
                [[ran(c), f"{c['bytes']:,}", number(c["alone_us"]), number(c["alone_mean_us"]), number(c["us"]),
                  number(c["mean_us"]), ratio(c["us"], c["alone_us"])] for c in result["cases"]]))
    print(f"With stridec ÷ alone: {spread([(c['us'] / c['alone_us'], c['case']) for c in result['cases']])}; at most 1.05 in "
          f"{sum(c['us'] <= 1.05 * c['alone_us'] for c in result['cases'])} of {len(result['cases'])} rows.")
    return not all(c["ok"] for c in result["cases"])


sys.exit(main())
