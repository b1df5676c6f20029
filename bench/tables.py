"""tables.py: what the reports share: numbers, tables, the head of a report."""
import math


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


def spread(ratios):
    """Geometric mean and worst of a list of (value, what), in words."""
    mean = math.exp(sum(math.log(value) for value, _ in ratios) / len(ratios))
    worst, what = max(ratios)
    return f"geometric mean {mean:.2f}, worst {worst:.2f} ({what})"
