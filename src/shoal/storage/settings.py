"""Settings of clouds: credentials and endpoints, from the environment or from the driver of a job.

A driver may send settings with its tasks. They count before the environment of the worker and are kept in memory only:
a variable of the environment would be inherited by processes, and shown by tools.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_CREDENTIALS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN"),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_CLIENT_ID",
        "AZURE_CLIENT_SECRET",
        "AZURE_TENANT_ID",
    ),
}
"""What is sent for each cloud. A path of a file with credentials is not: it would lead to another file there."""
_OTHERS = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_S3_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_SKIP_SIGNATURE",
    "GOOGLE_BASE_URL",
    "GOOGLE_SKIP_SIGNATURE",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_SKIP_SIGNATURE",
)
_sent: dict[str, str] = {}


def setting(name: str) -> str | None:
    """A setting by the name of its environment variable; None if it is empty."""
    return _sent.get(name) or os.environ.get(name) or None


def sent_settings(scheme: str) -> dict[str, str]:
    """The credentials that a driver sent for a cloud, as its library takes them."""
    return {name.lower(): _sent[name] for name in _CREDENTIALS[scheme] if name in _sent}


def use_settings(settings: Mapping[str, str]) -> bool:
    """Use what a driver sent, from now on; returns whether that changes anything."""
    if settings == _sent:
        return False
    _sent.clear()
    _sent.update(settings)
    return True


def settings_here() -> dict[str, str]:
    """The settings in the environment of this process that another may use."""
    names = (*(name for listed in _CREDENTIALS.values() for name in listed), *_OTHERS)
    return {name: os.environ[name] for name in names if os.environ.get(name)}
