#!/usr/bin/env python3
"""join.py: results of several runs of one benchmark as one: join.py BENCHMARK OUT.json RESULTS.json...

The head is the first run's; "command" names each run's, "date" the last one's, and what other numbers they have (the
link's rate) is the largest of them. Runs that left no results, or unfinished ones, are named and left out."""
import json
import sys


def load(name):
    try:
        with open(name) as f:
            return json.load(f)
    except (OSError, ValueError) as e:
        print(f"join: {name} is left out: {e}", file=sys.stderr)
        return None


def main():
    benchmark, out, *names = sys.argv[1:]
    runs = [run for run in map(load, names) if run]
    if not runs:
        sys.exit(f"join: nothing to make {out} of")
    whole = dict(runs[0], benchmark=benchmark, date=runs[-1]["date"], command="; ".join(r["command"] for r in runs))
    for key, value in whole.items():
        if isinstance(value, (int, float)):
            whole[key] = max(r.get(key, 0) for r in runs)
    whole["cases"] = [case for r in runs for case in r["cases"]]
    head = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in whole.items() if k != "cases")
    with open(out, "w") as f:
        f.write("{\n" + head + ',\n"cases": [\n' + ",\n".join(map(json.dumps, whole["cases"])) + "\n]}\n")


main()
