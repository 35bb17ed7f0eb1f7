"""Starting the command: help of every verb, what is loaded, how long it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli.main import VERBS
from shoal.testing.shell import Shell

HEAVY = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "yaml", "obstore")
METADATA = [["ls"], ["ls", "logs"], ["log"], ["branch"], ["tag"], ["info"], ["use"]]


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help_with_its_flags_and_an_example(verb: str, bare: Shell) -> None:
    text = bare.run(verb, "-h")
    assert text == bare.run(verb, "-help") == bare.run("help", verb) == bare.run(verb, "--help", "x", "y")
    module = VERBS[verb]
    assert text.startswith(f"shoal {verb}")
    assert f"\n{module.VERB.summary}\n" in text
    for flag in module.VERB.flags:
        assert f"\n  -{flag.name} " in text
    assert verb == "version" or f"shoal {verb}" in text.partition("examples:")[2]


def test_help_lists_all_commands(bare: Shell) -> None:
    text = bare.run()
    assert text == bare.run("-h") == bare.run("help") == bare.run("-help")
    assert [line.split()[0] for line in text.split("\n\n")[2].split("\n")] == list(VERBS)


@pytest.mark.parametrize("argv", [*METADATA, ["query", "-z", "from :pools"], ["vacuum", "-dryrun"], ["manage"]])
def test_commands_of_the_lake_load_no_heavy_library(argv: list[str], shell: Shell) -> None:
    code = (
        "import sys; from shoal.cli.main import main; status = main(sys.argv[1:]); "
        f"print(status, [m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], input=b"{ts:1}", capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "0 []"


KNOWN = (
    "import asyncio, email.mime.text, http.client, unittest, decimal, xml.dom.minidom, sqlite3, argparse, tarfile, "
    "multiprocessing.pool"
)
"""Takes 0.105 s where a command takes 0.25: where it takes longer, the machine is slow or has too much to do."""
ENOUGH = 0.3
TIMES_KNOWN = 4


@pytest.mark.parametrize("argv", METADATA)
def test_metadata_is_answered_at_once_from_cold(argv: list[str], shell: Shell, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    command, known = [sys.executable, "-m", "shoal", *argv], [sys.executable, "-c", KNOWN]
    seconds_taken(command, environment), seconds_taken(known, environment)  # the first time compiles
    taken: list[tuple[float, float]] = []
    while len(taken) < 8:
        taken.append((seconds_taken(command, environment), seconds_taken(known, environment)))
        ours, usual = (min(column) for column in zip(*taken, strict=True))
        if ours < ENOUGH or (len(taken) > 3 and ours < TIMES_KNOWN * usual):
            return
    pytest.fail(f"a cold start takes too long: {taken}")


def seconds_taken(command: list[str], environment: dict[str, str]) -> float:
    """Seconds of the processor that a command takes: those of the clock depend on what else the machine does."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime
