"""Where hosted code and shells run: containers, their networks and skills, as they are declared."""

from collections.abc import Sequence
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Raw

from bascule.protocols import json

MemoryLimit = Literal["1g", "4g", "16g", "64g"]


class NoNetwork(msgspec.Struct, tag_field="type", tag="disabled"):
    pass


class DomainSecret(msgspec.Struct):
    """A secret that requests to the domain carry. Its value is never shown or kept."""

    domain: str
    name: str
    value: str


class AllowList(msgspec.Struct, tag_field="type", tag="allowlist"):
    allowed_domains: list[str]
    domain_secrets: Sequence[DomainSecret] = ()


NetworkPolicy = NoNetwork | AllowList


class SkillReference(msgspec.Struct, tag_field="type", tag="skill_reference"):
    skill_id: str
    version: str | None = None


class SkillSource(msgspec.Struct):
    type: Literal["base64"]
    media_type: str
    data: str


class InlineSkill(msgspec.Struct, tag_field="type", tag="inline"):
    name: str
    description: str
    source: SkillSource


class LocalSkill(msgspec.Struct):
    """A folder on the client's machine."""

    name: str
    description: str
    path: str


class NewContainer(msgspec.Struct, tag_field="type", tag="container_auto"):
    file_ids: Sequence[str] | None = None
    memory_limit: MemoryLimit | None = None
    network_policy: NetworkPolicy | None = None
    skills: Sequence[SkillReference | InlineSkill] | None = None


class ContainerReference(msgspec.Struct, tag_field="type", tag="container_reference"):
    container_id: str


class LocalEnvironment(msgspec.Struct, tag_field="type", tag="local"):
    skills: Sequence[LocalSkill] | None = None


Environment = NewContainer | ContainerReference | LocalEnvironment

_SECRETS: Final = b"domain_secrets"


def shown_environment(declaration: Raw, member: str) -> Raw:
    """A declaration without the values of the secrets that the environment in `member` has."""
    if _SECRETS not in bytes(declaration):
        return declaration
    shown = cast("dict[str, Any]", msgspec.json.decode(declaration))
    environment = json.as_object(shown.get(member)) or {}
    policy = json.as_object(environment.get("network_policy")) or {}
    secrets = policy.get("domain_secrets")
    if isinstance(secrets, list):
        policy["domain_secrets"] = [
            {name: value for name, value in secret.items() if name != "value"}
            for secret in map(json.as_object, cast("list[Any]", secrets))
            if secret is not None
        ]
    return Raw(json.encode(shown))
