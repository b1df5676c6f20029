#!/usr/bin/env python3
"""report.py: results as Markdown tables: report.py RESULTS.json > RESULTS.md

Reads what bench/pack.c, bench/commit.c, bench/fresh.c, bench/file.c, bench/pingpong.c, bench/stream.c,
bench/halo.c, bench/stencil.c, bench/collectives.c or bench/join.py wrote, and the other libraries' figures from peers.json.
"""
import json
import os
import sys

from report_messages import MESSAGES
from tables import head, number, ran, ratio, spread, table

# The two directions' keys: time, floor, the quickest kernel's time and its settings.
DIRECTIONS = (("pack", "pack_us", "floor_us", "best_us", "best"),
              ("unpack", "unpack_us", "floor_unpack_us", "best_unpack_us", "best_unpack"))
SMALL = "vector 1 KiB, 8 B blocks"   # the call whose cost is launching and waiting
SMALL_LIMIT = 1.15


def pack_summary(results):
    cases = results["cases"]
    over = [(c[us] / c[floor], f"{c['case']}, {way}") for c in cases for way, us, floor, _, _ in DIRECTIONS]
    lines = [f"Time ÷ floor over {len(over)} figures: {spread(over)}.\n"]
    best = [(c[us] / c[best], f"{c['case']}, {way}") for c in cases for way, us, _, best, _ in DIRECTIONS
            if c.get(best)]
    if best:
        lines.append(f"Time ÷ best kernel found over {len(best)} figures: {spread(best)}.\n")
        past = [f"{what} ({value:.2f})" for value, what in best if value > 1.05]
        lines.append("More than 5 % behind the best kernel found: " + (", ".join(past) or "none") + ".\n")
    for c in cases:
        if c["case"] == SMALL:
            slower = max(c["pack_us"], c["unpack_us"]) / results["launch_us"]
            lines.append(f"1 KiB against launching an empty kernel and waiting for it ({results['launch_us']:.1f} µs): "
                         f"pack {c['pack_us'] / results['launch_us']:.2f}, "
                         f"unpack {c['unpack_us'] / results['launch_us']:.2f}; limit {SMALL_LIMIT}: "
                         f"{'met' if slower <= SMALL_LIMIT else 'not met'}.\n")
    return lines


def pack_best(results):
    cases = [c for c in results["cases"] if c.get("variants")]
    if not cases:
        return []
    rows = [[c["case"], way, str(c["variants"]), number(c[us]), number(c[best]), ratio(c[us], c[best]),
             f"`{c[name]}`" if c[name] else "the one that serves"]
            for c in cases for way, us, _, best, name in DIRECTIONS]
    return ["## The best kernels found\n",
            "All kernels that the generator can make of a layout, their bytes compared with those of the one that "
            "serves, timed in turns with it in this run.\n",
            table(["layout", "way", "kernels", "time", "best", "ratio", "settings of the best"], rows)]


def beaten(case, peers):
    """Whether packing is quicker than each library that has a time: "all", or those that are ahead."""
    ahead = [name for key, name in (("tempi", "TEMPI"), ("yaksa", "yaksa"), ("openmpi", "Open MPI"))
             if isinstance(peers.get(key), (int, float)) and case["pack_us"] >= peers[key]]
    return "all" if not ahead else "not " + ", ".join(ahead)


def pack_report(results, peers):
    cases = results["cases"]
    out = [head(results, "MPI_Pack and MPI_Unpack, device to device")]
    out.append(f"Launching an empty kernel and waiting for it: {results['launch_us']:.1f} µs. Device-to-device copy of "
               f"1 GiB: {results['copy_GB_s']:,} GB/s, read plus written. The floor of a row is that launch plus the "
               "larger of 3 µs and the bytes that must move, at that rate: the packed ones and the 64-byte granules "
               "touched on the strided side (twice where unpacking writes only a part).\n")
    out.append(table(
        ["layout", "bytes", "pack", "unpack", "contiguous copy", "pack ÷ copy", "unpack ÷ copy", "pack ÷ floor",
         "unpack ÷ floor", "pack ÷ best", "unpack ÷ best"],
        [[ran(c), f"{c['bytes']:,}", number(c["pack_us"]), number(c["unpack_us"]), number(c["contiguous_us"]),
          ratio(c["pack_us"], c["contiguous_us"]), ratio(c["unpack_us"], c["contiguous_us"]),
          ratio(c["pack_us"], c["floor_us"]), ratio(c["unpack_us"], c["floor_unpack_us"]),
          ratio(c["pack_us"], c.get("best_us")), ratio(c["unpack_us"], c.get("best_unpack_us"))] for c in cases]))
    out += pack_summary(results)
    out.append("## Beside other libraries\n")
    out.append(f"{peers['source']}\n")
    known = [(c, peers["pack_us"][c["case"]]) for c in cases if c["case"] in peers["pack_us"]]
    out.append(table(
        ["layout", "stridec (this run)", "TEMPI", "yaksa", "Open MPI", "contiguous copy then", "ahead of"],
        [[c["case"], number(c["pack_us"])] + [number(p.get(k)) for k in ("tempi", "yaksa", "openmpi", "contiguous")] +
         [beaten(c, p)] for c, p in known]))
    behind = [c["case"] for c, p in known if beaten(c, p) != "all"]
    out.append("Not ahead of every library in: " + (", ".join(behind) or "no row") + ".\n")
    out += pack_best(results)
    return "\n".join(out)


def lists_report(results):
    return table(["irregular lists", "blocks", "the MPI's own commit", "with stridec",
                  "the first type with its first pack", "later types with theirs"],
                 [[c["case"], f"{c['blocks']:,}", f"{c['own_ns']:.1f}", f"{c['commit_ns']:.1f}",
                   f"{c['first_ns']:,.1f}", f"{c['later_ns']:.1f}"] for c in results["lists"]])


def commit_report(results, _):
    checked = "Every byte was checked against the host MPI's before timing; a row that failed says so."
    out = [head(results, "MPI_Type_commit").replace(checked, "The MPI's own commit was measured in the same run.")]
    out.append("New types of irregular lists, nanoseconds a block; the first type of a row is the process's first of "
               "it.\n")
    out.append(lists_report(results))
    if "commits" not in results:
        return "\n".join(out)
    out.append(table(["regular types", "the MPI's own, µs", "with stridec, µs", "more, µs", "layout known, µs"],
                     [[c["case"], f"{c['own_us']:.2f}", f"{c['stridec_us']:.2f}",
                       f"{c['stridec_us'] - c['own_us']:.2f}", f"{c['again_us']:.2f}"] for c in results["commits"]]))
    worst = max(c["stridec_us"] - c["own_us"] for c in results["commits"])
    out.append(f"At most {worst:.1f} µs above the MPI's own; limit 20: {'met' if worst <= 20 else 'not met'}.\n")
    out.append(table(["irregular blocks", "the MPI's own, ns a block", "with stridec, ns a block"],
                     [[f"{c['blocks']:,}", f"{c['own_ns']:.1f}", f"{c['stridec_ns']:.1f}"]
                      for c in results["indexed"]]))
    out.append("From before MPI_Type_commit to the end of the first MPI_Pack by the type's own kernel:\n")
    out.append(table(["type", "its kernel came from", "µs", "a second type of the layout, µs"],
                     [[c["case"], c["state"], f"{c['first_us']:,.0f}", f"{c['again_us']:,.0f}"]
                      for c in results["first_calls"]]))
    return "\n".join(out)


def fresh_report(results, _):
    bounds = results["bounds_us"]
    heads = [f"below {bounds[0]:g}"] + [f"to {b:g}" for b in bounds[1:]] + [f"above {bounds[-1]:g}"]
    wrong = results["wrong"]
    return "\n".join([
        head(results, f"{results['types']:,} new types"),
        f"Nothing compiled before; {wrong or 'no'} type{'' if wrong == 1 else 's'} with wrong bytes. How many calls took "
        "so many µs:\n",
        table(["call", "the first", "median", "99 %", "most"] + heads,
              [[c["call"], number(c["first_us"]), number(c["median_us"]), number(c["p99_us"]), number(c["most_us"])]
               + [str(n) for n in c["counts"]] for c in results["calls"]])])


def file_report(results, _):
    return "\n".join([
        head(results, "MPI_File_write_at, MPI_File_read_at of derived types in GPU memory"),
        "Contiguous: the same bytes in host memory, the file's own cost. By the span: the program copies all memory from "
        "the first block to the last between GPU and host, and reads or writes the derived type there.\n",
        table(["layout", "call", "derived type, µs", "contiguous, µs", "by the span, µs", "derived ÷ contiguous",
               "span ÷ derived"],
              [[ran(c), f"MPI_File_{way}_at", number(c[f"{way}_us"]), number(c[f"contiguous_{way}_us"]),
                number(c[f"span_{way}_us"]), ratio(c[f"{way}_us"], c[f"contiguous_{way}_us"]),
                ratio(c[f"span_{way}_us"], c[f"{way}_us"])] for c in results["cases"] for way in ("write", "read")])])


def stream_report(results, _):
    return "\n".join([
        head(results, "Ping-pong driven by the host, on a stream, and in a graph"),
        "Half round trips." + (" Between two nodes of this machine, by TCP." if "nodes" in results["command"] else "") +
        " Stream: stridec_start_on and stridec_wait_on for 100 round trips, then one wait; calls: the "
        "host's time in them for each message. Graph: ten round trips in a CUDA graph, launched ten times.\n",
        table(["layout", "host, µs", "stream, µs", "calls, µs", "graph, µs", "stream ÷ host", "graph ÷ host"],
              [[ran(c), number(c["host_us"]), number(c["stream_us"]), number(c["calls_us"]), number(c["graph_us"]),
                ratio(c["stream_us"], c["host_us"]), ratio(c["graph_us"], c["host_us"])] for c in results["cases"]])])


def hand_report(results, _):
    return "\n".join([
        head(results, "Messages as the best would write them by hand"),
        "Half round trips. By hand: one kernel that reads the other GPU's memory (of a pool: one that packs into the "
        "receiver's, and one that unpacks), launched as a graph whose arguments never change, and a header by the MPI: "
        "layouts, addresses and mappings are known before. Contiguous: as many bytes of memory from cudaMalloc by the "
        "MPI, with stridec.\n",
        table(["layout", "contiguous, µs", "stridec, µs", "by hand, µs", "stridec ÷ contiguous", "by hand ÷ contiguous",
               "stridec ÷ by hand"],
              [[ran(c), number(c["contiguous_us"]), number(c["stridec_us"]), number(c["hand_us"]),
                ratio(c["stridec_us"], c["contiguous_us"]), ratio(c["hand_us"], c["contiguous_us"]),
                ratio(c["stridec_us"], c["hand_us"])] for c in results["cases"]])])


REPORTS = {**MESSAGES, "hand": hand_report, "stream": stream_report, "file": file_report, "fresh": fresh_report}


def main():
    with open(sys.argv[1]) as f:
        results = json.load(f)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.json")) as f:
        peers = json.load(f)
    sys.stdout.reconfigure(encoding="utf-8")
    report = commit_report if "lists" in results else REPORTS.get(results.get("benchmark"), pack_report)
    print(report(results, peers), end="")


main()
