"""The description of the service is true: requests made from it are answered as it says, and never by a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from tests.service.conftest import Api

from shoal.formats.registry import formats
from shoal.service.openapi import document
from shoal.service.routes import ROUTES

EXAMPLES = 5


@schemathesis.serializer(*(each for f in formats() for each in f.media_types if each != "application/json"))
def as_they_are(context: Any, value: Any) -> Any:
    """Data of any format is bytes."""
    return getattr(value, "data", value) if not isinstance(value, str) or hasattr(value, "data") else value.encode()


schema = schemathesis.openapi.from_dict(document())
ENDLESS = {"changes", "events", "queryStatus"}
"""Answers that come when something happens."""


def test_the_description_has_every_route_and_no_other(api: Api) -> None:
    told = json.loads(api.call("GET", "/openapi.json").data)
    assert told == document()
    listed = {(path, method.upper()) for path, methods in told["paths"].items() for method in methods}
    assert listed == {(route.path, route.method) for route in ROUTES}
    assert len({route.name for route in ROUTES}) == len(ROUTES)


@pytest.fixture(scope="module")
def pool(api: Api) -> str:
    api.post("/pool", {"name": "described", "layout": {"order": "asc", "keys": [["id"]]}})
    api.post("/pool/described/branch/main", b'{"id":1,"name":"a"}')
    return "described"


@schema.exclude(operation_id=list(ENDLESS)).parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_answers_are_as_described(case: schemathesis.Case[Any], api: Api, pool: str) -> None:
    if "pool" in case.path_parameters:
        case.path_parameters["pool"] = pool
    if "branch" in case.path_parameters:
        case.path_parameters["branch"] = "main"
    if case.operation.definition.raw["operationId"] in ("dropPool", "renamePool", "dropBranch"):
        case.path_parameters["pool"] = "nobody"
    answer = case.call(base_url=api.served.url, timeout=60)
    case.validate_response(answer, checks=[not_a_server_error, status_code_conformance, content_type_conformance])
