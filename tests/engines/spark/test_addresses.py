"""Addresses of masters and servers."""

from __future__ import annotations

import socket

import pytest

from shoal.engines.spark.addresses import patience, require_listening
from shoal.errors import InvalidInput, Unsupported
from shoal.testing.ports import HOST, free_port


def test_one_master_that_listens_is_enough() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        require_listening(f"spark://{HOST}:{free_port()},{HOST}:{port}")
        require_listening(f"sc://{HOST}:{port}/;use_ssl=true;token=secret")
    for master in ("local[2]", "yarn", "k8s://https://host:6443"):
        require_listening(master)


def test_an_address_at_which_nobody_listens_is_named() -> None:
    port = free_port()
    with pytest.raises(Unsupported) as raised:
        require_listening(f"spark://{HOST}:{port}")
    assert str(raised.value) == (
        f"there is no Spark at spark://{HOST}:{port}: {HOST}:{port}: connection refused (check SHOAL_SPARK_MASTER)"
    )


def test_patience_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_SPARK_PATIENCE", raising=False)
    assert patience() == 25
    monkeypatch.setenv("SHOAL_SPARK_PATIENCE", "1.5")
    assert patience() == 1.5
    monkeypatch.setenv("SHOAL_SPARK_PATIENCE", "long")
    with pytest.raises(InvalidInput, match="SHOAL_SPARK_PATIENCE: long is not a number of seconds"):
        patience()
