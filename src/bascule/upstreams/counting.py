"""Asks a model server how many tokens a request has, in the way that its profile names."""

from typing import Any, Final

import msgspec
import structlog
from msgspec import Raw

from bascule.protocols import json
from bascule.upstreams.client import Timeouts, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import fetch
from bascule.upstreams.target import Target

_log = structlog.stdlib.get_logger("bascule.upstreams")

_TIMEOUTS: Final = Timeouts(connect=5, first_byte=30, idle=30)
_MAX_BODY: Final = 64 * 1024 * 1024


class _Count(msgspec.Struct):
    """vLLM says `count`, a Responses server `input_tokens`."""

    count: int | None = None
    input_tokens: int | None = None


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[Any]


_count = json.decoder(_Count)
_prompt = json.decoder(_Prompt)
_tokens = json.decoder(_Tokens)

_STATE: Final = ("stream", "store", "include", "metadata", "max_output_tokens", "temperature")
"""Fields of a request that say nothing to the model; counting endpoints refuse some."""


async def ask_for_count(target: Target, body: bytes) -> int | None:
    """`body` is an encoded request. None where the server cannot tell, which is logged if its
    profile says that it can."""
    try:
        match target.flags.input_counting:
            case "tokenize":
                return await _tokenize(target, body)
            case "template":
                return await _template(target, body)
            case "input_tokens":
                return await _input_tokens(target, body)
            case "none":
                return None
    except (UpstreamFailure, msgspec.DecodeError, ValueError) as e:
        _log.warning("tokens were not counted", upstream=target.upstream, error=str(e)[:200])
        return None


async def _tokenize(target: Target, body: bytes) -> int | None:
    """vLLM: a chat's messages, through the model's own template."""
    fields = json.envelope(body)
    asked = {name: fields[name] for name in ("model", "messages", "tools") if name in fields}
    return _count(await _post(target, f"{_root(target)}/tokenize", asked)).count


async def _template(target: Target, body: bytes) -> int | None:
    """llama.cpp: first the prompt, then its tokens."""
    fields = json.envelope(body)
    asked = {name: fields[name] for name in ("messages", "tools") if name in fields}
    prompt = _prompt(await _post(target, f"{_root(target)}/apply-template", asked)).prompt
    asked = {"content": Raw(json.encode(prompt)), "add_special": Raw(b"true")}
    return len(_tokens(await _post(target, f"{_root(target)}/tokenize", asked)).tokens)


async def _input_tokens(target: Target, body: bytes) -> int | None:
    fields = json.envelope(body)
    for name in _STATE:
        fields.pop(name, None)
    return _count(await _post(target, f"{target.url}/input_tokens", fields)).input_tokens


def _root(target: Target) -> str:
    return target.url.removesuffix(target.protocol.path).removesuffix("/v1")


async def _post(target: Target, url: str, fields: dict[str, Raw]) -> bytes:
    request = UpstreamRequest(
        url=url, headers=target.headers, body=json.encode(fields), timeouts=_TIMEOUTS
    )
    answer = await fetch(target.client, request, max_bytes=_MAX_BODY)
    if answer.status != 200:
        raise ValueError(f"status {answer.status}")
    return answer.body
