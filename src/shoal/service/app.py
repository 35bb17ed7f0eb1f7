"""The application: a request finds its route, is let in, is handed to a thread, and its answer is written."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import unquote

from anyio import CapacityLimiter, from_thread, to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.api.access import Verb
from shoal.api.requests import Need
from shoal.engines.stopping import results_stopped_by
from shoal.errors import InvalidInput, NotFound, ShoalError
from shoal.formats.columns.layouts import bare
from shoal.formats.registry import Format, by_name
from shoal.ids import new, parse, to_text
from shoal.local.lake import whole
from shoal.model.values import Value
from shoal.service import failures, openapi
from shoal.service.answers import Answer, Chunks, EventStream, Pending, Streaming, Text
from shoal.service.auth.browsers import ANY, origin_pattern, require_own
from shoal.service.auth.identity import ANYONE, Identity
from shoal.service.bodies import Body
from shoal.service.calls import Call
from shoal.service.media import format_of_answer, media_type, open_writer
from shoal.service.responses import Admission, Admitted, Listened, Streamed, Waited
from shoal.service.routes import ROUTES, Route
from shoal.service.slots import Slots
from shoal.service.state import OPEN_THREADS, THREADS, Service

_SMALL_BODY = 1 << 20
"""Bodies up to this size are taken in before a thread is needed."""
_OF_BODIES = ("content-length", "transfer-encoding")
"""Headers of which a request with a body has one."""
_REQUEST_ID = re.compile(r"[\w.:/=+-]{1,200}", re.ASCII)
_EXPOSED = ("X-Request-ID", "Shoal-Error", "Retry-After")


def make_app(service: Service) -> ASGIApp:
    """The application of a service."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.threads = CapacityLimiter(THREADS)
        service.reading_threads = CapacityLimiter(service.readers)
        service.upload_threads = CapacityLimiter(THREADS)
        service.open_threads = CapacityLimiter(OPEN_THREADS)
        service.query_threads = CapacityLimiter(service.settings.limits.at_once)
        service.from_thread = from_thread.run_sync
        yield

    cors = Middleware(
        CORSMiddleware,
        allow_origins=[ANY] if ANY in service.settings.origins else [],
        allow_origin_regex=origin_pattern(service.settings.origins),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=_EXPOSED,
    )
    app = Starlette(routes=_http_routes(service), middleware=[cors], lifespan=lifespan)
    app.router.redirect_slashes = False
    return _Undecoded(app)


class _Undecoded:
    """Matches routes before names in the path are decoded: a name may contain a `%2F`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["raw_path"].partition(b"?")[0].decode("ascii", "replace")
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def _http_routes(service: Service) -> list[BaseRoute]:
    routes: list[BaseRoute] = [
        HttpRoute(route.path, partial(_serve, service, route), methods=[route.method], include_in_schema=False)
        for route in ROUTES
    ]
    described = Route("GET", "/openapi.json", "description", Need.NOTHING, openapi.show)
    routes.append(HttpRoute(described.path, partial(_serve, service, described), methods=["GET"]))
    paths = sorted({route.path for route in ROUTES})
    everything = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"]
    routes += [HttpRoute(path, _no_method, methods=everything) for path in paths]
    return [*routes, HttpRoute("/{path:path}", _no_route, methods=everything)]


async def _no_method(request: Request) -> Response:
    path = request.scope["path"]
    return Response(f"{path[:200]}: method not allowed\n", 405, media_type="text/plain")


async def _no_route(request: Request) -> Response:
    text = f"{request.scope['path'][:200]}: no such path (see /openapi.json)"
    return failures.respond(NotFound(text), text)


async def _serve(service: Service, route: Route, request: Request) -> Response:
    """One request, from its headers to its answer."""
    began = time.monotonic()
    ident = _request_id(request)
    try:
        response = await _answer(service, route, request, ident)
    except ClientDisconnect:
        response = Response(status_code=400)  # nobody is there to read it
    except Exception as e:
        response = _failed(service, route, ident, e)
    response.headers["X-Request-ID"] = ident
    begun = partial(_count, service, route, ident, began)
    if isinstance(response, Admitted):
        response.on_begin = begun
    else:
        begun(response.status_code)
    return response


def _count(service: Service, route: Route, ident: str, began: float, status: int) -> None:
    """Note that a request is being answered."""
    service.metrics.requests.labels(route.name, str(status)).inc()
    service.metrics.seconds.labels(route.name).observe(time.monotonic() - began)
    service.log("debug", "request", request_id=ident, operation=route.name, status=status)


def _failed(service: Service, route: Route, ident: str, failure: Exception) -> Response:
    """The answer where something went wrong, whether it was to be expected or not."""
    if isinstance(failure, ShoalError):
        if failures.status_of(failure) >= 500:
            kind, text = failure.kind, str(failure)  # callers do not see paths of this machine, the log does
            service.log("error", text, request_id=ident, operation=route.name, kind=kind)
        return failures.respond(failure, service.public_text(failure))
    service.log("error", "request failed", request_id=ident, operation=route.name, error=repr(failure))
    return failures.respond(ShoalError(failures.UNEXPECTED), failures.UNEXPECTED)


def _request_id(request: Request) -> str:
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else to_text(new())


async def _answer(service: Service, route: Route, request: Request, ident: str) -> Response:
    headers, settings = request.headers, service.settings
    is_empty = not any(name in headers for name in _OF_BODIES)
    length = headers.get("content-length")
    body = Body(request.receive, settings.largest_body, settings.limits.stall, length, is_empty=is_empty)
    work = partial(_handle, service, route, request, ident, body)
    if route.is_instant:
        return work()
    if route.need is Need.NOTHING:
        return await to_thread.run_sync(work, limiter=service.open_threads)
    await body.fetch_first()
    if body.is_whole and not route.mutates:
        threads = service.reading_threads if route.method == "GET" else service.threads
        return await to_thread.run_sync(work, limiter=threads)
    # A change can take long, and a body can be slow. Only a known caller gets a slot for that.
    slots, threads = service.slots.uploads, service.upload_threads
    if body.is_whole:
        slots, threads = service.slots.changes, service.threads
    identify = partial(_identify, service, request)
    identity = await to_thread.run_sync(identify, limiter=service.reading_threads)
    async with slots.enter(identity.subject):
        await body.fetch(_SMALL_BODY)
        return await to_thread.run_sync(work, limiter=threads)


def _identify(service: Service, request: Request) -> Identity:
    """Who asks; Unauthenticated or Forbidden if that is not proven."""
    identity = service.authenticator.authenticate(request.headers.get("authorization"))
    if identity.may_do_all:
        require_own(request.headers, service.settings.origins)
    return identity


def _handle(service: Service, route: Route, request: Request, ident: str, body: Body) -> Response:
    """A request, in its thread if it needs one: who asks, may they, and what it does."""
    identity = ANYONE if route.need is Need.NOTHING else _identify(service, request)
    path = {name: _unquoted(text) for name, text in request.path_params.items()}
    view = partial(service.access.view, identity, service.lake)
    called = f"{request.method} {request.scope['path']}?{request.scope['query_string'].decode('latin-1')}"
    default = by_name(route.default_format) if route.default_format else service.settings.default_format
    answer_format = format_of_answer(request.headers.get("accept", ""), default)
    params, headers = request.query_params, request.headers
    call = Call(service, ident, identity, view, called, path, params, headers, body, answer_format)
    try:
        _require(call, route)
    except NotFound:
        if not _is_done(call, route):
            raise
        return Response(status_code=204)
    if route.mutates:
        # A commit names the author that its client gave; who it was is here.
        service.log(
            "info", "change", request_id=ident, operation=route.name, subject=call.subject, path=request.url.path
        )
    return _respond(call, route, route.handler(call))


def _unquoted(text: str) -> str:
    """A name in a path, as it was before it was written there."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput(f"{text[:200]}: this part of the path is not valid UTF-8") from None


_VERBS: dict[Need, Verb] = {Need.READ: "read", Need.WRITE: "write", Need.ADMIN: "admin"}


def _require(call: Call, route: Route) -> None:
    """Nothing, if the caller may do what the route does."""
    access = call.service.access
    if route.need is Need.LAKE:
        access.require(call.identity, None, "admin")
    elif route.need in _VERBS:
        access.require(call.identity, call.pool().id, _VERBS[route.need], call.path["pool"])


def _is_done(call: Call, route: Route) -> bool:
    """Whether the pool that the path names is gone because of this very request, which comes again.

    That its operation was done says that it was let in then. One that was begun, and not done, may be done no more.
    """
    request = route.request
    if request is None or not request.http.outlives_pool:
        return False
    keyed, root = call.keyed(), whole(call.service.lake)
    op = None if keyed is None else keyed.begun(root.store)
    if op is None or not root.has_done(parse(op)):
        return False
    call.service.lake.do(call.repeated(request, op))
    return True


def _respond(call: Call, route: Route, answer: Answer) -> Response:
    """What a handler gave, as an answer of HTTP."""
    match answer:
        case None:
            return Response(status_code=204)
        case Text():
            return Response(answer.content, media_type=answer.media_type)
        case Streaming():
            return _streamed(call, route, answer)
        case EventStream():
            events = call.service.events.listen(call.identity)
            return Listened(events, _admission(call, call.service.slots.listeners), _on_failure(call, route))
        case Pending():
            return _waited(call, route, answer)
        case Value() | list():
            return _whole(call, answer)
    return _streamed(call, route, _ValueStream(call.answer_format, answer))


def _admission(call: Call, slots: Slots) -> Admission:
    return partial(slots.enter, call.subject)


def _on_failure(call: Call, route: Route) -> Callable[[Exception], Response]:
    return partial(_failed, call.service, route, call.id)


def _streamed(call: Call, route: Route, answer: Streaming) -> Response:
    """A stream of any route: it has a slot of its caller, a thread, and the limits of a query."""
    service = call.service
    admit, limits = _admission(call, service.slots.queries), service.settings.limits.query
    return Streamed(answer, admit, service.query_threads, limits, _on_failure(call, route))


def _waited(call: Call, route: Route, answer: Pending) -> Response:
    async def wait() -> Response:
        return _whole(call, await answer.wait())

    admit = _admission(call, call.service.slots.waiting)
    return Waited(wait, media_type(call.answer_format), admit, _on_failure(call, route))


def _whole(call: Call, answer: Value | list[Value]) -> Response:
    return Response(_written(call, answer), media_type=media_type(call.answer_format))


def _written(call: Call, answer: Value | list[Value]) -> bytes:
    parts: list[bytes] = []
    chunks = Chunks(parts.append)
    is_one = isinstance(answer, Value)
    writer = open_writer(call.answer_format, is_one)(chunks)
    for value in [answer] if isinstance(answer, Value) else answer:
        # Without their type name, ids are bytes in JSON too: the Zed API documents its replies with 0x....
        writer.write(Value(bare(value.type), value.data) if call.answer_format.name == "json" else value)
    writer.close()
    chunks.flush()
    return b"".join(parts)


class _ValueStream(Streaming):
    """Values that are written as they are computed."""

    def __init__(self, answer_format: Format, values: Iterator[Value]) -> None:
        super().__init__(media_type(answer_format))
        self._format = answer_format
        self._values = values

    def write(self, chunks: Chunks) -> None:
        writer = open_writer(self._format)(chunks)
        for value in results_stopped_by(self.stopping, self._values):
            writer.write(value)
        writer.close()
