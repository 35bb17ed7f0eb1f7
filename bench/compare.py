"""Two versions of Shoal, side by side: `python -m bench.compare REVISION [--records N] [--rounds N]`.

The other version is checked out from git into a temporary directory. Each round runs every part with one version and
then with the other, in separate processes, so that a change of the machine's speed affects both. The table has the
best CPU time of each, which other processes disturb least, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import logs
from bench.questions import QUESTIONS, needle

ROOT = Path(__file__).parents[1]
WARM = 7
"""How often a process repeats a query; the best counts."""
COMMITS = 200

LOAD = """
import json, sys, time, shoal
began = time.process_time()
lake = shoal.create(sys.argv[1])
pool = lake.create("logs", key="ts")
first = time.process_time()
pool.load(sys.argv[2])
print(json.dumps({"load": time.process_time() - first}))
"""

QUERIES = """
import json, sys, time, shoal
time.sleep(1.1)  # a file that changed within the last second is verified by each query
lake = shoal.open(sys.argv[1])
programs = json.loads(sys.argv[3])
out = {}
for name, program in programs.items():
    best = 1e9
    for _ in range(int(sys.argv[2])):
        began = time.process_time()
        list(lake.query(program, engine="duckdb"))
        best = min(best, time.process_time() - began)
    out[name] = best
print(json.dumps(out))
"""

INTERPRETER = """
import json, sys, time, shoal
out = {}
for name, program in json.loads(sys.argv[2]).items():
    began = time.process_time()
    list(shoal.query(program, sys.argv[1]))
    out["interp: " + name] = time.process_time() - began
print(json.dumps(out))
"""

COMMIT = """
import json, sys, time, threading, shoal
lake = shoal.create(sys.argv[1])
pool = lake.create("small", key="k")
pool.load([{"k": 0}])
count = int(sys.argv[2])
began = time.process_time()
for k in range(count):
    pool.load([{"k": k}])
single = time.process_time() - began
def work(start):
    for k in range(count // 8):
        pool.load([{"k": start + k}])
threads = [threading.Thread(target=work, args=(i * count,)) for i in range(8)]
began = time.process_time()
for each in threads: each.start()
for each in threads: each.join()
print(json.dumps({"commits, one thread": single, "commits, 8 threads": time.process_time() - began}))
"""

CHANGES = """
import json, sys, time, shoal
lake = shoal.create(sys.argv[1])
pool = lake.create("small", key="k")
count = int(sys.argv[2])
began = time.process_time()
for k in range(count):
    with pool.transaction() as t:
        t.load([{"k": k}])
out = {"transactions on a branch": time.process_time() - began}
logs = lake.create("logs", key="ts")
lines = open(sys.argv[3], "rb").read().splitlines(keepends=True)
for part in range(4):
    logs.load(b"".join(lines[part::4]), format="ndjson")
ids = [o.id for o in logs.objects()]
began = time.process_time()
logs.compact(ids, engine="duckdb")
out["compaction of 4 objects"] = time.process_time() - began
print(json.dumps(out))
"""

START = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "shoal", *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""

PROGRAMS = {question.name: f"from logs | {question.ours}" for question in QUESTIONS}
TEXT_PROGRAMS = {"filter": "status >= 404", "count by kind": "count() by kind", "put": "put n:=id+1"}
STARTS = {
    "start: version": ["version"],
    "start: ls": ["ls"],
    "start: small query": ["query", "-z", "from logs | head 1"],
    "start: zq": ["zq", "-z", "yield 1"],
}


def run(source: Path, code: str, *args: str) -> dict[str, float]:
    """Run a piece of Python with the package in `source`; returns the times that it prints."""
    command = [sys.executable, "-c", code, *args]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=_environment(source))
    times: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return times


def start(source: Path, lake: Path, words: list[str]) -> float:
    """CPU seconds of one command, from its start to its end."""
    environment = {**_environment(source), "SHOAL_LAKE": str(lake)}
    command = [sys.executable, "-c", START, *words]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source / "src")}


def measure(source: Path, data: Path, records: int) -> dict[str, float]:
    """One round of one version."""
    with tempfile.TemporaryDirectory() as directory:
        lake = Path(directory) / "lake"
        programs = {name: text.replace("{needle}", str(needle(records))) for name, text in PROGRAMS.items()}
        times = run(source, LOAD, str(lake), str(data))
        times |= run(source, QUERIES, str(lake), str(WARM), json.dumps(programs))
        times |= run(source, INTERPRETER, str(data), json.dumps(TEXT_PROGRAMS))
        times |= run(source, COMMIT, str(Path(directory) / "small"), str(COMMITS))
        times |= run(source, CHANGES, str(Path(directory) / "changes"), str(COMMITS), str(data))
        times |= {name: min(start(source, lake, words) for _ in range(5)) for name, words in STARTS.items()}
    return times


def _git(*words: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *words], check=True)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        other, data = Path(directory) / "other", logs.path(args.records)
        _git("worktree", "add", "-q", "--detach", str(other), args.revision)
        try:
            for source in (other, ROOT):
                subprocess.run([sys.executable, "-m", "compileall", "-q", str(source / "src")], check=True)
            rounds = [
                (measure(other, data, args.records), measure(ROOT, data, args.records)) for _ in range(args.rounds)
            ]
        finally:
            _git("worktree", "remove", "--force", str(other))
    print(
        f"| {args.records:,} records, best of {args.rounds} | {args.revision[:12]} | here | ratio |\n|---|---|---|---|"
    )
    for name in rounds[0][1]:
        before, after = (min(each[which][name] for each in rounds) for which in (0, 1))
        print(f"| {name} | {before * 1000:.1f} ms | {after * 1000:.1f} ms | {after / before:.2f} |")


if __name__ == "__main__":
    main()
