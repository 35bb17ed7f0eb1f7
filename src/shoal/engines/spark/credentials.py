"""Which credentials the tasks of a cluster use for a lake in a cloud.

They come from the environment of the executors, unless the session has credentials for Hadoop's S3, or the driver is
told to send its own (`SHOAL_SPARK_CREDENTIALS=driver`). What is sent is in the bytes of tasks: not in the
configuration, the plan, the event log or a file.
"""

from __future__ import annotations

import os
from typing import Any

from shoal.errors import InvalidInput
from shoal.storage import uris
from shoal.storage.settings import settings_here, use_settings

_HADOOP = {
    "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "fs.s3a.endpoint": "AWS_ENDPOINT_URL_S3",
    "fs.s3a.endpoint.region": "AWS_REGION",
}
"""Settings of Hadoop's S3 client, and the variables that mean the same."""
_CHOICES = ("executor", "driver")


def credentials_to_send(spark: Any) -> dict[str, str]:
    """What tasks of a session are to use before their own environment; empty if that is all there is."""
    choice = os.environ.get("SHOAL_SPARK_CREDENTIALS") or "executor"
    if choice not in _CHOICES:
        raise InvalidInput(f"SHOAL_SPARK_CREDENTIALS: {choice!r} is not one of {', '.join(_CHOICES)}")
    return settings_here() if choice == "driver" else _of_hadoop(spark)


def _of_hadoop(spark: Any) -> dict[str, str]:
    context = getattr(spark, "_sc", None)
    conf = spark.conf if context is None else context.getConf()
    values = ((name, conf.get(f"spark.hadoop.{key}", None)) for key, name in _HADOOP.items())
    settings = {name: str(text) for name, text in values if text}
    if (endpoint := settings.get("AWS_ENDPOINT_URL_S3")) is not None and "://" not in endpoint:
        settings["AWS_ENDPOINT_URL_S3"] = f"https://{endpoint}"  # Hadoop takes a host, too
    return settings if "AWS_ACCESS_KEY_ID" in settings else {}


def use_credentials(settings: dict[str, str]) -> None:
    """Use what the driver sent; runs in tasks. Stores that were opened with other settings are opened again."""
    if use_settings(settings):
        uris.reopen_store.cache_clear()
