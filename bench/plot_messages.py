"""plot_messages.py: the plots of messages between GPUs; each takes results and returns a figure of matplotlib."""
import re

import matplotlib.pyplot as plt
from targets import CHOICE, HALO_US, limit_us, over_best, over_staged, runs_of

COLOURS = ("#0b6e4f", "#c8553d", "#6c6c9c", "#d9a441", "#4a90b8", "#7f4f24", "#8aa29e", "#b5446e", "#333333")
GRID = re.compile(r"\d+ [KM]iB, \d+ B blocks")
FORM = ", Isend/Irecv/Waitall"


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def size_axis(axes, sizes):
    axes.set_xscale("log", base=4)
    axes.set_xticks(sizes, [size_name(s) for s in sizes], fontsize=7)
    axes.minorticks_off()


def ratio(case):
    return case["us"] / case["contiguous_us"]


def pingpong(results):
    """Ratio to the contiguous message over size, a line a block length, its limits dotted; a panel a form."""
    figure, both = plt.subplots(1, 2, sharey=True, figsize=(14, 5.5))
    for axes, sends in zip(both, (True, False)):
        cases = [c for c in results["cases"] if c["case"].endswith(FORM) != sends]
        grid = [c for c in cases if GRID.match(c["case"])]
        for colour, block in zip(COLOURS, sorted({c["block"] for c in grid})):
            line = sorted((c for c in grid if c["block"] == block), key=lambda c: c["bytes"])
            x = [c["bytes"] for c in line]
            axes.plot(x, [ratio(c) for c in line], "o-", color=colour, ms=4, label=f"{block} B blocks")
            axes.plot(x, [limit_us(c) / c["contiguous_us"] for c in line], ":", color=colour, lw=0.9)
        others = [c for c in cases if c not in grid]
        axes.plot([c["bytes"] for c in others], [ratio(c) for c in others], "k^", ms=5, label="others")
        size_axis(axes, sorted({c["bytes"] for c in grid}))
        axes.axhline(1, color="black", lw=0.8)
        axes.set_title("Send, Recv" if sends else FORM[2:].replace("/", ", "), fontsize=9)
        axes.set_xlabel("packed bytes")
    both[0].set_yscale("log", base=2)
    both[0].set_ylabel("time ÷ contiguous message; limits dotted")
    both[0].legend(fontsize=7)
    return figure


def bars(results, title, line=None):
    """A bar a row, grouped by the number of ranks, logarithmic."""
    cases = results["cases"]
    hows = list(dict.fromkeys(c["how"] for c in cases))
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(cases) + 1.8))
    colours = [COLOURS[hows.index(c["how"]) % len(COLOURS)] for c in cases]
    axes.barh(range(len(cases)), [c["us"] for c in cases], 0.7, color=colours)
    for i, c in enumerate(cases):
        axes.text(c["us"] * 1.05, i, f"{c['us']:,.0f}" + ("" if c["ok"] else " wrong"), va="center", fontsize=7)
    axes.set_yticks(range(len(cases)), [f"{c['how']}, {c['gpus']} GPUs, {c['n']}^3" for c in cases], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(right=2.5 * max(c["us"] for c in cases))
    if line:
        axes.axvline(line, color="black", lw=0.8, ls=":")
    axes.set_xlabel("µs an exchange")
    axes.set_title(title, fontsize=9)
    return figure


def halo(results):
    return bars(results, f"26-neighbour halo; dotted: {HALO_US} µs", HALO_US)


def stencil(results):
    return bars(results, "Weakly scaled stencil, one exchange")


def ratios(over, limit, what):
    """A bar a case: over is {case: (ratio, name)}, in blue up to the limit."""
    values = [value for value, _ in over.values()]
    figure, axes = plt.subplots(figsize=(9, 0.25 * len(over) + 1.8))
    axes.barh(range(len(values)), values, 0.7, color=[COLOURS[0] if value <= limit else COLOURS[1] for value in values])
    for i, (value, name) in enumerate(over.values()):
        axes.text(value + 0.01, i, f"{value:.2f} of {name}", va="center", fontsize=6)
    axes.set_yticks(range(len(values)), list(over), fontsize=6)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(values + [1]))
    axes.axvline(1, color="black", lw=1)
    axes.axvline(limit, color="black", lw=0.8, ls=":")
    axes.set_xlabel(what)
    return figure


def choice(results):
    cases, _ = runs_of(results)
    return ratios({case: over_best(row) for case, row in cases.items()}, CHOICE,
                  f"automatic choice ÷ best forced transport; dotted: {CHOICE}")


def nodes(results):
    cases, _ = runs_of(results)
    return ratios({case: (over_staged(row), "staged") for case, row in cases.items() if {"staged", "pipelined"} <= row.keys()}, 1,
                  "pipelined ÷ staged")


MESSAGES = {"pingpong": pingpong, "halo": halo, "stencil": stencil, "choice": choice, "nodes": nodes}
