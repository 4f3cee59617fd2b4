"""The configuration: what is read, what is refused, what is shown."""

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.config import (
    Config,
    ConfigError,
    Secret,
    ServerSection,
    convert,
    data_folder,
    find_file,
    load,
)

UPSTREAM = {"name": "a", "base_url": "http://127.0.0.1:9"}


def _refused(tree: dict[str, Any], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        convert(tree, environ or {})
    return str(raised.value)


def _load(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "bascule.toml"
    path.write_text(text)
    return load(path, environ)


def test_the_defaults() -> None:
    config = load(None, {})
    assert config == Config()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8787)
    assert config.server.api_keys == ()


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"sever": {}}, "sever: unknown key"),
        ({"server": {"prot": 1}}, "server.prot: unknown key"),
        ({"upstreams": [{**UPSTREAM, "url": "x"}]}, "upstreams[0].url: unknown key"),
        ({"tools": {"max_ronds": 1}}, "tools.max_ronds: unknown key"),
    ],
)
def test_an_unknown_key_is_named(tree: dict[str, Any], says: str) -> None:
    assert _refused(tree) == says


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("server", "port", "8787"),
        ("server", "port", 1.5),
        ("server", "port", True),
        ("server", "port", -1),
        ("server", "port", 65536),
        ("server", "host", 1),
        ("server", "api_keys", "one"),
        ("server", "api_keys", [1]),
        ("server", "sse_done", "yes"),
        ("server", "drain_seconds", 0),
        ("state", "url", 3),
        ("security", "keys", [""]),
        ("limits", "max_body_bytes", 0),
        ("limits", "max_items", -1),
        ("limits", "max_tools", 0.5),
        ("limits", "max_concurrent_turns", 0),
        ("telemetry", "log", "xml"),
        ("tools", "max_rounds", 0),
        ("tools", "max_concurrent_calls", 0),
        ("tools", "max_result_bytes", 0),
    ],
)
def test_a_wrong_type_or_range_is_named(section: str, key: str, value: Any) -> None:
    assert _refused({section: {key: value}}).startswith(f"{section}.{key}")


@pytest.mark.parametrize("name", ["name", "base_url"])
def test_what_an_upstream_needs(name: str) -> None:
    message = _refused({"upstreams": [{k: v for k, v in UPSTREAM.items() if k != name}]})
    assert name in message
    assert "upstreams" in message


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"upstreams": [UPSTREAM, UPSTREAM]}, "upstreams[1].name"),
        ({"upstreams": [{**UPSTREAM, "name": ""}]}, "upstreams[0].name"),
        ({"upstreams": [{**UPSTREAM, "name": "a/b"}]}, "upstreams[0].name"),
        ({"upstreams": [{**UPSTREAM, "base_url": "127.0.0.1"}]}, "upstreams[0].base_url"),
        ({"upstreams": [{**UPSTREAM, "protocol": "morse"}]}, "protocol"),
        ({"models": [{"name": "m", "upstream": "b"}]}, "models[0].upstream"),
        (
            {"upstreams": [UPSTREAM], "models": [{"name": "m", "upstream": "a"}] * 2},
            "models[1]",
        ),
        (
            {
                "upstreams": [UPSTREAM],
                "models": [
                    {"name": "m", "upstream": "a"},
                    {"name": "n", "upstream": "a", "aliases": ["m"]},
                ],
            },
            "models[1]",
        ),
        (
            {
                "upstreams": [UPSTREAM],
                "models": [
                    {"name": "m", "upstream": "a", "default": True},
                    {"name": "n", "upstream": "a", "default": True},
                ],
            },
            "models",
        ),
    ],
)
def test_what_does_not_fit_together_is_named(tree: dict[str, Any], place: str) -> None:
    assert place in _refused(tree)


def test_a_tool_types_options_stay_as_they_are() -> None:
    config = convert({"tools": {"max_rounds": 3, "web_search": {"engine": "x", "n": [1]}}}, {})
    assert config.tools.max_rounds == 3
    assert config.tools.by_type == {"web_search": {"engine": "x", "n": [1]}}


def test_a_tool_type_cannot_pretend_to_be_the_table_of_types() -> None:
    config = convert({"tools": {"by_type": {"x": 1}}}, {})
    assert config.tools.by_type == {"by_type": {"x": 1}}


def test_a_file_that_is_not_there_or_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="not valid TOML"):
        _load(tmp_path, "[server")
    (tmp_path / "latin.toml").write_bytes(b'x = "\xe9"')
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(tmp_path / "latin.toml", {})


def test_where_the_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert find_file() is None
    there = tmp_path / "config" / "bascule" / "bascule.toml"
    there.parent.mkdir(parents=True)
    there.write_text("")
    assert find_file() == there
    Path("bascule.toml").write_text("")
    assert find_file() == Path("bascule.toml")
    assert data_folder() == tmp_path / "data" / "bascule"


# --- the environment


def test_a_variable_overrides_the_file(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        '[server]\nport = 1\nhost = "::1"\n',
        BASCULE__SERVER__PORT="2",
        BASCULE__TOOLS__MAX_ROUNDS="4",
        BASCULE__STATE__URL="sqlite://",
        OTHER__SERVER__PORT="3",
    )
    assert (config.server.port, config.server.host) == (2, "::1")
    assert config.tools.max_rounds == 4
    assert config.state.url == Secret("sqlite://")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8080", 8080),
        ("true", True),
        ("1.5", 1.5),
        ('"quoted"', "quoted"),
        ('["a", "b"]', ["a", "b"]),
        ("{ a = 1 }", {"a": 1}),
        ("plain text", "plain text"),
        ("http://h/v1", "http://h/v1"),
        ("", ""),
        ("1\n[server]", "1\n[server]"),
    ],
)
def test_a_value_is_toml_or_else_text(text: str, value: Any) -> None:
    config = load(None, {"BASCULE__TOOLS__X__Y": text})
    assert config.tools.by_type["x"]["y"] == value


def test_a_text_that_looks_like_toml_can_be_set_where_text_is_expected() -> None:
    assert load(None, {"BASCULE__SERVER__API_KEYS__0": "12345"}).server.api_keys == (
        Secret("12345"),
    )
    assert load(None, {"BASCULE__SERVER__HOST": "true"}).server.host == "true"
    environ = {"BASCULE__UPSTREAMS__0__NAME": "1", "BASCULE__UPSTREAMS__0__BASE_URL": "http://h"}
    environ |= {"BASCULE__UPSTREAMS__0__API_KEY": "7", "BASCULE__UPSTREAMS__0__MODELS__0": "8"}
    (upstream,) = load(None, environ).upstreams
    assert (upstream.name, upstream.models, upstream.api_key) == ("1", ("8",), Secret("7"))


def test_lists_go_by_index(tmp_path: Path) -> None:
    text = '[[upstreams]]\nname = "a"\nbase_url = "http://h"\nmodels = ["x", "y"]\n'
    config = _load(
        tmp_path,
        text,
        BASCULE__UPSTREAMS__0__BASE_URL="http://other",
        BASCULE__UPSTREAMS__0__MODELS__1="z",
        BASCULE__UPSTREAMS__1__NAME="b",
        BASCULE__UPSTREAMS__1__BASE_URL="http://second",
        BASCULE__UPSTREAMS__1__FLAGS__STRICT_TOOLS="true",
    )
    first, second = config.upstreams
    assert (first.name, first.base_url, first.models) == ("a", "http://other", ("x", "z"))
    assert (second.name, second.base_url) == ("b", "http://second")
    assert second.flags == {"strict_tools": True}


@pytest.mark.parametrize("count", [11, 12])
def test_more_than_ten_by_index(count: int) -> None:
    # As text, index 10 comes before 2.
    environ = {f"BASCULE__SERVER__API_KEYS__{i}": f"key-{i}" for i in range(count)}
    keys = load(None, environ).server.api_keys
    assert [key.reveal() for key in keys] == [f"key-{i}" for i in range(count)]


@pytest.mark.parametrize(
    "name",
    [
        "BASCULE__SERVER__API_KEYS__1",
        "BASCULE__SERVER__PORT__DEEPER",
        "BASCULE__",
        "BASCULE__SERVER____PORT",
    ],
)
def test_a_variable_that_names_no_place(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        _load(tmp_path, "[server]\nport = 1\n", **{name: "x"})


def test_a_name_where_an_index_belongs() -> None:
    with pytest.raises(ConfigError, match="upstreams"):
        load(None, {"BASCULE__UPSTREAMS__X__NAME": "x"})


def test_an_unknown_key_in_a_variable() -> None:
    with pytest.raises(ConfigError, match=r"server\.prot: unknown key"):
        load(None, {"BASCULE__SERVER__PROT": "1"})


_VALUES = st.one_of(
    st.integers(1, 2**31), st.booleans(), st.text("abc xyz/:.-_0123456789äß", max_size=20)
)


@given(
    st.dictionaries(st.sampled_from(["alpha", "beta", "gamma"]), _VALUES, min_size=1, max_size=3)
)
def test_what_a_variable_says_is_what_a_file_would_say(options: dict[str, Any]) -> None:
    environ = {
        f"BASCULE__TOOLS__X__{name.upper()}": json.dumps(value) for name, value in options.items()
    }
    assert load(None, environ) == convert({"tools": {"x": options}}, {})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["server", "state", "limits", "upstreams", "models", "tools", "other"]),
        _JSON,
        max_size=4,
    )
)
def test_whatever_is_configured_is_read_or_refused(tree: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(convert(tree, {}), Config)


@given(
    st.dictionaries(
        st.from_regex(r"BASCULE__[A-Z_0-9]{0,24}", fullmatch=True), st.text(max_size=12), max_size=4
    )
)
def test_whatever_the_environment_says_is_read_or_refused(environ: dict[str, str]) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(load(None, environ), Config)


# --- secrets


def test_a_secret_from_a_variable_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from-file\n")
    tree = {"server": {"api_keys": ["plain", "env:KEY", f"file:{path}"]}}
    keys = convert(tree, {"KEY": "from-env"}).server.api_keys
    assert [key.reveal() for key in keys] == ["plain", "from-env", "from-file"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("env:NOT_SET", "NOT_SET"),
        ("env:EMPTY", "empty"),
        ("file:/does/not/exist", "/does/not/exist"),
        ("file:/", "cannot read"),
        ("", "empty"),
    ],
)
def test_a_secret_that_cannot_be_read(value: str, says: str) -> None:
    message = _refused({"server": {"api_keys": [value]}}, {"EMPTY": ""})
    assert message.startswith("server.api_keys")
    assert says in message


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"\xff\xfe\x00secret")
    message = _refused({"server": {"api_keys": [f"file:{path}"]}})
    assert message.startswith("server.api_keys")


def test_a_secret_is_not_shown() -> None:
    config = convert(
        {
            "server": {"api_keys": ["hush-1"]},
            "security": {"keys": ["hush-2"]},
            "upstreams": [{**UPSTREAM, "api_key": "hush-3"}],
        },
        {},
    )
    shown = f"{config!r} {config} {config.server.api_keys[0]} {config.upstreams[0].api_key!r}"
    assert "hush" not in shown
    assert "Secret(***)" in shown
    with pytest.raises(TypeError) as raised:
        msgspec.json.encode(config)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("value", [["hush"], {"hush": 1}, 71077345])
def test_a_secret_of_the_wrong_type_is_not_shown(value: Any) -> None:
    message = _refused({"server": {"api_keys": [value]}})
    assert "hush" not in message
    assert "71077345" not in message


def test_secrets_compare() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert ServerSection(api_keys=(Secret("a"),)) == ServerSection(api_keys=(Secret("a"),))


def _model(name: str, *aliases: str) -> dict[str, Any]:
    return {"name": name, "upstream": UPSTREAM["name"], "aliases": list(aliases)}


@pytest.mark.parametrize(
    ("models", "says"),
    [
        ([_model("a"), _model("a")], "models[1].name: the name 'a' is used twice"),
        ([_model("a", "a")], "models[0].aliases[0]: 'a' is the model's own name"),
        ([_model("a", "b"), _model("b")], "models[0].aliases[0]: 'b' is the name of another model"),
        (
            [_model("a", "b"), _model("b", "a")],
            "models[0].aliases[0]: 'b' is the name of another model; 'b' has the alias 'a': a loop",
        ),
        ([_model("a", "x"), _model("b", "x")], "models[1].aliases[0]: 'x' is also an alias of 'a'"),
        ([_model("a", "x", "x")], "models[0].aliases[1]: 'x' is also an alias of 'a'"),
        (
            [_model("a", "c-*"), _model("b", "c-*")],
            "models[1].aliases[0]: 'c-*' is also an alias of 'a'",
        ),
        ([_model("a", "")], "models[0].aliases[0]: it is empty"),
        ([_model("")], "models[0].name: it is empty"),
    ],
)
@pytest.mark.requirement("models:alias:clear")
def test_a_name_means_one_model(models: list[dict[str, Any]], says: str) -> None:
    assert _refused({"upstreams": [UPSTREAM], "models": models}) == says


@pytest.mark.parametrize(
    ("key", "value"),
    [("context_length", 0), ("max_output_tokens", "many"), ("input", ["sound"]), ("input", "text")],
)
def test_a_models_details(key: str, value: Any) -> None:
    message = _refused({"upstreams": [UPSTREAM], "models": [{**_model("a"), key: value}]})
    assert message.startswith("models")
    assert key in message
