"""A query of a service that runs on Spark: its job is cancelled when the client leaves. Spark's own API tells that."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from tests.engines.spark.conftest import CONF
from tests.engines.spark.test_cluster import conf_of

import shoal
from shoal.engines.spark import packing
from shoal.testing.ports import HOST, free_port
from shoal.testing.services import serving
from shoal.testing.spark_cluster import running_cluster

pytestmark = pytest.mark.timeout(600)
PATIENCE = 120.0
"""Seconds for a session to start, or for a job to end, on a busy machine."""
ENDLESS = "from p | over a with b=a => (over b with x=this => (over b | yield {x,y:this})) | count()"
LEVELS = ("local", pytest.param("standalone", marks=pytest.mark.long))


@contextmanager
def cluster_variables(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a service whose Spark is on this machine, or on a cluster."""
    if kind == "local":
        yield {"SHOAL_SPARK_MASTER": "local[2]", "SHOAL_SPARK_CONF": CONF}
        return
    packing.pack(folder / "libraries.zip")
    with running_cluster(folder / "cluster") as cluster:
        yield {
            "SHOAL_SPARK_MASTER": cluster.master,
            "SHOAL_SPARK_CONF": ",".join(f"{key}={value}" for key, value in conf_of({}).items()),
            "SHOAL_SPARK_LIBRARIES": str(folder / "libraries.zip"),
            "SHOAL_SPARK_PATIENCE": "120",
        }


@pytest.mark.parametrize("kind", LEVELS)
def test_a_client_that_leaves_ends_its_job(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = shoal.create(tmp_path / "lake")
    pool = lake.create("p", key="n")
    for part in range(4):
        pool.load([{"n": 100 * part + n, "a": list(range(1000))} for n in range(100)])
    port = free_port()
    with cluster_variables(kind, tmp_path) as variables:
        variables["SHOAL_SPARK_CONF"] += f",spark.ui.enabled=true,spark.ui.port={port},spark.port.maxRetries=0"
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with serving(tmp_path / "lake", tmp_path, ["-log.level", "warn"]) as served:
            for _ in range(2):
                with ask(served.url, ENDLESS):
                    wait_until(lambda: running_jobs(port) == ["shoal: read rows"])
                wait_until(lambda: running_jobs(port) == [])
            assert shoal.open(served.url).query("from p | count()", engine="spark").to_list() == [400]


@contextmanager
def ask(url: str, program: str) -> Iterator[None]:
    """A client that leaves without waiting for the answer."""
    place = urlsplit(url)
    body = json.dumps({"query": program, "engine": "spark"}).encode()
    head = f"POST /query HTTP/1.1\r\nHost: localhost:{place.port}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(head.encode() + body)
        yield


def running_jobs(port: int) -> list[str] | None:
    """The descriptions of the jobs that run; None if there is no session yet."""
    try:
        (application,) = tell(port, "")
        return [job["description"] for job in tell(port, f"/{application['id']}/jobs?status=running")]
    except (URLError, ConnectionError, ValueError):
        return None


def tell(port: int, path: str) -> Any:
    """What Spark tells of its applications."""
    with urlopen(f"http://{HOST}:{port}/api/v1/applications{path}", timeout=10) as reply:
        return json.load(reply)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.1)
