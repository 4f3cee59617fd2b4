"""Content parts on the way to a Chat server: their form, and the place of those that it does not take."""

from typing import Any

import pytest

from bascule.testing import Call, ModelServer, Reply
from tests.serving import Answer, serving

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,AAAA"
TEXT: Json = {"type": "input_text", "text": "See:"}


async def asked(items: list[Json], **flags: Any) -> tuple[Answer, list[Json]]:
    options = {"flags": flags}
    async with ModelServer("Hi") as model, serving(model.url, upstream_options=options) as api:
        answer = await api.create(input=items)
        return answer, model.chats[0].messages if model.chats else []


async def part(members: Json, **flags: Any) -> Json:
    """The part of a user's message as the server got it."""
    answer, sent = await asked([{"role": "user", "content": [TEXT, members]}], **flags)
    assert answer.status == 200, answer.body
    return sent[0]["content"][1]


@pytest.mark.requirement("request:parts:detail")
@pytest.mark.parametrize(
    ("detail", "told"),
    [("low", "low"), ("high", "high"), ("auto", "auto"), ("original", "high"), (None, None)],
)
async def test_the_detail_of_an_image(detail: str | None, told: str | None) -> None:
    sent = await part({"type": "input_image", "image_url": PNG, "detail": detail})
    assert sent["image_url"].get("detail") == told
    by_url = await part({"type": "input_image", "image_url": "https://a.example/b.png"})
    assert by_url == {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}


@pytest.mark.requirement("request:parts:detail")
async def test_an_unknown_detail_is_named() -> None:
    image = {"type": "input_image", "image_url": PNG, "detail": "huge"}
    answer, sent = await asked([{"role": "user", "content": [TEXT, image]}])
    assert (answer.status, sent) == (400, [])
    assert answer.error["param"] == "input[0].content[1].detail"


@pytest.mark.requirement("request:parts:files")
@pytest.mark.parametrize(
    ("members", "name", "data"),
    [
        ({"file_data": PDF, "filename": "a.pdf"}, "a.pdf", PDF),
        ({"file_data": PDF}, "file.pdf", PDF),
        ({"file_data": "AAAA", "filename": "a.pdf"}, "a.pdf", PDF),
        ({"file_data": "AAAA"}, "file", "data:application/octet-stream;base64,AAAA"),
    ],
)
async def test_a_file_with_data(members: Json, name: str, data: str) -> None:
    sent = await part({"type": "input_file", **members})
    assert sent == {"type": "file", "file": {"filename": name, "file_data": data}}


@pytest.mark.requirement("request:parts:files")
async def test_a_file_by_url_where_the_server_takes_one() -> None:
    url = "https://a.example/papers/b.pdf?x=1#p"
    sent = await part({"type": "input_file", "file_url": url}, file_input="url")
    assert sent["file"] == {"filename": "b.pdf", "file_data": url}


AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}


@pytest.mark.requirement("request:parts:files")
async def test_audio() -> None:
    assert await part(AUDIO) == AUDIO


def call(*output: Json) -> list[Json]:
    return [
        {"role": "user", "content": "Fetch it"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": list(output)},
    ]


@pytest.mark.requirement("request:parts:files")
async def test_files_of_a_tool_follow_its_output() -> None:
    file = {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
    image = {"type": "input_image", "image_url": PNG}
    _, sent = await asked(call(file, image))
    assert [m["role"] for m in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2]["content"] == "(files below)"
    assert sent[3]["content"] == [
        {"type": "text", "text": "Files returned by tool call c1:"},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        {"type": "image_url", "image_url": {"url": PNG}},
    ]


NOT_TAKEN: dict[str, tuple[Json, Json]] = {
    "image": ({"type": "input_image", "image_url": PNG}, {"image_input": False}),
    "file": ({"type": "input_file", "file_data": PDF}, {"file_input": "none"}),
    "url": ({"type": "input_file", "file_url": "https://a.example/b"}, {"file_input": "data"}),
    "audio": (AUDIO, {"audio_input": False}),
}


@pytest.mark.requirement("request:parts:files")
@pytest.mark.parametrize(("members", "flags"), NOT_TAKEN.values(), ids=NOT_TAKEN)
async def test_what_the_server_does_not_take_is_named_by_its_path(
    members: Json, flags: Json
) -> None:
    first: Json = {"role": "user", "content": "a"}
    answer, sent = await asked([first, {"role": "user", "content": [TEXT, TEXT, members]}], **flags)
    assert (answer.status, sent) == (400, [])
    error = answer.error
    assert (error["param"], error["code"]) == ("input[1].content[2]", "unsupported_value")


@pytest.mark.requirement("request:parts:files")
async def test_a_part_of_a_tools_output_is_named_by_its_path() -> None:
    file = {"type": "input_file", "file_data": PDF}
    answer, sent = await asked(call(TEXT, file), file_input="none")
    assert (answer.status, sent) == (400, [])
    assert answer.error["param"] == "input[2].output[1]"


@pytest.mark.requirement("request:parts:files")
async def test_a_part_of_the_chain_is_not_a_part_of_the_input() -> None:
    options: Json = {"models": ["*"]}
    image = [{"role": "user", "content": [TEXT, {"type": "input_image", "image_url": PNG}]}]
    models = [
        {"name": "sees", "upstream": "mock"},
        {"name": "blind", "upstream": "mock", "flags": {"image_input": False}},
    ]
    async with (
        ModelServer(["Hi"]) as model,
        serving(model.url, upstream_options=options, models=models) as api,
    ):
        first = await api.create(model="sees", input=image)
        answer = await api.create(model="blind", previous_response_id=first.response["id"])
        assert len(model.chats) == 1
    assert (answer.status, answer.error["param"]) == (400, "input")


@pytest.mark.requirement("request:parts:files")
@pytest.mark.parametrize("members", [{"type": "input_image", "image_url": PNG}, AUDIO])
async def test_an_assistant_says_text_only(members: Json) -> None:
    answer, sent = await asked(
        [{"role": "assistant", "content": [members]}, {"role": "user", "content": "b"}]
    )
    assert (answer.status, sent) == (400, [])
    assert answer.error["param"] == "input[0].content[0]"


MALFORMED: dict[str, tuple[Json, str]] = {
    "image without url": ({"type": "input_image"}, ".image_url"),
    "image by id": ({"type": "input_image", "file_id": "f"}, ".file_id"),
    "file without data": ({"type": "input_file", "filename": "a"}, ".file_data"),
    "file by id": ({"type": "input_file", "file_id": "f"}, ".file_id"),
    "file twice": ({"type": "input_file", "file_data": PDF, "file_url": "https://a"}, ".file_url"),
    "audio without data": ({"type": "input_audio"}, ".input_audio"),
    "audio without format": (
        {"type": "input_audio", "input_audio": {"data": "A"}},
        ".input_audio.format",
    ),
    "video": ({"type": "input_video"}, ".type"),
}


@pytest.mark.requirement("request:parts:files")
@pytest.mark.parametrize(("members", "place"), MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_part_is_named(members: Json, place: str) -> None:
    answer, sent = await asked([{"role": "user", "content": [TEXT, members]}])
    assert (answer.status, sent) == (400, [])
    assert answer.error["param"] == f"input[0].content[1]{place}"


async def test_a_refused_part_leaves_nothing_stored_and_the_gateway_well() -> None:
    image = {"type": "input_image", "image_url": PNG}
    options = {"flags": {"image_input": False}}
    replies = [Reply(Call("f", {})), "Hi"]
    async with ModelServer(replies) as model, serving(model.url, upstream_options=options) as api:
        for stream in (False, True):
            answer = await api.create(input=[{"role": "user", "content": [image]}], stream=stream)
            assert answer.status == 400
        assert (await api.create()).status == 200
