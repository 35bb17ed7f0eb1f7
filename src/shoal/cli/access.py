"""Access to the lake that the flags of a command name: in its store, or through a service."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import lake_location
from shoal.client.address import is_service, service_url
from shoal.client.credentials import config_directory, find_token
from shoal.errors import InvalidInput

if TYPE_CHECKING:
    from shoal.api.access import AccessControl
    from shoal.client.access import RemoteAccess


def open_access(args: Parsed) -> AccessControl:
    """Grants and tokens of the lake. Whoever reaches its store may change them: that is how the first admin is made."""
    location = lake_location(args)
    if is_service(location):
        return service_access(args)
    local, access = import_module("shoal.api.local"), import_module("shoal.api.access")
    found: AccessControl = access.LocalAccess(local.open_local(location))
    return found


def service_access(args: Parsed) -> RemoteAccess:
    """The same through a service, which has to be one."""
    url = require_service(args)
    access: Any = import_module("shoal.client.access")
    transport: Any = import_module("shoal.client.transport")
    found: RemoteAccess = access.RemoteAccess(
        transport.Access(url, find_token(url, config_directory(args["configdir"])))
    )
    return found


def require_service(args: Parsed) -> str:
    """The URL of the service that is the lake; InvalidInput if the lake is none."""
    location = lake_location(args)
    if not is_service(location):
        raise InvalidInput(f"{location}: this lake is no service, and needs no token (-lake http://... names one)")
    return service_url(location)
