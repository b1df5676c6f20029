"""targets.py: what a message of a derived type may take beside the contiguous message of the same bytes, in one run."""
SHORT = 32          # bytes of a block
KiB, MiB = 1024, 1024 * 1024
HALO_US = 100       # two GPUs, 256^3 floats, radius 2
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


def by_case(results, least=False):
    """The cases of a choice as {case: {transport: row}}, and the transports in their order. Of several runs by one
    transport the median, or the lower one of two in the middle; or the least. Only cases that were measured under auto and
    at least one other."""
    runs, transports = {}, []
    for c in results["cases"]:
        runs.setdefault(c["case"], {}).setdefault(c["transport"], []).append(c)
        if c["transport"] not in transports:
            transports.append(c["transport"])
    rows = {case: {t: sorted(several, key=lambda c: c["us"])[0 if least else (len(several) - 1) // 2]
                   for t, several in row.items()}
            for case, row in runs.items()}
    return {case: row for case, row in rows.items() if "auto" in row and len(row) > 1}, transports


def best_forced(row):
    """The quickest transport of a row of by_case, auto left out."""
    return min((t for t in row if t != "auto"), key=lambda t: row[t]["us"])
