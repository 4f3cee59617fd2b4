"""Finds model servers on this machine: asks at the well-known loopback ports what is there."""

import asyncio
from dataclasses import dataclass

import msgspec

from bascule.config import UpstreamSection
from bascule.upstreams.catalog import list_upstream
from bascule.upstreams.client import Timeouts, UpstreamClient, UpstreamFailure, UpstreamRequest
from bascule.upstreams.fetch import fetch
from bascule.upstreams.profiles import PROFILES
from bascule.upstreams.routing import Upstream

_TIMEOUTS = Timeouts(connect=0.5, first_byte=2, idle=2)

# Servers sign their models, whatever the port they were started on.
_BY_OWNER = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama_cpp",
    "library": "ollama",
    "organization_owner": "lmstudio",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A model server that answered, its kind and its models."""

    section: UpstreamSection
    models: list[str]


async def discover(
    client: UpstreamClient, *, host: str = "127.0.0.1", ports: dict[int, str] | None = None
) -> list[Found]:
    """The servers that answer at `ports` (port to profile name), in that order."""
    if ports is None:
        ports = {p.port: p.name for p in PROFILES.values() if p.port is not None}
    answers = await asyncio.gather(
        *(_probe(client, f"http://{host}:{port}/v1", kind) for port, kind in ports.items())
    )
    found: list[Found] = []
    for answer in answers:
        if answer is not None:
            found.append(_unique(answer, found))
    return found


async def identify(client: UpstreamClient, base_url: str) -> str:
    """The profile for a server at a given URL; `custom` for one that does not tell."""
    found = await _probe(client, base_url, "custom")
    return "custom" if found is None else found.section.profile


async def _probe(client: UpstreamClient, base_url: str, kind: str) -> Found | None:
    section = UpstreamSection(name=kind, base_url=base_url, profile=kind)
    upstream = Upstream(section, base_url, PROFILES[kind].flags, client)
    models = await list_upstream(upstream, None, _TIMEOUTS, quiet=True)
    if models is None:
        return None
    for model in models:
        kind = _BY_OWNER.get(model.owned_by or "", kind)
    if kind == "custom" and await _is_ollama(client, base_url):
        kind = "ollama"
    section = msgspec.structs.replace(section, name=kind, profile=kind)
    return Found(section, [model.id for model in models])


async def _is_ollama(client: UpstreamClient, base_url: str) -> bool:
    url = base_url.removesuffix("/v1") + "/api/version"
    request = UpstreamRequest(url=url, method="GET", timeouts=_TIMEOUTS)
    try:
        answer = await fetch(client, request, max_bytes=65536)
    except UpstreamFailure:
        return False
    return answer.status == 200 and answer.body.startswith(b'{"version"')


def _unique(found: Found, others: list[Found]) -> Found:
    names = {other.section.name for other in others}
    name = found.section.name
    number = 2
    while name in names:
        name = f"{found.section.name}-{number}"
        number += 1
    return Found(msgspec.structs.replace(found.section, name=name), found.models)
