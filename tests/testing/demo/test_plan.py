"""Which tools the demo model calls for a request, and with which arguments."""

import time
from typing import Any

import msgspec
import pytest

from bascule.testing import Call, Reply, Request, Text
from bascule.testing.demo import answer

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


def function(
    name: str, description: str = "", required: list[str] | None = None, /, **properties: Any
) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    declared = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": declared}


TOOLS = [
    function(
        "get_weather",
        "Get current temperature for a location",
        ["location"],
        location=STRING,
        unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    function("get_time", "Current local time of a city", city=STRING),
    function("calculator", "Evaluate an expression", expression=STRING),
    function("add", "Add two numbers", a=INTEGER, b=INTEGER),
    function(
        "exec_command", "Runs a command in a PTY", ["cmd"], cmd=STRING, workdir=STRING, timeout=INTEGER
    ),
    function("read_file", "Read a file from disk", path=STRING),
    function("web_search", "Search the web", query=STRING),
    function("fetch", "Fetch a URL", url={"type": "string", "format": "uri"}),
    function(
        "send_email",
        "Send an email to someone",
        to={"type": "string", "format": "email"},
        subject=STRING,
        body=STRING,
    ),
    function(
        "book_flight",
        "Book a flight",
        origin=STRING,
        destination=STRING,
        date={"type": "string", "format": "date"},
        passengers={"type": "integer", "minimum": 1},
    ),
    function("apply_patch", "Edit files with a patch", input=STRING),
    function("compare_cities", "Compare the population of cities",
             cities={"type": "array", "items": STRING, "minItems": 2}),
    function("shell_exec", "Start a process", argv={"type": "array", "items": STRING}),
    function("get_order_status", "Look up an order", order_id=STRING),
    function("generate_image", "Create a picture", ["prompt"],
             prompt=STRING, width=INTEGER, height=INTEGER),
    function("set_light", "Switch a light", lamp=STRING, on={"type": "boolean"}),
]  # fmt: skip


def reply(text: str, tools: list[dict[str, Any]] = TOOLS, **fields: Any) -> Reply:
    messages = fields.pop("messages", [{"role": "user", "content": text}])
    body = msgspec.json.encode({"model": "m", "messages": messages, "tools": tools, **fields})
    given = answer(Request(method="POST", target="/", headers={}, body=body, time=0, number=1))
    assert isinstance(given, Reply)
    return given


def calls(text: str, tools: list[dict[str, Any]] = TOOLS, **fields: Any) -> list[Any]:
    steps = reply(text, tools, **fields).steps
    return [(step.name, step.arguments) for step in steps if isinstance(step, Call)]


def said(text: str, **fields: Any) -> str:
    steps = reply(text, **fields).steps
    return "".join(str(step.content) for step in steps if isinstance(step, Text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "What is the weather in Paris and Tokyo?",
            [("get_weather", {"location": "Paris"}), ("get_weather", {"location": "Tokyo"})],
        ),
        (
            "weather in Oslo and the time in Rome",
            [("get_weather", {"location": "Oslo"}), ("get_time", {"city": "Rome"})],
        ),
        (
            "What's the weather in Paris, Tokyo and New York in fahrenheit?",
            [
                ("get_weather", {"location": "Paris"}),
                ("get_weather", {"location": "Tokyo"}),
                ("get_weather", {"location": "New York", "unit": "fahrenheit"}),
            ],
        ),
        (
            "What's the weather like in Berlin? And in Vienna?",
            [("get_weather", {"location": "Berlin"}), ("get_weather", {"location": "Vienna"})],
        ),
        ("weather in Paris, France", [("get_weather", {"location": "Paris, France"})]),
        ("what's the weather in paris", [("get_weather", {"location": "paris"})]),
        ("How warm is it in Madrid today?", [("get_weather", {"location": "Madrid"})]),
        ("What is 17*23 + 4?", [("calculator", {"expression": "17*23 + 4"})]),
        ("add 2 and 3", [("add", {"a": 2, "b": 3})]),
        ("Please add four and five.", [("add", {"a": 4, "b": 5})]),
        ("Run ls -la", [("exec_command", {"cmd": "ls -la"})]),
        (
            "Run `git status` and read README.md",
            [("exec_command", {"cmd": "git status"}), ("read_file", {"path": "README.md"})],
        ),
        ("Search the web for cats and dogs", [("web_search", {"query": "cats and dogs"})]),
        (
            "Fetch https://example.com/a?b=c, please",
            [("fetch", {"url": "https://example.com/a?b=c"})],
        ),
        (
            'Send an email to bob@example.com with subject "Hi" and body "How are you?"',
            [("send_email", {"to": "bob@example.com", "subject": "Hi", "body": "How are you?"})],
        ),
        (
            "Book a flight from Paris to Rome on 2026-03-04 for 2 passengers",
            [
                (
                    "book_flight",
                    {
                        "origin": "Paris",
                        "destination": "Rome",
                        "date": "2026-03-04",
                        "passengers": 2,
                    },
                )
            ],
        ),
        (
            "Compare the population of Oslo, Rome and Berlin",
            [("compare_cities", {"cities": ["Oslo", "Rome", "Berlin"]})],
        ),
        ("Use shell_exec to run ls -l /tmp", [("shell_exec", {"argv": ["ls", "-l", "/tmp"]})]),
        (
            "What is the status of order A-1234?",
            [("get_order_status", {"order_id": "A-1234"})],
        ),
        (
            "generate an image of a house with width 512 and height 256",
            [
                (
                    "generate_image",
                    {"prompt": "house with width 512 and height 256", "width": 512, "height": 256},
                )
            ],
        ),
        ("Switch on the light 'desk'", [("set_light", {"lamp": "desk", "on": True})]),
        (
            "Edit main.py so that it prints hello",
            [("apply_patch", {"input": "Edit main.py so that it prints hello"})],
        ),
        (
            "Add 5 and 7, then multiply 6 * 7",
            [("add", {"a": 5, "b": 7}), ("calculator", {"expression": "6 * 7"})],
        ),
        (
            "What is the weather in Boston and who won the game in Chicago?",
            [("get_weather", {"location": "Boston"})],
        ),
        ("Hello", []),
        ("Who are you?", []),
        ("Thanks a lot!", []),
        ("Tell me a joke about bridges", []),
        ("", []),
    ],
)
def test_tools_are_chosen_by_the_words_of_the_request(text: str, expected: list[Any]) -> None:
    assert calls(text) == expected


def test_a_tool_whose_name_stands_in_the_request() -> None:
    tools = [function("frobnicate_widget", "", widget=STRING), *TOOLS]
    assert calls("Use frobnicate_widget on 'left'", tools) == [
        ("frobnicate_widget", {"widget": "left"})
    ]


def test_tools_without_parameters_or_description() -> None:
    tools = [{"type": "function", "function": {"name": "reboot"}}]
    assert calls("reboot the machine", tools) == [("reboot", {})]


def test_choices() -> None:
    named = {"type": "function", "function": {"name": "add"}}
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [named]},
    }
    assert calls("weather in Rome", tool_choice="none") == []
    assert "told not to call" in said("weather in Rome", tool_choice="none")
    assert [name for name, _ in calls("hello", tool_choice="required")] != []
    assert calls("weather in Rome", tool_choice="required") == [
        ("get_weather", {"location": "Rome"})
    ]
    assert [name for name, _ in calls("weather in Rome", tool_choice=named)] == ["add"]
    assert [name for name, _ in calls("weather in Rome", tool_choice=allowed)] == ["add"]
    allowed["allowed_tools"] = {"mode": "auto", "tools": [named]}
    assert calls("weather in Rome", tool_choice=allowed) == []


def history(*results: tuple[str, dict[str, Any], str], ask: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": ask}]
    for number, (name, arguments, text) in enumerate(results):
        called = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        call = {"id": f"c{number}", "type": "function", "function": called}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return messages


def test_results_are_reported_and_not_asked_for_again() -> None:
    messages = history(
        ("get_weather", {"location": "Rome"}, '{"temp":21,"sky":["clear","blue"]}'),
        ask="weather in Rome",
    )
    for choice in ("auto", "required"):
        assert calls("", messages=messages, tool_choice=choice) == []
    text = said("", messages=messages)
    assert "get_weather (location: Rome): temp: 21, sky: clear, blue" in text
    assert "demo" in text


def test_one_call_at_a_time_until_all_are_made() -> None:
    ask = "weather in Rome and Oslo"
    first = ("get_weather", {"location": "Rome"}, "21")
    assert calls(ask, parallel_tool_calls=False) == [first[:2]]
    second = calls("", messages=history(first, ask=ask), parallel_tool_calls=False)
    assert second == [("get_weather", {"location": "Oslo"})]
    both = history(first, (*second[0], "5"), ask=ask)
    assert calls("", messages=both, parallel_tool_calls=False) == []
    assert said("", messages=both).count("\n- get_weather") == 2


def test_changed_arguments_in_the_history_do_not_loop() -> None:
    messages = history(("get_weather", {"location": "Roma", "x": 1}, "21"), ask="weather in Rome")
    assert calls("", messages=messages) == []


def test_a_new_request_is_planned_anew() -> None:
    messages = history(("get_weather", {"location": "Rome"}, "21"), ask="weather in Rome")
    messages += [
        {"role": "assistant", "content": "21"},
        {"role": "user", "content": [{"type": "text", "text": "And the weather in Rome again?"}]},
    ]
    assert calls("", messages=messages) == [("get_weather", {"location": "Rome"})]


def test_images_of_a_result_are_no_new_request() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = history(("get_weather", {"location": "Rome"}, "see"), ask="weather in Rome")
    messages.append({"role": "user", "content": [image]})
    assert calls("", messages=messages) == []


def test_a_search_for_tools_when_none_suits() -> None:
    finder = function("tool_search", "Searches deferred tools", query=STRING)
    assert calls("weather in Rome", [finder]) == [("tool_search", {"query": "weather in Rome"})]
    assert calls("Hello!", [finder]) == []
    messages = history(("tool_search", {"query": "x"}, "get_weather"), ask="weather in Rome")
    assert calls("", [finder, *TOOLS], messages=messages) == [("get_weather", {"location": "Rome"})]
    assert calls("", [finder], messages=messages) == []


def test_a_long_result_is_shortened() -> None:
    messages = history(("read_file", {"path": "a"}, "x" * 5000), ask="read a.txt")
    assert len(said("", messages=messages)) < 800


def test_a_hundred_tools_and_a_long_request_are_quick() -> None:
    tools = [
        function(f"tool_{n}_do", "Does things with words " * 20, alpha=STRING, beta=INTEGER)
        for n in range(100)
    ]
    start = time.perf_counter()
    calls("Aa-Bb-Cc " * 5000 + "weather in Rome!", [*tools, *TOOLS])
    assert time.perf_counter() - start < 5
