"""Credentials that a driver sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.engines.spark.credentials import credentials_to_send, use_credentials
from shoal.errors import InvalidInput
from shoal.storage.settings import sent_settings, setting, settings_here


class Session:
    """A session of Spark Connect, of which only the settings are asked."""

    def __init__(self, **settings: str) -> None:
        self._settings = {f"spark.hadoop.fs.s3a.{name.replace('_', '.')}": text for name, text in settings.items()}
        self.conf = self

    def get(self, key: str, default: str | None) -> str | None:
        return self._settings.get(key, default)


@pytest.fixture(autouse=True)
def _nothing_sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("SHOAL_SPARK_CREDENTIALS", *settings_here()):
        monkeypatch.delenv(name, raising=False)
    yield
    use_credentials({})


def test_nothing_is_sent_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    assert credentials_to_send(Session()) == {}
    monkeypatch.setenv("SHOAL_SPARK_CREDENTIALS", "driver")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/some/file")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/some/file")
    assert credentials_to_send(Session()) == {"AWS_ACCESS_KEY_ID": "key"}
    monkeypatch.setenv("SHOAL_SPARK_CREDENTIALS", "all")
    with pytest.raises(InvalidInput, match="SHOAL_SPARK_CREDENTIALS: 'all' is not one of executor, driver"):
        credentials_to_send(Session())


def test_settings_of_hadoop_are_those_of_the_store() -> None:
    session = Session(access_key="key", secret_key="secret", endpoint="minio:9000")
    assert credentials_to_send(session) == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL_S3": "https://minio:9000",
    }
    assert credentials_to_send(Session(endpoint="http://minio:9000")) == {}


def test_what_was_sent_counts_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "here")
    use_credentials({"AWS_ACCESS_KEY_ID": "there", "AWS_ENDPOINT_URL": "http://x"})
    assert setting("AWS_ACCESS_KEY_ID") == "there"
    assert sent_settings("s3") == {"aws_access_key_id": "there"}
    use_credentials({})
    assert setting("AWS_ACCESS_KEY_ID") == "here"
    assert sent_settings("s3") == {}
