"""The entry point of the script `shoal` and of `python -m shoal`."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from shoal.cli.main import main


class _NoPandas(MetaPathFinder):
    """Hides pandas from pyarrow, which would import it with its first array. Commands do not need it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not in a command", name=name)


def run() -> int:
    """Run the command of this process; returns its exit status."""
    sys.meta_path.insert(0, _NoPandas())
    return main()


if __name__ == "__main__":
    sys.exit(run())
