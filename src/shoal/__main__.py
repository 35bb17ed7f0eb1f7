"""The entry point of the script `shoal` and of `python -m shoal`, which sets this process up to start and end fast."""

import gc
import os
import sys

from shoal.cli.main import main

_OBJECTS = 100_000
"""Objects that a command creates before Python looks for garbage among them: most commands end before that."""


class NoPandas:
    """Hides pandas from pyarrow, which would import it with its first array. Commands do not need it."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("not in a command", name=name)


def run() -> int:
    """Run the command of this process; returns its exit status."""
    gc.set_threshold(_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start a thread for each core, for nothing
    sys.meta_path.insert(0, NoPandas)
    try:
        return main()
    finally:
        # What is left goes with the process, without a search for garbage. DuckDB complains of objects that stay.
        if "duckdb" not in sys.modules:
            gc.freeze()


if __name__ == "__main__":
    sys.exit(run())
