"""targets.py: what a message of a derived type may take beside the contiguous message of the same bytes, in one run."""
SHORT = 32          # bytes of a block
KiB, MiB = 1024, 1024 * 1024
HALO_US = 100       # two GPUs, 256^3 floats, radius 2
HALO_ADDS_US = 15   # to a kernel in one graph
CHOICE = 1.05       # the automatic choice against the best forced transport


def limit_us(case):
    """Microseconds that the case may take. Long blocks: 1.25 x the contiguous message, 1.35 x below 64 KiB; short ones:
    2 x up to 1 MiB, and beyond that 1.25 x the slowest stage by itself."""
    contiguous = case["contiguous_us"]
    if case["block"] >= SHORT:
        return (1.35 if case["bytes"] < 64 * KiB else 1.25) * contiguous
    if case["bytes"] <= MiB:
        return 2 * contiguous
    return 1.25 * max(contiguous, case["pack_us"], case["unpack_us"])


def runs_of(results):
    """The cases that were measured under auto and at least one other transport, as {case: {transport: its runs in order}};
    and the transports in theirs."""
    runs, transports = {}, []
    for c in results["cases"]:
        runs.setdefault(c["case"], {}).setdefault(c["transport"], []).append(c)
        if c["transport"] not in transports:
            transports.append(c["transport"])
    return {case: row for case, row in runs.items() if "auto" in row and len(row) > 1}, transports


def by_us(case):
    return case["us"]


def median(several):
    """The run in the middle, or the lower one of two there; wrong where any was."""
    middle = sorted(several, key=by_us)[(len(several) - 1) // 2]
    return {**middle, "ok": all(c["ok"] for c in several)}


def over_best(row):
    """Auto over the best forced transport of a row of runs_of, and which that is. The least of each transport's runs against
    the least of as many of auto's: one process is slower than the next by up to a fifth, also where both go the same way."""
    def ratio(t):
        return min(map(by_us, row["auto"][:len(row[t])])) / min(map(by_us, row[t]))
    best = max((t for t in row if t != "auto"), key=ratio)
    return ratio(best), best


def over_staged(row):
    """Pipelined over staged of a row of runs_of, by the medians."""
    return median(row["pipelined"])["us"] / median(row["staged"])["us"]
