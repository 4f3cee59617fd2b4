"""From a model's name to an upstream: exact names and aliases, `UPSTREAM/model`, aliases that are globs,
globs of upstreams, the default."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from bascule.config import Config, ConfigError, ModelSection, UpstreamSection, is_glob
from bascule.protocols.chat.upstream import ChatUpstream
from bascule.protocols.errors import ApiError
from bascule.protocols.flags import FLATTEN, Flags, override
from bascule.protocols.responses.upstream import ResponsesUpstream
from bascule.protocols.upstream import UpstreamProtocol
from bascule.upstreams.client import Headers, Timeouts, UpstreamClient
from bascule.upstreams.details import UNKNOWN, ModelDetails
from bascule.upstreams.profiles import PROFILES
from bascule.upstreams.target import Target
from bascule.upstreams.wire import parse_target

_PROTOCOLS: dict[str, UpstreamProtocol] = {"chat": ChatUpstream(), "responses": ResponsesUpstream()}


def model_not_found(name: str, param: str = "model") -> ApiError:
    return ApiError(404, f"The model '{name}' does not exist.", code="model_not_found", param=param)


def base_url(url: str) -> str:
    """A base URL without a path gets `/v1`; a trailing slash goes."""
    return url.rstrip("/") + ("" if urlsplit(url).path.strip("/") else "/v1")


@dataclass(frozen=True, slots=True)
class Upstream:
    """A configured upstream, ready for use."""

    section: UpstreamSection
    base_url: str
    flags: Flags
    client: UpstreamClient

    @property
    def forwards_key(self) -> bool:
        """Whether requests carry the client's own key."""
        secret = self.section.api_key
        return secret is not None and secret.reveal() == "client"

    def headers(self, client_key: str | None) -> Headers:
        """Request headers; the key is the upstream's own, or the client's if configured so."""
        headers: list[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
        secret = self.section.api_key
        key = None if secret is None else secret.reveal()
        if self.forwards_key:
            key = client_key
        if key:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        return tuple(headers)


class Router:
    """Raises ConfigError for an unknown profile or flag."""

    def __init__(self, config: Config, client: UpstreamClient) -> None:
        self.upstreams = {
            section.name: _upstream(i, section, client)
            for i, section in enumerate(config.upstreams)
        }
        self._targets: dict[str, Target] = {}
        self._models: dict[str, ModelSection] = {}
        self._globs: list[tuple[str, ModelSection]] = []
        for model in config.models:
            for name in (model.name, *model.aliases):
                if name != model.name and is_glob(name):
                    self._globs.append((name, model))
                else:
                    self._models[name] = model
        self._default = next((model for model in config.models if model.default), None)
        self._flags = {
            model.name: self._model_flags(i, model) for i, model in enumerate(config.models)
        }
        self._told: dict[tuple[str, str], ModelDetails] = {}
        self._listed: dict[str, frozenset[str]] = {}

    @property
    def forwards_keys(self) -> bool:
        """Whether any upstream is given the client's own key."""
        return any(upstream.forwards_key for upstream in self.upstreams.values())

    def resolve(self, name: str, client_key: str | None = None) -> Target:
        """Raises ApiError 404 `model_not_found`."""
        target = self._targets.get(name)
        if target is None:
            target = self.named(name, client_key)
            if target is None and self._default is not None:
                target = self._configured(self._default, client_key)
            if target is None:
                raise model_not_found(name)
            if not self.upstreams[target.upstream].forwards_key and len(self._targets) < 1000:
                self._targets[name] = target
        return target

    def named(self, name: str, client_key: str | None = None) -> Target | None:
        """The same without the default model: None for a name that means nothing."""
        model = self._models.get(name)
        if model is not None:
            return self._configured(model, client_key)
        prefix, slash, rest = name.partition("/")
        if slash and rest and prefix in self.upstreams:
            return self._target(self.upstreams[prefix], rest, client_key)
        for glob, model in self._globs:
            if fnmatchcase(name, glob):
                return self._configured(model, client_key)
        upstream = self._by_globs(name)
        return None if upstream is None else self._target(upstream, name, client_key)

    def _by_globs(self, name: str) -> Upstream | None:
        matching = [
            upstream
            for upstream in self.upstreams.values()
            if any(fnmatchcase(name, glob) for glob in upstream.section.models)
        ]
        has = (u for u in matching if name in self._listed.get(u.section.name, ()))
        return next(has, matching[0] if matching else None)

    def at(self, upstream: str, model: str) -> Target:
        """A model by its name at an upstream."""
        return self._target(self.upstreams[upstream], model, None)

    def configured(self) -> list[tuple[str, Target]]:
        """Names and aliases of `[[models]]`, but for aliases that are globs."""
        return [(name, self._configured(model, None)) for name, model in self._models.items()]

    def details(self, name: str) -> ModelDetails:
        """What the configuration says of a model of `[[models]]`."""
        model = self._models.get(name)
        if model is None:
            return UNKNOWN
        return ModelDetails(
            context_length=model.context_length,
            max_output_tokens=model.max_output_tokens,
            input=model.input,
        )

    def learn(self, upstream: str, model: str, details: ModelDetails) -> None:
        """What an upstream tells of a model: for the targets from now on."""
        key = (upstream, model)
        if self._told.get(key) != details:
            if len(self._told) >= 1000:
                self._told.clear()
            self._told[key] = details
            self._targets.clear()

    def learn_list(self, upstream: str, models: Iterable[str]) -> None:
        """Which models an upstream lists: of several that could have a name, one that has it."""
        names = frozenset(models)
        if self._listed.get(upstream) != names:
            self._listed[upstream] = names
            self._targets.clear()

    def _configured(self, model: ModelSection, client_key: str | None) -> Target:
        upstream = self.upstreams[model.upstream]
        target = self._target(
            upstream, model.model or model.name, client_key, self._flags[model.name]
        )
        return replace(
            target,
            name=model.name,
            context_length=model.context_length or target.context_length,
            max_output_tokens=model.max_output_tokens or target.max_output_tokens,
        )

    def _model_flags(self, i: int, model: ModelSection) -> Flags:
        upstream = self.upstreams[model.upstream]
        _check_family(upstream.section.protocol, model.flags, f"models[{i}]")
        changes = dict(model.flags)
        if model.input is not None:
            changes.setdefault("image_input", "image" in model.input)
        try:
            return override(upstream.flags, changes)
        except ValueError as e:
            raise ConfigError(f"models[{i}].{e}") from None

    def _target(
        self, upstream: Upstream, model: str, client_key: str | None, flags: Flags | None = None
    ) -> Target:
        section = upstream.section
        protocol = _PROTOCOLS[section.protocol]
        flags = flags or upstream.flags
        told = self._told.get((section.name, model), UNKNOWN)
        return Target(
            upstream=section.name,
            model=model,
            protocol=protocol,
            url=upstream.base_url + protocol.path,
            headers=upstream.headers(client_key),
            flags=flags,
            client=upstream.client,
            timeouts=Timeouts(first_byte=section.timeout, idle=section.timeout),
            surface=protocol.surface(flags),
            context_length=told.context_length,
            max_output_tokens=told.max_output_tokens,
        )


def _upstream(i: int, section: UpstreamSection, client: UpstreamClient) -> Upstream:
    url = base_url(section.base_url)
    try:
        parse_target(url)
    except ValueError as e:
        raise ConfigError(f"upstreams[{i}].base_url: {e}") from None
    profile = PROFILES.get(section.profile)
    if profile is None:
        known = ", ".join(PROFILES)
        raise ConfigError(f"upstreams[{i}].profile: '{section.profile}' is not one of {known}")
    _check_family(section.protocol, section.flags, f"upstreams[{i}]")
    try:
        flags = override(profile.flags_for(section.protocol), section.flags)
    except ValueError as e:
        raise ConfigError(f"upstreams[{i}].{e}") from None
    return Upstream(section, url, flags, client)


def _check_family(protocol: str, flags: Mapping[str, Any], place: str) -> None:
    """Chat Completions has no place for the tool_search family. Raises ConfigError."""
    if protocol == "chat" and flags.get(FLATTEN) is False:
        raise ConfigError(
            f"{place}.flags.{FLATTEN}: it cannot be off where a server is spoken to by Chat Completions"
        )
