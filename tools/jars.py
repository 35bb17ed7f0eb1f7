"""Brings the jars that tests of Kafka need, or pins other versions.

python -m tools.jars            bring all of them, and a Java for them, into the cache
python -m tools.jars pin NAME   write the pins of a pom that was changed
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from shoal.testing.kafka.cache import Unavailable
from shoal.testing.kafka.jars import POMS, digests, format_pins, jars, run_maven
from shoal.testing.kafka.java import java
from shoal.testing.kafka.registry import NEEDED


def names() -> list[str]:
    """The names of the poms."""
    return sorted(pom.stem for pom in POMS.glob("*.xml"))


def pin(name: str) -> None:
    """Write the digests of what Maven brings now for a pom."""
    with tempfile.TemporaryDirectory() as folder:
        run_maven(POMS / f"{name}.xml", Path(folder))
        (POMS / f"{name}.sha256").write_text(format_pins(digests(Path(folder))))


def main(argv: list[str]) -> int:
    """Pin what is named, or bring everything."""
    if argv[:1] == ["pin"]:
        for name in argv[1:]:
            pin(name)
        return 0
    try:
        for name in names():
            print(f"{name}: {jars(name)}")
        print(f"java: {java(NEEDED)}")
    except Unavailable as e:
        print(f"{e}: tests that need it are skipped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
