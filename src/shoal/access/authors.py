"""Who makes commits, when nobody says so."""

from __future__ import annotations

import getpass
import os
import socket


def default_author() -> str:
    """`SHOAL_USER`, `ZED_USER`, or the user of this process at this machine."""
    for name in ("SHOAL_USER", "ZED_USER"):
        if os.environ.get(name):
            return os.environ[name]
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
