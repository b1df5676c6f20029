#!/usr/bin/env python3
"""plot.py: a plot of results: plot.py RESULTS.json OUT.png (needs matplotlib).

Here those of bench/pack.c: time against the floor over all layouts, both directions. Bars are time ÷ floor, in the
order of the table; ticks mark the best kernel found and a contiguous copy. plot_messages.py has the others."""
import json
import math
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from plot_messages import MESSAGES

# Keys of time, floor and best; colour; the title of the panel.
PANELS = (("pack_us", "floor_us", "best_us", "#0b6e4f", "MPI_Pack"),
          ("unpack_us", "floor_unpack_us", "best_unpack_us", "#c8553d", "MPI_Unpack"))
TARGET_MEAN, TARGET_WORST = 1.10, 1.6


def panel(axes, cases, time, floor, best, colour, title):
    y = range(len(cases))
    over = [c[time] / c[floor] for c in cases]
    mean = math.exp(sum(map(math.log, over)) / len(over))
    axes.barh(y, over, 0.7, color=colour, alpha=0.75, label="time ÷ floor")
    found = [(c[best] / c[floor], i) for i, c in enumerate(cases) if c.get(best)]
    if found:
        axes.plot(*zip(*found), "|", color="black", ms=11, mew=2, label="best kernel found")
    axes.plot([c["contiguous_us"] / c[floor] for c in cases], y, ".", color="#6c6c9c", label="contiguous copy")
    axes.axvline(1, color="black", lw=1)
    axes.axvline(TARGET_WORST, color="black", lw=0.8, ls=":", label=f"{TARGET_WORST}: no layout slower")
    for i, c in enumerate(cases):
        axes.text(over[i] + 0.02, i, f"{c[time]:.1f} µs", va="center", fontsize=6)
    axes.set_title(f"{title}: geometric mean {mean:.2f} (at most {TARGET_MEAN:.2f}), worst {max(over):.2f}", fontsize=9)
    axes.set_xlim(0, max(over + [TARGET_WORST]) * 1.12)
    axes.set_xlabel("time ÷ floor")


def pack(results):
    cases = results["cases"]
    figure, both = plt.subplots(1, 2, sharey=True, figsize=(14, 0.27 * len(cases) + 1.8))
    for axes, keys in zip(both, PANELS):
        panel(axes, cases, *keys)
    both[0].set_yticks(range(len(cases)), [c["case"] for c in cases], fontsize=7)
    both[0].invert_yaxis()
    both[0].legend(fontsize=7, loc="lower right")
    figure.suptitle("Time of a call against the floor of its layout")
    return figure


def main():
    with open(sys.argv[1]) as f:
        results = json.load(f)
    figure = MESSAGES.get(results.get("benchmark"), pack)(results)
    figure.text(0.995, 0, f"{results['machine']['gpu']}, {results['date'][:10]}", ha="right", va="top", fontsize=7)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=130, bbox_inches="tight")


main()
