"""Run the storm: `python -m tools.storm --store disk --minutes 20 --seed 7`. The last line is the verdict."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tools.storm.storm import run_storm


def main() -> int:
    """Parse the arguments and run; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.storm", description=__doc__)
    parser.add_argument("--store", choices=("disk", "s3"), default="disk")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--folder", type=Path, help="where to leave the lake and the logs (default: they are removed)")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="shoal-storm-"))
    folder.mkdir(parents=True, exist_ok=True)
    verdict = run_storm(arguments.store, arguments.minutes * 60, arguments.seed, folder)
    for violation in verdict.violations:
        print(f"violated: {violation}")
    print(verdict.line())
    if verdict.violations:
        print(f"the lake and the logs are in {folder}")
    elif arguments.folder is None:
        shutil.rmtree(folder)
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
