"""report_messages.py: the reports on messages between GPUs: round trips, halos, stencils, the choice of transport, two nodes."""
from tables import head, number, ran, ratio, spread, table
from targets import CHOICE, HALO_ADDS_US, HALO_US, limit_us, median, over_best, over_staged, runs_of


def met(yes):
    return "met" if yes else "not met"


def peers_table(cases, peers):
    known = [(c, peers["half_us"][c["case"]]) for c in cases if c["case"] in peers["half_us"]]
    if not known:
        return ""
    return "\n".join([
        "## Beside other libraries\n", f"{peers['source']}\n",
        table(["layout", "this run", "TEMPI device", "TEMPI one-shot", "Open MPI", "contiguous then"],
              [[c["case"], number(c["us"])] + [number(p.get(k)) for k in ("tempi_device", "tempi_oneshot", "openmpi",
                                                                         "contiguous")] for c, p in known])])


def pingpong_report(results, peers):
    cases = results["cases"]
    out = [head(results, "Messages between two ranks' GPUs, half a round trip")]
    out.append(f"{results['machine']['gpus']} GPU(s): rank r used GPU r modulo that. By MPI_Send and MPI_Recv, or by "
               "what the row says. Contiguous: the message of as many bytes, in the same run and form, by turns. The limit: 1.25 × "
               "the contiguous message for blocks of 32 bytes or longer, 1.35 × below 64 KiB; 2 × for shorter ones up to "
               "1 MiB, and beyond that 1.25 × the slowest of packing, the contiguous message and unpacking.\n")
    rows = []
    for c in cases:
        limit = limit_us(c)
        rows.append([ran(c), f"{c['bytes']:,}", str(c["block"]), number(c["us"]), number(c["contiguous_us"]),
                     ratio(c["us"], c["contiguous_us"]), ratio(limit, c["contiguous_us"]), met(c["us"] <= limit),
                     number(c["pack_us"]), number(c["unpack_us"]), c["transport"]])
    out.append(table(["layout", "bytes", "block", "derived type", "contiguous", "ratio", "limit", "met", "pack",
                      "unpack", "transport"], rows))
    over = [(c["us"] / limit_us(c), c["case"]) for c in cases]
    if over:
        out.append(f"Time ÷ limit over {len(over)} rows: {spread(over)}; limit met in "
                   f"{sum(value <= 1 for value, _ in over)} of {len(over)}.\n")
    out.append(peers_table(cases, peers))
    return "\n".join(out)


def link(results, c):
    """Bytes that leave the busiest GPU per microsecond in GB/s, and as a fraction of the link; both as text."""
    if not c["leaving_bytes"]:
        return ["—", "—"]
    rate = c["leaving_bytes"] / c["us"] / 1000
    return [f"{rate:.1f}", ratio(rate, results.get("peer_GB_s"))]


def halo_rows(results):
    return table(["GPUs", "ranks", "block", "radius", "how", "µs", "leaves a GPU, MB", "GB/s", "of the link"],
                 [[str(c["gpus"]), str(c["ranks"]), f"{c['n']}^3", str(c["radius"]),
                   c["how"] + ("" if c["ok"] else " (**wrong bytes**)"), number(c["us"]),
                   f"{c['leaving_bytes'] / 1e6:.2f}"] + link(results, c) for c in results["cases"]])


def halo_head(results, title):
    rate = results.get("peer_GB_s")
    out = [head(results, title)]
    out.append("Ranks in a 3-D grid, rank r on GPU r modulo their number; every cell of the block was checked on every "
               "rank. Median over exchanges of the rank that took longest. Hand-written: one kernel packs, 26 contiguous "
               "MPI_Isend and MPI_Irecv, one kernel unpacks. " +
               (f"The link: {rate:,.0f} GB/s, copies from one GPU to the next in this run.\n" if rate else
                "No other GPU to measure the link to.\n"))
    return out


def graph_lines(cases):
    """How much longer a kernel takes with the halo behind it: in one graph, and as the best would write it by hand."""
    alone = {(c["ranks"], c["n"], c["radius"]): c["us"] for c in cases if c["how"] == "a kernel alone, one graph"}
    lines = []
    for c in cases:
        shape = (c["ranks"], c["n"], c["radius"])
        if shape not in alone:
            continue
        adds = c["us"] - alone[shape]
        of = f"{c['ranks']} ranks, {c['n']}^3, radius {c['radius']}"
        if c["how"] == "a kernel and the link":
            lines.append(f"{of}: by hand the halo adds {adds:.1f} µs.\n")
        if c["how"] == "a kernel and the halo, one graph":
            lines.append(f"{of}: the halo adds {adds:.1f} µs to a kernel in one graph, limit {HALO_ADDS_US}: "
                         f"{met(adds <= HALO_ADDS_US)}.\n")
    return lines


def halo_report(results, peers):
    out = halo_head(results, "26-neighbour periodic halo of a block of floats")
    if any(c["how"].startswith("link") for c in results["cases"]):
        out.append("Link: without the MPI, one kernel a rank writes (reading: reads) all regions straight in the memory of the "
                   "other ranks, which CUDA IPC mapped before; flags in device memory say when.\n")
    out.append(halo_rows(results))
    for c in results["cases"]:
        if (c["gpus"], c["n"], c["radius"]) == (2, 256, 2) and c["how"] in ("isend", "neighbor_alltoallw"):
            out.append(f"{c['how']}, two GPUs, 256^3, radius 2: {c['us']:.1f} µs, limit {HALO_US}: "
                       f"{met(c['us'] <= HALO_US)}.\n")
    out += graph_lines(results["cases"])
    out.append("Two ranks, 256^3, radius 2, in other runs:\n")
    out.append(table(["how", "µs"], [[how, number(us)] for how, us in peers["halo_us"].items()]))
    return "\n".join(out)


def stencil_report(results, _):
    out = halo_head(results, "Exchange of a weakly scaled 3-D stencil")
    out.append(halo_rows(results))
    return "\n".join(out)


def collectives_report(results, _):
    out = [head(results, "Collective calls of derived types")]
    rate = results.get("peer_GB_s")
    out.append("Rank r on GPU r modulo their number. Median over calls of the rank that took longest; contiguous: the "
               "same call of as many bytes without gaps, in the same run. What leaves: of the busiest rank, to others. " +
               (f"The link: {rate:,.0f} GB/s, copies from one GPU to the next in this run.\n" if rate else
                "No other GPU to measure the link to.\n"))
    out.append(table(["GPUs", "ranks", "call", "cells a side", "derived types", "contiguous", "ratio",
                      "leaves a rank, MB", "GB/s", "of the link"],
                     [[str(c["gpus"]), str(c["ranks"]), c["how"] + ("" if c["ok"] else " (**wrong bytes**)"),
                       str(c["n"]) if "pencils" in c["how"] else "—", number(c["us"] or None),
                       number(c["contiguous_us"]),
                       ratio(c["us"], c["contiguous_us"]) if c["us"] else "—", f"{c['leaving_bytes'] / 1e6:.2f}"] +
                      (link(results, c) if c["us"] else ["—", "—"]) for c in results["cases"]]))
    return "\n".join(out)


def choice_rows(cases, transports, more):
    """A row a case: the median of each transport's runs, then more(case)."""
    rows = []
    for case, row in cases.items():
        middle = {t: median(several) for t, several in row.items()}
        rows.append([case + ("" if all(c["ok"] for c in middle.values()) else " (**wrong bytes**)")] +
                    [number(middle[t]["us"] if t in middle else None) for t in transports] + more(case))
    return rows


def choice_report(results, _):
    cases, transports = runs_of(results)
    best = {case: over_best(row) for case, row in cases.items()}
    out = [head(results, "The automatic choice of transport against each forced one, half a round trip")]
    out.append("Of several runs by one transport the median. Auto ÷ best: the least of a transport's runs against the least of as "
               "many by auto, since one process is slower than the next by up to a fifth, also where both go the same way.\n")
    out.append(table(["layout"] + transports + ["best forced", "auto ÷ best"],
                     choice_rows(cases, transports, lambda case: [best[case][1], f"{best[case][0]:.2f}"])))
    over = [(value, case) for case, (value, _) in best.items()]
    if over:
        middle = {case: {t: median(several)["us"] for t, several in row.items()} for case, row in cases.items()}
        medians = [(row["auto"] / min(us for t, us in row.items() if t != "auto"), case) for case, row in middle.items()]
        within = sum(value <= CHOICE for value, _ in over)
        out.append(f"Auto ÷ best forced over {len(over)} rows: {spread(over)}; within {100 * (CHOICE - 1):.0f} % "
                   f"in {within}: {met(within == len(over))}. By the medians of the runs: {spread(medians)}; in "
                   f"{sum(value <= CHOICE for value, _ in medians)}.\n")
    return "\n".join(out)


def nodes_report(results, _):
    cases, transports = runs_of(results)
    out = [head(results, "Messages between two nodes, half a round trip")]
    out.append("Two network namespaces of one machine (bench/nodes.sh): TCP between them, and the same GPUs for both. "
               "Contiguous: the message of as many bytes, as auto sends it. Of several runs by one transport the median.\n")
    out.append(table(["layout"] + transports + ["bytes", "contiguous"],
                     choice_rows(cases, transports, lambda case: [
                         f"{cases[case]['auto'][0]['bytes']:,}", number(median(cases[case]["auto"])["contiguous_us"])])))
    over = [(over_staged(row), case) for case, row in cases.items() if {"staged", "pipelined"} <= row.keys()]
    if over:
        better = sum(value < 1 for value, _ in over)
        out.append(f"Pipelined ÷ staged over {len(over)} rows: {spread(over)}; below 1 in {better}: "
                   f"{met(better == len(over))}.\n")
    return "\n".join(out)


MESSAGES = {"pingpong": pingpong_report, "halo": halo_report, "stencil": stencil_report, "choice": choice_report,
            "nodes": nodes_report, "collectives": collectives_report}
