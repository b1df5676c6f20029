"""trace.py FILE...: the events of timelines as Perfetto reads them; checks what holds of any, and then the expression
of CHECK, which may use `events` (all), `calls` (of MPI functions), `moves`, `waits`, `compiles` and `dropped`."""
import json
import os
import sys
from collections import Counter, defaultdict

events, dropped = [], 0
for path in sys.argv[1:]:
    whole = json.load(open(path, encoding="utf-8"))
    events += whole["traceEvents"]
    dropped += whole["otherData"]["dropped"]

spans = [e for e in events if e["ph"] == "X"]
calls = [e for e in spans if e["cat"] == "call"]
waits = [e for e in spans if e["cat"] == "wait"]
compiles = [e for e in spans if e["cat"] == "compile"]
moves = [e for e in events if e["ph"] == "b"]
ends = {(e["pid"], e["id2"]["local"]): e for e in events if e["ph"] == "e"}
names = Counter(e["name"] for e in calls)

assert {e["ph"] for e in events} <= {"M", "X", "b", "e"}, "phases"
assert len(ends) == len(moves), "moves begin and end"
for e in moves:
    assert ends[e["pid"], e["id2"]["local"]]["ts"] >= e["ts"], e

# Spans of a thread are nested. Times have three digits behind the point: nanoseconds.
threads = defaultdict(list)
for e in spans:
    begin = round(e["ts"] * 1000)
    threads[e["pid"], e["tid"]].append((begin, -(begin + round(e["dur"] * 1000)), e))
for thread in threads.values():
    open_spans = []
    for begin, end, e in sorted(thread, key=lambda s: s[:2]):
        while open_spans and open_spans[-1] <= begin:
            open_spans.pop()
        assert not open_spans or -end <= open_spans[-1], ("not nested", e)
        open_spans.append(-end)

print(len(events), names, dropped)
assert eval("(" + os.environ["CHECK"] + ")"), os.environ["CHECK"]
