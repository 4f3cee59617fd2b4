"""What declarations of several types share. Source of the shapes: openai-python's types and its recordings.

Members that are not listed are kept and shown, and mean nothing here.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw

from bascule.protocols import json

Callers = list[Literal["direct", "programmatic"]]
MemoryLimit = Literal["1g", "4g", "16g", "64g"]
Name = Annotated[str, Meta(min_length=1)]
Share = Annotated[float, Meta(ge=0, le=1)]


class NoNetwork(msgspec.Struct, tag_field="type", tag="disabled"):
    pass


class DomainSecret(msgspec.Struct):
    """Put into requests to the domain in the place of its name; never shown."""

    domain: str
    name: str
    value: str


class AllowedDomains(msgspec.Struct, tag_field="type", tag="allowlist"):
    allowed_domains: list[str]
    domain_secrets: list[DomainSecret] | None = None


NetworkPolicy = NoNetwork | AllowedDomains


class SkillReference(msgspec.Struct, tag_field="type", tag="skill_reference"):
    skill_id: str
    version: str | None = None


class SkillSource(msgspec.Struct):
    """A zip archive in base64."""

    type: Literal["base64"]
    media_type: str
    data: str


class InlineSkill(msgspec.Struct, tag_field="type", tag="inline"):
    name: str
    description: str
    source: SkillSource


class LocalSkill(msgspec.Struct):
    name: str
    description: str
    path: str


class ContainerAuto(msgspec.Struct, tag_field="type", tag="container_auto"):
    file_ids: list[str] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None
    skills: list[SkillReference | InlineSkill] | None = None


class ContainerReference(msgspec.Struct, tag_field="type", tag="container_reference"):
    container_id: str


class Local(msgspec.Struct, tag_field="type", tag="local"):
    skills: list[LocalSkill] | None = None


Environment = ContainerAuto | ContainerReference | Local
"""Where a `shell` runs: in a container of the server's, or at the client's."""


def with_defaults(declaration: Raw, defaults: dict[str, Raw]) -> Raw:
    """A declaration as OpenAI shows it: what the client left out, filled in."""
    members = json.envelope(bytes(declaration))
    return Raw(json.encode({**members, **{k: v for k, v in defaults.items() if k not in members}}))


NULL: Final = Raw(b"null")


def without_secrets(declaration: Raw, place: str) -> Raw:
    """A declaration without the values of its network policy's secrets. `place` is the member that
    may hold the policy."""
    if b"domain_secrets" not in bytes(declaration):
        return declaration
    members: dict[str, Any] = msgspec.json.decode(declaration)
    holder = json.as_object(members.get(place)) or {}
    policy = json.as_object(holder.get("network_policy")) or {}
    policy.pop("domain_secrets", None)
    return Raw(json.encode(members))
