#!/usr/bin/env python3
"""cpu.py: results of bench/cpu_pack or of bench/cpu_pingpong, several MPIs' in one: cpu.py OUT.json RUN.json[:COUNTS]...
writes OUT.json, OUT.md and, with matplotlib, OUT.png. COUNTS is a folder of callgrind's, of `cpu_pack --count`."""
import glob
import json
import math
import os
import re
import sys

from tables import table

DIRECTIONS = ("pack", "unpack")
WAYS = ("stridec", "mpi", "hand")
COLUMNS = ["kernel", "packed", "stridec", "MPI", "by hand", "MPI ÷ stridec", "by hand ÷ stridec"]


def size(n):
    return f"{n / 1024:.1f} KiB" if n < 1 << 20 else f"{n / (1 << 20):.1f} MiB"


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def read_counts(folder):
    """{(case, bytes, direction, way): instructions} of callgrind's dumps."""
    found = {}
    for name in glob.glob(os.path.join(folder, "callgrind.out.*")):
        with open(name, errors="replace") as f:
            text = f.read()
        mark = re.search(r"^desc: Trigger: Client Request: (.*)\|(\d+)\|(\w+)\|(\w+)$", text, re.M)
        total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
        if mark and total:
            found[mark[1], int(mark[2]), mark[3], mark[4]] = int(total[1])
    return found


def load(argument):
    name, _, folder = argument.partition(":")
    with open(name) as f:
        run = json.load(f)
    counts = read_counts(folder) if folder else {}
    for c in run["cases"] if counts else ():
        for d in DIRECTIONS:
            for way in WAYS:
                n = counts.get((c["case"], c["bytes"], d, way))
                if n:
                    c[f"{d}_{way}_instructions"] = n
    timed = {c["case"] for c in run["cases"]}
    run["down"] = [{"case": case, "bytes": bytes, "direction": d, "instructions": n,
                    "mpi_instructions": counts[case, bytes, d, "mpi"]}
                   for (case, bytes, d, way), n in sorted(counts.items()) if way == "stridec" and case not in timed]
    return run


def us(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def library(run):
    return re.sub(r",? package.*", "", run["versions"]["mpi"]).replace("\t", " ").strip()


def down(run):
    """What calls cost that stridec leaves to the MPI."""
    if not run.get("down"):
        return []
    text = [[c["case"], c["direction"], f"{c['instructions']:,}", f"{c['mpi_instructions']:,}",
             f"{c['instructions'] - c['mpi_instructions']:+,}"] for c in run["down"]]
    return ["", "Calls that go down untouched, in instructions:", "",
            table(["type", "direction", "with stridec", "the MPI alone", "more"], text)]


def summary(cases, names, percent, direction=""):
    """A line for each other way, {way: its name}; of one direction's times, where there are two."""
    lines = []
    for way, name in names.items() if cases else ():
        over = [(c[f"{direction}{way}_ratio"], f"{c['case']}, {size(c['bytes'])}") for c in cases]
        worst, best = min(over), max(over)
        behind = sum(1 for r, _ in over if r < 1 - percent / 100)
        lines.append(f"- {name} ÷ stridec: geometric mean {mean([r for r, _ in over]):.2f}, least {worst[0]:.2f} "
                     f"({worst[1]}), most {best[0]:.2f} ({best[1]}); more than {percent} % behind in {behind} of {len(over)}.")
    return lines


def heading(run):
    busy = run.get("note") or f"Load average of the machine at the end: {run.get('busy', 'unknown')}."
    return [f"## {library(run)}", "", f"{run['date']}, `{run['command']}`. {busy}", ""]


def times(c, direction=""):
    """The columns of a row that both reports have."""
    s, m, h = (c[f"{direction}{way}_us"] for way in WAYS)
    return [c["case"] + ("" if c["ok"] else " (**wrong bytes**)"), size(c["bytes"]), us(s), us(m), us(h),
            f"{c[f'{direction}mpi_ratio']:.2f}", f"{c[f'{direction}hand_ratio']:.2f}"]


def rows(cases, d):
    counts = [[c.get(f"{d}_{way}_instructions") for way in WAYS] for c in cases]
    return [times(c, f"{d}_") + [f"{n:,}" if n else "—" for n in row] for c, row in zip(cases, counts)]


def report(runs):
    first = runs[0]
    out = ["# MPI_Pack and MPI_Unpack in host memory", "",
           f"{first['machine']['cpu']}; compiler {first['versions']['compiler']}. Medians in microseconds; ratios are "
           "the medians of those within each turn, as the ways took turns of some 40 µs. Every byte was checked "
           "against the MPI's own before timing. Instructions by callgrind, one call, without AVX-512, for the smaller "
           "sizes. Where the MPI's own engine serves (where it was quicker in the first calls), the columns of stridec and "
           "of the MPI show the noise.", ""]
    for run in runs:
        out += heading(run)
        for d in DIRECTIONS:
            out += summary(run["cases"], {"mpi": f"{d}, the MPI's own engine", "hand": f"{d}, the loops by hand"}, 5, f"{d}_")
        out += down(run)
        for d in DIRECTIONS:
            out += ["", f"### {d}", "",
                    table(COLUMNS + ["instructions", "MPI's", "by hand"], rows(run["cases"], d))]
    return "\n".join(out)


FORMS = {
    "trip": ("Messages between two ranks of a node, in host memory", "Half a round trip of Send and Recv, the"),
    "both": ("Messages both ways at once between two ranks of a node, in host memory", "Irecv, Isend and Waitall, the"),
    "self": ("Messages of a rank to itself, in host memory", "MPI_Sendrecv, the"),
}


def trip_report(runs):
    first = runs[0]
    title, what = FORMS[first["form"]]
    out = [f"# {title}", "",
           f"{first['machine']['cpu']}; compiler {first['versions']['compiler']}. {what} "
           "type at both ends. Medians in microseconds; ratios are the medians of those within each turn, as the ways "
           "took turns of some 100 µs. By hand: packed by a loop, sent as bytes by the MPI, unpacked by a loop. "
           "All bytes were compared before timing.", ""]
    for run in runs:
        out += heading(run)
        for text, long in (("From 64 KiB on:", True), ("Below:", False)):
            chosen = [c for c in run["cases"] if (c["bytes"] >= 60000) == long]
            out += [text, ""] + summary(chosen, {"mpi": "the MPI's own types", "hand": "packed by hand"}, 2) + [""]
        out.append(table(COLUMNS, [times(c) for c in run["cases"]]))
        out.append("")
    return "\n".join(out)


def draw(axis, run, names, direction):
    """A column for each kernel, its sizes beside each other."""
    for j, kernel in enumerate(names):
        mine = [c for c in run["cases"] if c["case"] == kernel]
        for n, c in enumerate(mine):
            x = j + (n - len(mine) / 2) * 0.1
            axis.plot(x, c[f"{direction}mpi_ratio"], "o", ms=4, color="#0b6e4f", alpha=0.35 + 0.6 * n / len(mine))
            axis.plot(x, c[f"{direction}hand_ratio"], "_", ms=6, color="#c8553d")
    axis.axhline(1, color="black", lw=1)
    axis.set_yscale("log")
    axis.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    axis.set_title(f"{direction.strip('_') or 'messages'}: {library(run)[:40]}", fontsize=9)
    axis.set_ylabel("time ÷ stridec's")


def plot(runs, directions, name):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(c["case"] for c in runs[0]["cases"]))
    figure, axes = plt.subplots(len(runs), len(directions), figsize=(7 * len(directions), 4.2 * len(runs)), squeeze=False,
                                sharey="row")
    for i, run in enumerate(runs):
        for k, direction in enumerate(directions):
            draw(axes[i][k], run, names, direction)
    axes[0][0].plot([], [], "o", color="#0b6e4f", label="the MPI's engine, 1 KiB to 16 MiB (darker)")
    axes[0][0].plot([], [], "_", color="#c8553d", label="by hand")
    axes[0][0].legend(fontsize=7)
    figure.text(0.995, 0, f"{runs[0]['machine']['cpu']}, {runs[0]['date'][:10]}", ha="right", va="top", fontsize=7)
    figure.tight_layout()
    figure.savefig(name, dpi=120, bbox_inches="tight")


def main():
    out, *arguments = sys.argv[1:]
    runs = [load(a) for a in arguments]
    trips = runs[0]["benchmark"] == "cpu-pingpong"
    with open(out, "w") as f:
        f.write('{"benchmark": "%s",\n"runs": [\n' % runs[0]["benchmark"])
        texts = []
        for run in runs:
            head = ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in run.items() if k != "cases")
            texts.append("{" + head + ',\n"cases": [\n' + ",\n".join(map(json.dumps, run["cases"])) + "\n]}")
        f.write(",\n".join(texts) + "\n]}\n")
    base = out.removesuffix(".json")
    with open(base + ".md", "w", encoding="utf-8") as f:
        f.write(trip_report(runs) if trips else report(runs))
    try:
        plot(runs, [""] if trips else [f"{d}_" for d in DIRECTIONS], base + ".png")
    except ImportError:
        print("cpu: no plot (python3 with matplotlib makes it)")


main()
