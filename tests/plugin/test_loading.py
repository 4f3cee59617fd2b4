"""Where tools come from, and what a start says of those that cannot be had."""

import sys
from pathlib import Path

import pytest

from bascule.config import Config, ConfigError, convert, load
from bascule.gateway.serve import check, make_client
from tests.plugin.installing import fake
from tests.process import call, finished

TOOL = '''
from bascule import tool

@tool("acme:{name}")
def {name}() -> str:
    """Say where this is."""
    return __file__
'''
CLASS = '''
from bascule.plugin import Declaration, GatewayTool, ToolOptions
import msgspec

class Nothing(msgspec.Struct):
    pass

class Tool(GatewayTool[Nothing, ToolOptions, Declaration]):
    """Do nothing."""
    {body}
    async def run(self, arguments, declared, context):
        return ""

class NoRun(GatewayTool[Nothing, ToolOptions, Declaration]):
    """Do nothing."""
    type = "acme:no_run"

class NoType(GatewayTool[Nothing, ToolOptions, Declaration]):
    """Do nothing."""
    async def run(self, arguments, declared, context):
        return ""
'''


def _checked(config: Config) -> None:
    check(config, make_client())


def _fault(*modules: str) -> str:
    with pytest.raises(ConfigError) as caught:
        _checked(convert({"tools": {"modules": list(modules)}}, {}))
    return str(caught.value)


def _written(folder: Path, text: str, name: str = "mine.py") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.requirement("tools:plugin:modules")
def test_a_file_is_looked_for_from_the_folder_of_the_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    _written(folder, TOOL.format(name="one"), "my_tools.py")
    path = folder / "bascule.toml"
    path.write_text('[tools]\nmodules = ["./my_tools.py"]\n[tools."acme:one"]\ntimeout = 5\n')
    config = load(path, {})
    assert config.tools.modules == (str(folder / "my_tools.py"),)
    _checked(config)
    done = call(tmp_path, "check-config", "--config", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: ok\n", "")


@pytest.mark.requirement("tools:plugin:modules")
def test_a_variable_names_modules_too(tmp_path: Path) -> None:
    name = _written(tmp_path, TOOL.format(name="one"))
    config = load(None, {"BASCULE__TOOLS__MODULES__0": name})
    assert config.tools.modules == (name,)
    _checked(config)


@pytest.mark.requirement("tools:plugin:modules")
def test_a_module_that_python_knows_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, TOOL.format(name="named"), "named_tools_of_a_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    config = convert({"tools": {"modules": ["named_tools_of_a_test"]}}, {})
    _checked(config)
    monkeypatch.delitem(sys.modules, "named_tools_of_a_test")


@pytest.mark.requirement("tools:plugin:modules")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named"),
        ("1 +", "SyntaxError"),
        ("\n\nboom", "NameError: name 'boom' is not defined ({path}, line 3)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (
            "from bascule import tool\n@tool('add')\ndef add(): 'x'",
            "@tool needs a type of the form slug:name, not 'add'",
        ),
        ("from bascule import tool\n@tool\ndef add(): 'x'", "@tool needs a type of the form"),
        ("from bascule import tool\n@tool('a:b')\nclass B: 'x'", "it goes onto a function"),
        ("from bascule import tool\n@tool('a:b')\ndef b(): pass", "b: the model needs a docstring"),
        ("from bascule import tool\n@tool('a:b')\ndef b(x): 'x'", "'x' has no annotation"),
        ("from bascule import tool\n@tool('a:b')\ndef b(*x: int): 'x'", "cannot give '*x: int'"),
        ("from bascule import tool\n@tool('a:b')\ndef b(x: object): 'x'", "is not supported"),
        ("from bascule import tool\n@tool('a:b', timeout=0)\ndef b(): 'x'", "more than 0 seconds"),
    ],
)
def test_a_module_that_cannot_be_had(tmp_path: Path, text: str, told: str) -> None:
    path = _written(tmp_path, text)
    said = _fault(path)
    assert said.startswith(f"tools.modules[0]: '{path}'")
    assert told.format(path=path) in said
    assert "\n" not in said
    assert not [m for m in sys.modules.values() if getattr(m, "__file__", None) == path]


@pytest.mark.requirement("tools:plugin:modules")
def test_a_module_that_is_not_there_or_empty(tmp_path: Path) -> None:
    assert _fault(_written(tmp_path, "x = 1")).endswith("mine.py' has no function with @tool")
    assert "there is no file" in _fault(str(tmp_path / "none.py"))
    assert "No module named 'no_such_module'" in _fault("no_such_module")


@pytest.mark.requirement("tools:plugin:clash")
def test_one_type_of_two_modules_names_both(tmp_path: Path) -> None:
    one = _written(tmp_path, TOOL.format(name="same"), "one.py")
    two = _written(tmp_path, TOOL.format(name="same"), "two.py")
    said = _fault(one, two)
    assert said == (
        f"tools.modules[1]: '{two}': the tool type 'acme:same' is also brought by "
        f"tools.modules[0]: '{one}'"
    )


@pytest.mark.requirement("tools:plugin:modules")
def test_a_tool_that_two_modules_hold_is_one_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(tmp_path, TOOL.format(name="shared"), "shared_tools_of_a_test.py")
    monkeypatch.syspath_prepend(tmp_path)
    other = _written(tmp_path, "from shared_tools_of_a_test import shared")
    _checked(convert({"tools": {"modules": ["shared_tools_of_a_test", other]}}, {}))
    monkeypatch.delitem(sys.modules, "shared_tools_of_a_test")


@pytest.mark.requirement("tools:plugin:installed")
@pytest.mark.parametrize(
    ("source", "entry", "told"),
    [
        ("import nothing_of_this_name", "x = bad:Tool", "cannot be imported: ModuleNotFoundError"),
        ("", "x = bad:Tool", "cannot be imported: AttributeError"),
        ("Tool = 3", "x = bad:Tool", "bad:Tool is neither a class of GatewayTool nor a function"),
        (CLASS.format(body='type = "Acme"'), "x = bad:Tool", "'Acme' is not of the form slug:name"),
        (CLASS.format(body=""), "x = bad:NoRun", "bad:NoRun is not whole"),
        (CLASS.format(body=""), "x = bad:NoType", "bad:NoType is not whole"),
    ],
)
def test_a_plugin_that_cannot_be_had(tmp_path: Path, source: str, entry: str, told: str) -> None:
    fake(tmp_path / "site", "bad", source, entry)
    done = call(tmp_path, "check-config", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 2
    assert done.stderr.startswith("bascule: plugin 'x' of bad 1.0")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.requirement("tools:plugin:installed", "tools:plugin:clash")
def test_one_type_of_two_plugins_names_both(tmp_path: Path) -> None:
    site = tmp_path / "site"
    fake(site, "good", TOOL.format(name="same"), "a = good:same")
    fake(site, "also", TOOL.format(name="same"), "b = also:same")
    done = call(tmp_path, "check-config", env={"PYTHONPATH": str(site)})
    assert done.returncode == 2
    assert done.stderr == (
        "bascule: plugin 'b' of also 1.0: the tool type 'acme:same' is also brought by "
        "plugin 'a' of good 1.0\n"
    )


@pytest.mark.requirement("tools:plugin:installed")
def test_a_constructor_that_raises_stops_the_start(tmp_path: Path) -> None:
    body = 'type = "acme:x"\n    def __init__(self, options):\n        raise OSError("no\\ndisk")'
    fake(tmp_path / "site", "bad", CLASS.format(body=body), "x = bad:Tool")
    done = call(tmp_path, "check-config", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 2
    assert done.stderr == ("bascule: tools.acme:x: the tool cannot be made: OSError: no disk\n")


@pytest.mark.requirement("tools:plugin:light")
def test_importing_bascule_alone_loads_none_of_it(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import sys, bascule\n"
        "assert not [name for name in sys.modules if name.startswith('bascule.')]\n"
        "assert 'msgspec' not in sys.modules\n"
        "from bascule import tool\n"
        "assert callable(tool)\n"
    )
    done = finished(tmp_path, [sys.executable, "x.py"])
    assert (done.returncode, done.stderr) == (0, "")
