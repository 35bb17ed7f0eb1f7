"""The command `shoal`, as a process of its own: the script of that name, and `python -m shoal`."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

from shoal.cli.main import main


class _NoPandas(MetaPathFinder):
    """pyarrow imports pandas along with its first array: that takes longer than most commands, and none needs it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not in a command", name=name)


def run() -> int:
    """Run the command that the process was started for; its exit status."""
    sys.meta_path.insert(0, _NoPandas())
    return main()


if __name__ == "__main__":
    sys.exit(run())
