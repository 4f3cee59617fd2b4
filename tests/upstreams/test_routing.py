"""From a model's name to an upstream."""

from typing import Any

import pytest

from bascule.config import Config, ConfigError, convert
from bascule.protocols.errors import ApiError
from bascule.upstreams.details import ModelDetails
from bascule.upstreams.http1 import Http1Client
from bascule.upstreams.routing import Router, base_url
from bascule.upstreams.target import Target

UPSTREAMS: list[dict[str, Any]] = [
    {
        "name": "open",
        "base_url": "https://api.example/v1",
        "models": ["gpt-*"],
        "profile": "openai",
    },
    {"name": "local", "base_url": "http://127.0.0.1:9", "models": ["qwen*", "org/*"]},
]
MODELS: list[dict[str, Any]] = [
    {"name": "house", "upstream": "local", "model": "Qwen/Qwen3", "aliases": ["h", "gpt-house"]},
    {"name": "open/special", "upstream": "local"},
]


def _config(configured: list[dict[str, Any]] = MODELS, **first: Any) -> Config:
    upstreams = [{**UPSTREAMS[0], **first}, UPSTREAMS[1]]
    return convert({"upstreams": upstreams, "models": configured}, {})


def _router(configured: list[dict[str, Any]] = MODELS, **first: Any) -> Router:
    return Router(_config(configured, **first), Http1Client())


def _where(target: Target) -> tuple[str, str]:
    return target.upstream, target.model


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("house", ("local", "Qwen/Qwen3")),
        ("h", ("local", "Qwen/Qwen3")),
        ("gpt-house", ("local", "Qwen/Qwen3")),  # an alias comes before a glob
        ("open/special", ("local", "open/special")),  # and a name before a prefix
        ("open/anything", ("open", "anything")),
        ("local/a/b", ("local", "a/b")),
        ("gpt-5", ("open", "gpt-5")),
        ("qwen3", ("local", "qwen3")),
        ("org/model", ("local", "org/model")),  # not an upstream's name: the slash stays
    ],
)
def test_the_order_of_the_rules(name: str, where: tuple[str, str]) -> None:
    assert _where(_router().resolve(name)) == where


@pytest.mark.parametrize("name", ["nothing", "GPT-5", "open/", "/x", "other/x", "Local/x", ""])
def test_a_name_that_nobody_serves(name: str) -> None:
    with pytest.raises(ApiError) as raised:
        _router().resolve(name)
    error = raised.value
    assert (error.status, error.code, error.param) == (404, "model_not_found", "model")


def test_the_default_model_serves_the_rest() -> None:
    models = [*MODELS, {"name": "any", "upstream": "local", "model": "m", "default": True}]
    router = _router(models)
    assert _where(router.resolve("nothing")) == ("local", "m")
    assert _where(router.resolve("gpt-5")) == ("open", "gpt-5")


def test_the_first_upstream_whose_globs_match() -> None:
    assert _where(_router(models=["*"]).resolve("qwen3")) == ("open", "qwen3")


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h", "http://h/v1"),
        ("http://h/", "http://h/v1"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("https://h/openai/v2", "https://h/openai/v2"),
    ],
)
def test_base_urls(url: str, base: str) -> None:
    assert base_url(url) == base


def test_where_a_target_points() -> None:
    target = _router().resolve("gpt-5")
    assert target.url == "https://api.example/v1/chat/completions"
    assert target.flags.developer_role
    assert target.timeouts.first_byte == 600
    assert not _router().resolve("qwen3").flags.developer_role


def _authorization(target: Target) -> bytes | None:
    return dict(target.headers).get(b"authorization")


def test_whose_key_goes_upstream() -> None:
    assert _authorization(_router().resolve("gpt-5", "theirs")) is None
    router = _router(api_key="ours")
    assert _authorization(router.resolve("gpt-5", "theirs")) == b"Bearer ours"
    router = _router(api_key="client")
    assert _authorization(router.resolve("gpt-5", "theirs")) == b"Bearer theirs"
    assert _authorization(router.resolve("gpt-5")) is None
    assert _authorization(router.resolve("qwen3", "theirs")) is None


def test_a_target_does_not_show_its_key() -> None:
    router = _router(api_key="hush")
    assert "hush" not in repr(router.resolve("gpt-5"))
    assert "hush" not in repr(router.upstreams)


def test_flags_of_an_upstream_and_of_a_model() -> None:
    models = [{"name": "m", "upstream": "open", "flags": {"image_input": False}}]
    router = _router(models, flags={"verbosity": False})
    plain, own = router.resolve("gpt-5").flags, router.resolve("m").flags
    assert (plain.verbosity, plain.image_input) == (False, True)
    assert (own.verbosity, own.image_input) == (False, False)


@pytest.mark.parametrize(
    ("first", "place"),
    [
        ({"profile": "nonsense"}, "upstreams[0].profile"),
        ({"flags": {"nonsense": True}}, "upstreams[0].flags"),
        ({"flags": {"image_input": "yes"}}, "upstreams[0].flags"),
        ({"flags": {"reasoning_effort": "much"}}, "upstreams[0].flags"),
        ({"base_url": "http://user:hush@h"}, "upstreams[0].base_url"),
        ({"base_url": "http://"}, "upstreams[0].base_url"),
        ({"base_url": "http://h h"}, "upstreams[0].base_url"),
        ({"base_url": "http://h:x"}, "upstreams[0].base_url"),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_served(
    first: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        _router(**first)
    assert place in str(raised.value)
    assert "hush" not in str(raised.value)


def test_a_models_flags_are_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"models\[0\]\.flags"):
        _router([{"name": "m", "upstream": "open", "flags": {"nonsense": 1}}])


GLOBS: list[dict[str, Any]] = [
    {"name": "big", "upstream": "local", "model": "Qwen/Qwen3", "aliases": ["claude-*", "gpt-5*"]},
    {"name": "small", "upstream": "local", "aliases": ["claude-haiku", "*-mini"]},
    {"name": "my model/v1 (q4)", "upstream": "local", "model": "org/a b"},
]


@pytest.mark.requirement("models:alias:glob")
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("claude-sonnet-4-5", ("local", "Qwen/Qwen3")),
        ("claude-haiku", ("local", "small")),  # an exact alias comes before a glob
        ("gpt-5-mini", ("local", "Qwen/Qwen3")),  # the first glob that matches
        ("gpt-5", ("local", "Qwen/Qwen3")),  # an alias that is a glob before an upstream's glob
        ("gpt-4o", ("open", "gpt-4o")),
        ("open/claude-x", ("open", "claude-x")),  # a prefix before a glob
        ("my model/v1 (q4)", ("local", "org/a b")),
        ("local/my model/v1 (q4)", ("local", "my model/v1 (q4)")),
    ],
)
def test_aliases_that_are_globs(name: str, where: tuple[str, str]) -> None:
    assert _where(_router(GLOBS).resolve(name)) == where


def test_of_several_upstreams_one_that_lists_the_model() -> None:
    router = _router(models=["*"])
    assert _where(router.resolve("qwen3")) == ("open", "qwen3")
    router.learn_list("local", ["qwen3", "org/x", "other"])
    assert _where(router.resolve("qwen3")) == ("local", "qwen3")
    assert _where(router.resolve("other")) == ("open", "other")  # its globs do not let it through
    router.learn_list("open", ["qwen3"])
    assert _where(router.resolve("qwen3")) == ("open", "qwen3")


def test_what_is_learned_is_for_the_targets_from_now_on() -> None:
    router = _router([{"name": "m", "upstream": "local", "model": "qwen3", "context_length": 99}])
    assert router.resolve("qwen3").context_length is None
    router.learn("local", "qwen3", ModelDetails(context_length=4096, max_output_tokens=512))
    assert router.resolve("qwen3").context_length == 4096
    configured = router.resolve("m")
    assert (configured.name, configured.context_length) == ("m", 99)
    assert configured.max_output_tokens == 512


def test_what_a_model_reads_is_a_flag() -> None:
    models = [
        {"name": "text", "upstream": "open", "input": ["text"]},
        {"name": "both", "upstream": "open", "input": ["text", "image"]},
        {"name": "told", "upstream": "open", "input": ["text"], "flags": {"image_input": True}},
    ]
    router = _router(models)
    flags = [router.resolve(name).flags.image_input for name in ("text", "both", "told")]
    assert flags == [False, True, True]
