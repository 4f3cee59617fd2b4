"""API keys, and whose a stored response is."""

from typing import Any

import pytest

from bascule.testing import ModelServer, http_error
from tests.serving import Api, serving

pytestmark = pytest.mark.anyio

ALICE, BOB = "sk-alice", "sk-bob"
KEYS = {"api_keys": [ALICE, BOB]}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": ALICE},
        {"authorization": f"Basic {ALICE}"},
        {"authorization": "Bearer sk-wrong"},
        {"authorization": f"Bearer {ALICE}x"},
        {"authorization": f"Bearer {ALICE.upper()}"},
        {"x-api-key": ""},
        {"x-api-key": "sk-wrong"},
        {"x-api-key": "ünïcode"},
        {"api-key": ALICE},
    ],
)
async def test_requests_without_a_good_key_are_refused_everywhere(headers: dict[str, str]) -> None:
    async with ModelServer("Hi") as model, serving(model.url, server=KEYS) as api:
        answers = [
            await api.create(headers),
            await api.create(headers, stream=True),
            await api.send("GET", "/v1/responses/resp_1", headers=headers),
            await api.send("DELETE", "/v1/responses/resp_1", headers=headers),
            await api.send("GET", "/v1/models", headers=headers),
        ]
        assert model.requests == []
    for answer in answers:
        assert answer.status == 401
        assert answer.error["type"] == "authentication_error"
        assert answer.error["code"] == "invalid_api_key"
        assert answer.headers["content-type"] == "application/json"
        for key in (ALICE, BOB):
            assert key.encode() not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        bearer(ALICE),
        {"authorization": f"bearer {ALICE}"},
        {"authorization": f"BEARER  {ALICE} "},
        {"x-api-key": ALICE},
        {"x-api-key": "", **bearer(ALICE)},
        {"x-api-key": "  ", **bearer(ALICE)},
        {"x-api-key": "sk-other", **bearer(ALICE)},
        {"x-api-key": ALICE, **bearer("sk-other")},
    ],
)
async def test_one_good_key_is_enough(headers: dict[str, str]) -> None:
    async with ModelServer("Hi") as model, serving(model.url, server=KEYS) as api:
        assert (await api.create(headers)).status == 200


async def test_the_owner_does_not_depend_on_the_header() -> None:
    async with ModelServer("Hi") as model, serving(model.url, server=KEYS) as api:
        id_ = (await api.create(bearer(ALICE))).json["id"]
        answer = await api.send("GET", f"/v1/responses/{id_}", headers={"x-api-key": ALICE})
        assert answer.status == 200


async def test_a_foreign_response_is_an_unknown_one() -> None:
    async with ModelServer("Hi") as model, serving(model.url, server=KEYS) as api:
        id_ = (await api.create(bearer(ALICE))).json["id"]

        async def as_bob(method: str, name: str) -> Any:
            answer = await api.send(method, f"/v1/responses/{name}", headers=bearer(BOB))
            return answer.status, answer.body.replace(name.encode(), b"")

        unknown = "resp_" + "0" * (len(id_) - 5)
        for method in ("GET", "DELETE"):
            assert await as_bob(method, id_) == await as_bob(method, unknown)
        foreign = await continued(api, BOB, id_)
        nobodys = await continued(api, BOB, unknown)
        assert foreign[0] == nobodys[0] == 400
        assert foreign[1] == nobodys[1]
        assert foreign[1]["code"] == "previous_response_not_found"
        assert foreign[1]["param"] == "previous_response_id"
        # It is still Alice's.
        assert (await continued(api, ALICE, id_))[0] == 200
        got = await api.send("GET", f"/v1/responses/{id_}", headers=bearer(ALICE))
        assert got.status == 200
        gone = await api.send("DELETE", f"/v1/responses/{id_}", headers=bearer(ALICE))
        assert gone.json == {"id": id_, "object": "response", "deleted": True}
        assert (await continued(api, ALICE, id_))[0] == 400


async def continued(api: Api, key: str, id_: str) -> tuple[int, dict[str, Any]]:
    answer = await api.create(bearer(key), previous_response_id=id_)
    error = answer.json.get("error") or {}
    return answer.status, {k: str(v).replace(id_, "") for k, v in error.items()}


async def test_the_upstreams_key_goes_upstream_and_nowhere_else() -> None:
    options = {"api_key": "sk-upstream"}
    async with (
        ModelServer("Hi") as model,
        serving(model.url, server=KEYS, upstream_options=options) as api,
    ):
        answer = await api.create(bearer(ALICE), stream=True)
        assert model.chats[0].headers["authorization"] == "Bearer sk-upstream"
        assert ALICE not in str(model.chats[0].headers)
    assert b"sk-upstream" not in answer.body


async def test_the_clients_key_is_forwarded_only_where_that_is_configured() -> None:
    async with (
        ModelServer("Hi") as model,
        serving(model.url, upstream_options={"api_key": "client"}) as api,
    ):
        await api.create(bearer("sk-mine"))
        await api.create({"x-api-key": "sk-mine"})
        await api.create()
        sent = [chat.headers.get("authorization") for chat in model.chats]
    assert sent == ["Bearer sk-mine", "Bearer sk-mine", None]


async def test_an_upstream_that_refuses_its_key_is_relayed() -> None:
    refusal = http_error(401, "Incorrect API key provided", code="invalid_api_key")
    async with (
        ModelServer(refusal) as model,
        serving(model.url, upstream_options={"api_key": "sk-upstream"}) as api,
    ):
        for stream in (True, False):
            answer = await api.create(stream=stream)
            assert answer.status == 401
            assert answer.error["code"] == "invalid_api_key"
