"""Access to the lake that the flags of a command name: in its store, or through a service."""

from __future__ import annotations

from shoal.api.access import AccessControl
from shoal.cli.flags import Parsed
from shoal.cli.lake_flags import lake_location
from shoal.client.access import RemoteAccess
from shoal.client.address import is_service, service_url
from shoal.client.credentials import Credentials, find_token
from shoal.client.json_calls import JsonCalls
from shoal.client.transport import Access
from shoal.errors import InvalidInput
from shoal.local.access import LocalAccess
from shoal.local.lake import open_local


def open_access(args: Parsed) -> AccessControl:
    """Grants and tokens of the lake. Whoever reaches its store may change them: that is how the first admin is made."""
    location = lake_location(args)
    return service_access(args) if is_service(location) else LocalAccess(open_local(location))


def service_access(args: Parsed) -> RemoteAccess:
    """The same through a service, which has to be one."""
    url = require_service(args)
    return RemoteAccess(JsonCalls(Access(url, find_token(url, args["configdir"]))))


def require_service(args: Parsed) -> str:
    """The URL of the service that is the lake; InvalidInput if the lake is none."""
    location = lake_location(args)
    if not is_service(location):
        raise InvalidInput(f"{location}: this lake is no service, and needs no token (-lake http://... names one)")
    return service_url(location)


def credentials(args: Parsed) -> Credentials:
    """The tokens of this user."""
    return Credentials(args["configdir"])
