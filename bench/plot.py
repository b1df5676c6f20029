#!/usr/bin/env python3
"""plot.py: time against the floor over all layouts: plot.py RESULTS.json OUT.png (needs matplotlib)."""
import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main():
    with open(sys.argv[1]) as f:
        results = json.load(f)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.json")) as f:
        peers = json.load(f)["pack_us"]
    cases = results["cases"]
    y = range(len(cases))
    figure, axes = plt.subplots(figsize=(10, 0.36 * len(cases) + 1.8))
    axes.barh([i - 0.2 for i in y], [c["floor_us"] for c in cases], 0.36, color="#d9d9d9", label="floor, pack")
    axes.barh([i + 0.2 for i in y], [c["floor_unpack_us"] for c in cases], 0.36, color="#ececec", label="floor, unpack")
    axes.plot([c["contiguous_us"] for c in cases], y, "|", color="black", ms=12, label="contiguous copy")
    axes.plot([c["pack_us"] for c in cases], [i - 0.2 for i in y], "o", color="#0b6e4f", label="MPI_Pack, stridec")
    axes.plot([c["unpack_us"] for c in cases], [i + 0.2 for i in y], "s", color="#c8553d", ms=5, label="MPI_Unpack, stridec")
    for key, mark, name in (("tempi", "x", "TEMPI"), ("yaksa", "+", "yaksa")):
        points = [(peers[c["case"]][key], i) for i, c in zip(y, cases)
                  if isinstance(peers.get(c["case"], {}).get(key), (int, float))]
        axes.plot(*zip(*points), mark, color="#6c6c9c", label=f"MPI_Pack, {name} (another run)") if points else None
    axes.set_xscale("log")
    axes.set_yticks(list(y), [c["case"] for c in cases], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("microseconds a call, device to device")
    axes.set_title(f"Packing and unpacking on {results['machine']['gpu']}, {results['date'][:10]}", fontsize=10)
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.4, -0.1), ncols=4, frameon=False)
    figure.savefig(sys.argv[2], dpi=130, bbox_inches="tight")


main()
