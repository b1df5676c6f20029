#!/usr/bin/env python3
"""plot_peers.py: MPI_Pack beside other libraries, as README.md shows it: plot_peers.py PACK.json OUT.svg (needs
matplotlib). PACK.json is bench/pack's; the others' figures are those of bench/peers.json, which says how they came."""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# The layouts shown, and what they are called here.
ROWS = (("vector 1 KiB, 8 B blocks", "column of 128 doubles\n1 KiB, blocks of 8 B"),
        ("vector 1 MiB, 8 B blocks", "column of 131,072 doubles\n1 MiB, blocks of 8 B"),
        ("vector 64 MiB, 256 B blocks", "64 MiB, blocks of 256 B"),
        ("x-z face of 512^3 doubles", "x-z face of 512³ doubles\n2 MiB"),
        ("y-z face of 512^3 doubles", "y-z face of 512³ doubles\n2 MiB"),
        ("struct {double,int,int,char} x 65,536", "65,536 structs\n{double, int, int, char}"),
        ("lower triangle of 1024^2 doubles", "lower triangle of\n1024² doubles"))
# Key in peers.json, name, colour. yaksa is the datatype engine of MPICH.
PEERS = (("openmpi", "Open MPI 4.1 with CUDA", "#8d99ae"), ("tempi", "TEMPI", "#e09f3e"),
         ("yaksa", "yaksa (MPICH)", "#7b6d8d"))
OWN = ("stridec", "#0b6e4f")


def text_of(microseconds):
    for least, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= least:
            return f"{microseconds / least:.3g} {unit}"
    return f"{microseconds:.3g} µs"


def bars(axes, row, of_row):
    """One row: a bar of each library, from top to bottom; `of_row` gives (name, colour, microseconds or text)."""
    height = 0.8 / len(of_row)
    for i, (_, colour, us) in enumerate(of_row):
        y = row - 0.4 + (i + 0.5) * height
        if isinstance(us, (int, float)):
            axes.barh(y, us, height * 0.9, color=colour, left=0)
            axes.text(us * 1.15, y, text_of(us), va="center", fontsize=7)
        else:
            axes.text(1.3, y, us or "not run", va="center", fontsize=7, style="italic", color=colour)


def main():
    with open(sys.argv[1]) as f:
        results = json.load(f)
    with open(pathlib.Path(__file__).with_name("peers.json")) as f:
        peers = json.load(f)["pack_us"]
    own = {c["case"]: c["pack_us"] for c in results["cases"] if c["ok"]}
    rows = [(case, label) for case, label in ROWS if case in own]
    figure, axes = plt.subplots(figsize=(8, 0.75 * len(rows) + 1.2))
    for row, (case, _) in enumerate(rows):
        bars(axes, row, [(*OWN, own[case])] + [(name, colour, peers[case].get(key)) for key, name, colour in PEERS])
    for name, colour in (OWN, *((name, colour) for _, name, colour in PEERS)):
        axes.barh(0, 0, color=colour, label=name)
    axes.set_yticks(range(len(rows)), [label for _, label in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, 2e7)
    axes.set_xlabel("time of one MPI_Pack on device memory (logarithmic)", fontsize=8)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, 1.09), ncols=4, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.99, 0.005, f"{results['machine']['gpu']}, {results['date'][:10]}; others: bench/peers.json", ha="right",
                fontsize=6)
    figure.tight_layout()
    # The same text for the same results.
    matplotlib.rcParams["svg.hashsalt"] = "stridec"
    figure.savefig(sys.argv[2], facecolor="white", metadata={"Date": None} if sys.argv[2].endswith(".svg") else None)


if __name__ == "__main__":
    main()
