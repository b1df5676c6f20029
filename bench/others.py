#!/usr/bin/env python3
"""others.py: what bench/others.sh logged, as rows and tables: others.py LOG OUT.json OUT.md

A line of the log that begins with "@" is an object of JSON: the machine, an MPI, what was left out, or a run, whose
output follows, each line after a space. A row: program, case, bytes (null: not told), memory, mpi, mode, us, ok
(null: not checked), and for DDTBench reference_us, its contiguous message. Exit status 1 where a byte was wrong."""
import json
import re
import sys
from statistics import median

from tables import number, spread, table

MODES = ("alone", "cold", "warm")
SIZES = 4   # columns of a table of OSU's


def osu(run, lines):
    """The median where it is told and the run was warm, else the mean; a bandwidth as microseconds of a message."""
    columns = []
    for line in lines:
        if line.startswith("# Size"):
            columns = re.split(r"\s{2,}", line[2:].strip())
        values = line.split()
        if not columns or len(values) != len(columns) or not values[0].isdigit():
            continue
        size, value = int(values[0]), float(values[1])
        if "MB/s" in columns[1]:
            value = size / value if value else None
        elif run["mode"] != "cold":
            value = next((float(v) for c, v in zip(columns, values) if c.startswith("P50")), value)
        ok = values[columns.index("Validation")] == "Pass" if "Validation" in columns else None
        yield {"case": run["case"], "bytes": size, "us": value, "ok": ok}


def ddt_file(lines):
    """{(case, bytes): {method: microseconds of each exchange}} of the file that DDTBench writes."""
    times = {}
    for words in map(str.split, lines):
        if len(words) >= 5 and words[2].isdigit() and words[3] == "communication":
            times.setdefault((words[0], int(words[2])), {}).setdefault(words[1], []).append(float(words[4]))
    return times


def ddt(run, lines):
    sums = [re.match(r"ddtsum \S+ right (\d+) wrong (\d+)", line) for line in lines]
    wrong = [int(m[2]) > 0 for m in sums if m]
    ok = not any(wrong) if wrong else None
    for words in map(str.split, lines):
        if len(words) >= 6 and words[0] == "ddt":
            us, reference = (None if w == "-" else float(w) for w in (words[3], words[5]))
            yield {"case": words[1], "bytes": int(words[2]), "us": us, "reference_us": reference, "ok": ok}
    for (case, size), methods in ddt_file(lines).items():
        us, reference = (median(methods[m]) if m in methods else None for m in ("mpi_ddt", "reference"))
        yield {"case": case, "bytes": size, "us": us, "reference_us": reference, "ok": ok}


def python(run, lines):
    for words in map(str.split, lines):
        if len(words) == 5 and words[0] == "row":
            case = f"{words[1]}, {run['case']}" if run["case"] else words[1]
            yield {"case": case, "bytes": int(words[2]), "us": float(words[3]), "ok": words[4] == "ok"}


def comb(run, lines):
    """A cycle of each test."""
    case, cycles = None, 1
    for line in lines:
        told = re.search(r"-cycles;(\d+)", line)
        cycles = int(told[1]) if told else cycles
        if line.startswith("Starting test "):
            case = line[len("Starting test "):].strip()
        time = re.match(r"\s*bench-comm:.* avg ([0-9.]+) s", line)
        if time and case:
            yield {"case": case, "bytes": None, "us": 1e6 * float(time[1]) / cycles, "ok": None}


def tempi(run, lines):
    """Rows of comma-separated values: of the ping-pong "desc,…,B,…,elapsed (s),…"; of the halo, whose head lacks the
    extent, "x,y,z,communicator,pack,alltoallv,unpack" (seconds)."""
    columns = []
    for cells in ([cell.strip() for cell in line.split(",")] for line in lines):
        if cells[0] == "desc":
            columns = [" ".join(c.split()) for c in cells]
        elif columns and len(cells) == len(columns):
            yield {"case": cells[0], "bytes": int(cells[columns.index("B")]),
                   "us": 1e6 * float(cells[columns.index("elapsed (s)")]), "ok": None}
        elif len(cells) == 7 and cells[0].isdigit():
            for step, seconds in zip(("pack", "alltoallv", "unpack"), cells[4:]):
                yield {"case": f"halo {'×'.join(cells[:3])}, {step}", "bytes": None, "us": 1e6 * float(seconds),
                       "ok": None}


PARSERS = {"osu": osu, "ddt": ddt, "fft": python, "heat": python, "comb": comb, "tempi": tempi}
NAMES = {"osu": "OSU micro-benchmarks", "ddt": "DDTBench", "fft": "mpi4py-fft", "heat": "Heat", "comb": "Comb",
         "tempi": "TEMPI's"}


def read(name):
    """The objects of the log, in their order, each with the lines that follow it."""
    entries = []
    with open(name, errors="replace") as f:
        for line in f.read().splitlines():
            if line.startswith("@"):
                entries.append((json.loads(line[1:]), []))
            elif entries:
                entries[-1][1].append(line[1:])
    return [entry for entry, _ in entries if "program" not in entry], [e for e in entries if "program" in e[0]]


def what(row):
    return row["program"], row["case"], row["bytes"], row["memory"], row["mpi"]


def rows_of(runs):
    """All rows. Those of the mode check only say whether the bytes of the other rows with stridec are right."""
    rows, checked = [], {}
    for run, lines in runs:
        for row in PARSERS[run["program"]](run, lines):
            row = {"program": run["program"], "memory": run["memory"], "mpi": run["mpi"], "mode": run["mode"], **row}
            if run["mode"] == "check":
                checked[what(row)] = row["ok"]
            elif row["us"] is not None or row.get("reference_us") is not None:
                rows.append(row)
    for row in rows:
        if row["mode"] != "alone" and row["ok"] is None:
            row["ok"] = checked.get(what(row))
    return rows, [key for key, ok in checked.items() if ok is False]


def by(rows, *keys):
    """Groups of rows with the same values of these keys, in the order of their first rows."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def cell(row):
    if row is None or row["us"] is None:
        return "—"
    return number(row["us"]) + (" (**wrong bytes**)" if row["ok"] is False else "")


def ways_of(rows):
    return sorted({(row["mpi"], row["mode"]) for row in rows if row["us"] is not None},
                  key=lambda way: (MODES.index(way[1]), way[0]))


def way_name(way):
    return f"{way[0]}, {way[1]}"


def contiguous(rows):
    """{(case, bytes): the contiguous message} of DDTBench by an MPI alone, a CUDA-aware one where it was measured."""
    found = {}
    for row in sorted((r for r in rows if r["program"] == "ddt" and r["mode"] == "alone" and r["reference_us"]),
                      key=lambda r: r["mpi"] == "aware"):
        found[row["case"], row["bytes"]] = row["reference_us"]
    return found


def summary(rows):
    """Ratios of groups of rows: to the MPI alone, or to the CUDA-aware one where the row's own can't do it, and of DDTBench
    to its contiguous message."""
    lines, reference = [], contiguous(rows)
    alone = {what(row): row["us"] for row in rows if row["mode"] == "alone" and row["us"]}

    def add(title, group, ratios):
        if ratios:
            lines.append([title, way_name(group), str(len(ratios)), spread(ratios).replace("geometric mean ", "")])
    for (program, memory, *way), group in by((r for r in rows if r["us"]), "program", "memory", "mpi", "mode").items():
        for of, base in (("MPI", {what(r): r for r in group}),
                         ("aware MPI", {what(r)[:-1] + ("aware",): r for r in group if what(r) not in alone})):
            add(f"{NAMES[program]}, {memory} memory ÷ the {of} alone", way,
                [(r["us"] / alone[key], f"{r['case']}, {r['bytes'] or 0:,} B") for key, r in base.items()
                 if key in alone and way[1] != "alone"])
        if program == "ddt":
            base = [(r, reference.get((r["case"], r["bytes"]), r["reference_us"])) for r in group]
            add("DDTBench ÷ contiguous message", way,
                [(r["us"] / b, f"{r['case']}, {r['bytes']:,} B") for r, b in base if b])
    if not lines:
        return []
    return ["## Ratios\n", table(["what", "MPI, mode", "rows", "geometric mean, worst"], lines)]


def osu_tables(rows):
    out = []
    for (memory,), group in by(rows, "memory").items():
        sizes = sorted({row["bytes"] for row in group})
        sizes = sorted({sizes[round(i * (len(sizes) - 1) / (SIZES - 1))] for i in range(SIZES)})
        ways = ways_of(group)
        at = {(r["case"], r["bytes"], r["mpi"], r["mode"]): r for r in group}
        out.append(f"OSU micro-benchmarks, {memory} memory; in each cell: {'; '.join(map(way_name, ways))}\n")
        out.append(table([""] + [f"{size:,} B" for size in sizes],
                         [[case] + ["; ".join(cell(at.get((case, size, *way))) for way in ways) for size in sizes]
                          for (case,) in by(group, "case")]))
    return ["## OSU micro-benchmarks\n"] + out if out else []


def program_table(program, rows):
    rows = [row for row in rows if row["program"] == program]
    if not rows:
        return []
    ways, reference = ways_of(rows), contiguous(rows)
    lines = []
    for (case, size, memory), group in by(rows, "case", "bytes", "memory").items():
        at = {(r["mpi"], r["mode"]): r for r in group}
        base = [number(reference.get((case, size)) or group[0]["reference_us"])] if program == "ddt" else []
        lines.append([case, "—" if size is None else f"{size:,}", memory] + base +
                     [cell(at.get(way)) for way in ways])
    head = ["case", "bytes", "memory"] + (["contiguous message"] if program == "ddt" else [])
    return [f"## {NAMES[program]}\n", table(head + list(map(way_name, ways)), lines)]


def report(result):
    machine, rows = result["machine"], result["cases"]
    where = f"{machine['gpus']} × {machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else "no GPU"
    out = [f"# Programs that others wrote, {machine['gpu'] or 'without a GPU'}\n",
           f"{result['date']}; {where}; {machine['cores']} cores; {result['versions']['mpi']}; "
           f"{result['versions']['stridec']}. Two ranks.\n",
           f"`{result['command']}`\n",
           "Microseconds: medians where a program gives them. Alone: the MPI without stridec. Cold: with it, nothing "
           "compiled before (OSU: the mean of the first five). Warm: the run after. A row whose bytes were found wrong "
           "says so. DDTBench's contiguous message: of an MPI alone where there is one, else of the run itself.\n"]
    out += summary(rows) + osu_tables([row for row in rows if row["program"] == "osu"])
    for program in NAMES:
        if program != "osu":
            out += program_table(program, rows)
    for title, key in (("Failed", "failed"), ("Wrong bytes", "wrong"), ("Left out", "left_out")):
        if result[key]:
            out.append(f"## {title}\n\n" + "\n".join(f"- {line}" for line in result[key]) + "\n")
    return "\n".join(out)


def wrong_of(rows, checks):
    return [", ".join(map(str, key)) for key in checks] + \
           [", ".join(map(str, what(r) + (r["mode"],))) for r in rows if r["ok"] is False and what(r) not in checks]


def main():
    log, json_name, report_name = sys.argv[1:]
    entries, runs = read(log)
    machine = next(e for e in entries if "gpu" in e)
    rows, checks = rows_of(runs)
    result = {
        "machine": {"gpu": machine["gpu"], "gpus": int(machine["gpus"]), "driver": machine["driver"],
                    "cores": int(machine["cores"])},
        "versions": {"mpi": "; ".join(dict.fromkeys(f"{e['mpi']}: {e['version']}" for e in entries if "version" in e)),
                     "stridec": machine["stridec"]},
        "date": machine["date"], "command": machine["command"], "benchmark": "others",
        "left_out": [e["left_out"] for e in entries if "left_out" in e],
        "failed": [f"{r['program']} {r['case']}, {r['memory']} memory, {r['mpi']}, {r['mode']}: status {r['status']}"
                   + (f": {r['error']}" if r["error"] else "") for r, _ in runs if r["status"] != "0"],
        "wrong": wrong_of(rows, checks)}
    head = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in result.items())
    with open(json_name, "w") as f:
        f.write("{\n" + head + ',\n"cases": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")
    with open(report_name, "w", encoding="utf-8") as f:
        f.write(report(dict(result, cases=rows)))
    return len(result["wrong"]) > 0


if __name__ == "__main__":
    sys.exit(main())
