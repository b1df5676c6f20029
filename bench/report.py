#!/usr/bin/env python3
"""report.py: results as Markdown tables: report.py RESULTS.json > RESULTS.md

Reads what bench/pack.c or bench/pingpong.c wrote, and the other libraries' figures from peers.json.
"""
import json
import math
import os
import sys


def number(value):
    if value is None:
        return "—"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def ratio(a, b):
    return f"{a / b:.2f}" if b else "—"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def head(results, title):
    machine, versions = results["machine"], results["versions"]
    lines = [f"# {title}", "",
             f"{machine['gpu']} x {machine['gpus']}; driver for CUDA {versions['cuda_driver']}, CUDA runtime "
             f"{versions['cuda_runtime']}; {versions['mpi']}.", "",
             f"{results['date']}, `{results['command']}`. Medians in microseconds. Every byte was checked against the "
             "host MPI's before timing; a row that failed says so.", ""]
    return "\n".join(lines)


def ran(case):
    return case["case"] + ("" if case["ok"] else " (**wrong bytes**)")


def pack_report(results, peers):
    cases = results["cases"]
    out = [head(results, "MPI_Pack and MPI_Unpack, device to device")]
    out.append(f"Launching an empty kernel and waiting for it: {results['launch_us']:.1f} µs. Device-to-device copy of "
               f"1 GiB: {results['copy_GB_s']:,} GB/s, read plus written. The floor of a row is that launch plus the larger "
               "of 3 µs and the bytes that must move, at that rate: the packed ones and the 64-byte granules touched on "
               "the strided side (twice where unpacking writes only a part).\n")
    out.append(table(
        ["layout", "bytes", "pack", "unpack", "contiguous copy", "pack ÷ copy", "unpack ÷ copy", "pack ÷ floor", "unpack ÷ floor"],
        [[ran(c), f"{c['bytes']:,}", number(c["pack_us"]), number(c["unpack_us"]), number(c["contiguous_us"]),
          ratio(c["pack_us"], c["contiguous_us"]), ratio(c["unpack_us"], c["contiguous_us"]),
          ratio(c["pack_us"], c["floor_us"]), ratio(c["unpack_us"], c["floor_unpack_us"])] for c in cases]))
    over = [c["pack_us"] / c["floor_us"] for c in cases] + [c["unpack_us"] / c["floor_unpack_us"] for c in cases]
    out.append(f"Time ÷ floor over {len(over)} figures: geometric mean "
               f"{math.exp(sum(map(math.log, over)) / len(over)):.2f}, worst {max(over):.2f}.\n")
    out.append("## Beside other libraries\n")
    out.append(f"{peers['source']}\n")
    known = [(c, peers["pack_us"][c["case"]]) for c in cases if c["case"] in peers["pack_us"]]
    out.append(table(
        ["layout", "stridec (this run)", "TEMPI", "yaksa", "Open MPI", "contiguous copy then"],
        [[c["case"], number(c["pack_us"])] + [number(p.get(k)) for k in ("tempi", "yaksa", "openmpi", "contiguous")]
         for c, p in known]))
    behind = [f"{c['case']} ({name})" for c, p in known for name in ("tempi", "yaksa", "openmpi")
              if isinstance(p.get(name), (int, float)) and c["pack_us"] > p[name]]
    out.append("Slower than a figure above: " + (", ".join(behind) or "none") + ".\n")
    return "\n".join(out)


def pingpong_report(results, peers):
    out = [head(results, f"Send and Recv between two ranks, half a round trip, transport {results['transport']}")]
    out.append(f"{results['machine']['gpus']} GPU(s): rank r used GPU r modulo that.\n")
    rows = []
    for c in results["cases"]:
        p = peers["half_us"].get(c["case"], {})
        rows.append([ran(c), f"{c['bytes']:,}", number(c["half_us"]), number(c["contiguous_us"]),
                     ratio(c["half_us"], c["contiguous_us"])] +
                    [number(p.get(k)) for k in ("tempi_device", "tempi_oneshot", "openmpi", "contiguous")])
    out.append(table(["layout", "bytes", "derived type", "contiguous", "ratio", "TEMPI device*", "TEMPI one-shot*",
                      "Open MPI*", "contiguous, CUDA-aware*"], rows))
    out.append(f"\\* {peers['source']}\n")
    return "\n".join(out)


def main():
    with open(sys.argv[1]) as f:
        results = json.load(f)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers.json")) as f:
        peers = json.load(f)
    sys.stdout.reconfigure(encoding="utf-8")
    print((pingpong_report if "transport" in results else pack_report)(results, peers), end="")


main()
