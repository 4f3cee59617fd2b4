"""GET /openapi.json: an entry for each route, and answers that are as it says."""

from collections.abc import Generator
from typing import Any

import jsonschema
import pytest
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from bascule.gateway.app import Gateway
from bascule.gateway.openapi import OPERATIONS, document
from bascule.gateway.openapi_schemas import SCHEMAS
from bascule.protocols.responses import door
from bascule.testing import ModelServer
from tests.serving import serving

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def _routes(gateway: Gateway) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for route in gateway._others.routes:
        assert isinstance(route, Route), f"a route of an unknown kind: {route}"
        path = route.path.replace(":path}", "}")
        # Starlette answers HEAD wherever it answers GET.
        found |= {(method, path) for method in (route.methods or set()) - {"HEAD"}}
    return found


@pytest.mark.anyio
@pytest.mark.requirement("openapi:routes")
async def test_each_route_has_an_entry() -> None:
    async with ModelServer() as model, serving(model.url) as api:
        routes = _routes(api.gateway)
    missing = sorted(routes - OPERATIONS.keys())
    assert not missing, f"add these routes to OPERATIONS in gateway/openapi.py: {missing}"
    gone = sorted(OPERATIONS.keys() - routes)
    assert not gone, f"these entries of OPERATIONS have no route: {gone}"


@pytest.mark.requirement("openapi:routes")
def test_each_honoured_field_is_shown() -> None:
    fields: dict[str, Any] = SCHEMAS["CreateResponse"]["properties"]
    assert fields.keys() == set(door.honoured_fields())


def test_each_schema_is_one_and_is_used() -> None:
    text = str(document("1"))
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f"'#/components/schemas/{name}'" in text, name


@pytest.fixture(scope="module")
def served() -> Generator[str]:
    """A gateway before a model that always answers, in a thread of its own."""
    with start_blocking_portal() as portal:
        model = ModelServer("Hello!", then="repeat")
        with (
            portal.wrap_async_context_manager(model),
            portal.wrap_async_context_manager(serving(model.url)) as api,
        ):
            yield api.url


@pytest.fixture(scope="module")
def schema(served: str) -> Any:
    return schemathesis.openapi.from_url(f"{served}/openapi.json")


@pytest.mark.requirement("openapi:true")
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_the_document_says(schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=operation.as_strategy())
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=10)

    check()


@pytest.mark.requirement("openapi:true")
def test_a_sensible_turn_is_as_the_document_says(schema: Any) -> None:
    operation = schema["/v1/responses"]["POST"]
    for stream in (False, True):
        body = {"model": "mock-model", "input": "Hello", "stream": stream}
        case = operation.Case(body=body, media_type="application/json")
        answer = case.call_and_validate(checks=CHECKS, timeout=10)
        assert answer.status_code == 200
        if not stream:
            stored = schema["/v1/responses/{response_id}"]
            for method in ("GET", "DELETE"):
                case = stored[method].Case(path_parameters={"response_id": answer.json()["id"]})
                assert case.call_and_validate(checks=CHECKS, timeout=10).status_code == 200
