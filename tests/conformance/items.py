"""The life of one output item: which event may follow which, and what they must add up to."""

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

KEYS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "message": (frozenset({"id", "type", "status", "role", "content"}), frozenset({"phase"})),
    "reasoning": (
        frozenset({"id", "type", "summary"}),
        frozenset({"content", "encrypted_content", "status"}),
    ),
    "function_call": (
        frozenset({"id", "type", "status", "call_id", "name", "arguments"}),
        frozenset({"namespace"}),
    ),
    "custom_tool_call": (
        frozenset({"id", "type", "status", "call_id", "name", "input"}),
        frozenset({"namespace"}),
    ),
    "shell_call": (
        frozenset({"id", "type", "status", "call_id", "action"}),
        frozenset({"environment"}),
    ),
    "local_shell_call": (frozenset({"id", "type", "status", "call_id", "action"}), frozenset()),
    "apply_patch_call": (frozenset({"id", "type", "status", "call_id", "operation"}), frozenset()),
    "computer_call": (
        frozenset({"id", "type", "status", "call_id", "pending_safety_checks"}),
        frozenset({"action", "actions"}),
    ),
}
"""Keys of an item that are always there, and those that may be."""

PREFIXES = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "shell_call": "sh_",
    "local_shell_call": "lsh_",
    "apply_patch_call": "apc_",
    "computer_call": "cu_",
}


def check_keys(item: Json) -> None:
    """The key set of a finished item."""
    always, sometimes = KEYS[item["type"]]
    assert always <= item.keys(), f"{item['type']} lacks {sorted(always - item.keys())}"
    extra = item.keys() - always - sometimes
    assert not extra, f"{item['type']} has {sorted(extra)}"
    nulls = [key for key, value in item.items() if value is None]
    assert not nulls, f"{item['type']} shows null for {nulls}"


class ItemStory:
    """Takes the events of one item in order. Raises AssertionError at the first that is out of it."""

    def __init__(self, item: Json) -> None:
        self.type: str = item["type"]
        self.id: str = item["id"]
        self.finished: Json | None = None
        self._item = item
        self._parts: list[Json] = []
        self._part: _Part | None = None
        self._texts: dict[str, _Text] = {}
        check_keys(item)
        assert item.get("status", "in_progress") == "in_progress", "an item is added in progress"
        _OPENINGS[self.type](item)

    def take(self, event: Json) -> None:
        assert self.finished is None, f"{event['type']} after the item was done"
        if event["type"] == "response.output_item.done":
            self._finish(event["item"])
            return
        if event["type"] not in _PLACED:
            assert event["item_id"] == self.id, "the event names another item"
        steps: dict[str, Callable[[Json], None]] = _STEPS[self.type](self)
        name = event["type"].removeprefix("response.")
        assert name in steps, f"{name} in a {self.type} item"
        steps[name](event)

    # --- parts

    def part_added(self, event: Json) -> None:
        assert self._part is None, "a part is added while another is open"
        index = event.get("content_index", event.get("summary_index"))
        assert index == len(self._parts), f"part {index} after {len(self._parts)} parts"
        self._part = _Part(event["part"])

    def part_text(self, event: Json) -> None:
        part = self._open_part(event)
        part.delta(event)

    def part_text_done(self, event: Json) -> None:
        part = self._open_part(event)
        part.text_done(event)

    def annotation(self, event: Json) -> None:
        part = self._open_part(event)
        assert event["annotation_index"] == len(part.annotations)
        part.annotations.append(event["annotation"])

    def part_done(self, event: Json) -> None:
        part = self._open_part(event)
        self._parts.append(part.finish(event["part"]))
        self._part = None

    def _open_part(self, event: Json) -> "_Part":
        assert self._part is not None, f"{event['type']} without an open part"
        index = event.get("content_index", event.get("summary_index"))
        assert index == len(self._parts), f"{event['type']} for part {index}"
        return self._part

    # --- text without parts: arguments and input

    def text_delta(self, event: Json) -> None:
        text = self._texts.setdefault(_base(event["type"]), _Text())
        text.delta(event)

    def text_done(self, event: Json) -> None:
        text = self._texts.setdefault(_base(event["type"]), _Text())
        keys = ("arguments", "input", "text", "diff")
        text.finish(next(event[key] for key in keys if key in event))

    # --- commands

    def command_added(self, event: Json) -> None:
        assert event["command_index"] == len(self._texts), "a command out of order"
        assert event["command"] == ""
        self._texts[str(event["command_index"])] = _Text()

    def command_delta(self, event: Json) -> None:
        self._texts[str(event["command_index"])].delta(event)

    def command_done(self, event: Json) -> None:
        self._texts[str(event["command_index"])].finish(event["command"])

    # --- the end

    def _finish(self, item: Json) -> None:
        assert self._part is None, "the item is done while a part is open"
        check_keys(item)
        for key in ("id", "type", "role", "call_id", "name"):
            assert item.get(key) == self._item.get(key), f"'{key}' changed within the item"
        assert item.get("status", "completed") in ("completed", "incomplete")
        for base, text in self._texts.items():
            assert text.done is not None, f"{base} has no end"
        self._compare(item)
        self.finished = item

    def _compare(self, item: Json) -> None:
        texts = {base: text.done for base, text in self._texts.items()}
        match self.type:
            case "message":
                assert item["content"] == self._parts
            case "function_call":
                assert item["arguments"] == texts["function_call_arguments"]
            case "custom_tool_call":
                assert item["input"] == texts["custom_tool_call_input"]
            case "shell_call":
                assert item["action"]["commands"] == list(texts.values())
            case "apply_patch_call":
                operation = item["operation"]
                diff = texts.get("apply_patch_call_operation_diff")
                assert operation.get("diff") == diff
                assert (operation["type"] == "delete_file") == (diff is None)
                assert operation | {"diff": ""} == self._item["operation"] | {"diff": ""}
            case "local_shell_call" | "computer_call":
                assert not texts
            case _:
                raw = [part for part in self._parts if part["type"] == "reasoning_text"]
                assert item.get("content", []) == raw
                assert item["summary"] == [part for part in self._parts if part not in raw]


class _Text:
    """Deltas, and the whole that they must add up to."""

    def __init__(self) -> None:
        self._deltas: list[str] = []
        self.done: str | None = None

    def delta(self, event: Json) -> None:
        assert self.done is None, f"{event['type']} after its end"
        assert event["delta"] != "", "an empty delta"
        self._deltas.append(event["delta"])

    def finish(self, whole: str) -> None:
        assert self.done is None, "a second end"
        assert "".join(self._deltas) == whole, "the deltas do not add up"
        self.done = whole


class _Part:
    def __init__(self, part: Json) -> None:
        self._kind = part["type"]
        self._text = _Text()
        self.annotations: list[Json] = []
        assert part[self._key()] == "", "a part is added with its text"

    def _key(self) -> str:
        return "refusal" if self._kind == "refusal" else "text"

    def _expects(self, event: Json) -> None:
        base = {
            "output_text": "output_text",
            "refusal": "refusal",
            "summary_text": "reasoning_summary_text",
            "reasoning_text": "reasoning_text",
        }[self._kind]
        assert _base(event["type"]) == base, f"{event['type']} in a {self._kind} part"

    def delta(self, event: Json) -> None:
        self._expects(event)
        self._text.delta(event)

    def text_done(self, event: Json) -> None:
        self._expects(event)
        self._text.finish(event[self._key()])

    def finish(self, part: Json) -> Json:
        assert self._text.done is not None, "the part is done before its text"
        assert part["type"] == self._kind
        assert part[self._key()] == self._text.done
        assert part.get("annotations", []) == self.annotations
        return part


def _base(type_: str) -> str:
    return type_.removeprefix("response.").rpartition(".")[0]


def _empty(*keys: str) -> Callable[[Json], None]:
    def check(item: Json) -> None:
        for key in keys:
            assert item[key] in ("", []), f"the item is added with its {key}"

    return check


_OPENINGS: dict[str, Callable[[Json], None]] = {
    "message": _empty("content"),
    "reasoning": _empty("summary"),
    "function_call": _empty("arguments"),
    "custom_tool_call": _empty("input"),
    "shell_call": lambda item: _empty("commands")(item["action"]),
    "local_shell_call": lambda item: _empty("command")(item["action"]),
    "apply_patch_call": lambda item: _empty("diff")({"diff": "", **item["operation"]}),
    "computer_call": _empty("pending_safety_checks"),
}

_PLACED = frozenset(f"response.shell_call_command.{step}" for step in ("added", "delta", "done"))
"""Events that name the item's place and not its id, as recorded."""

_STEPS: dict[str, Callable[[ItemStory], dict[str, Callable[[Json], None]]]] = {
    "message": lambda story: {
        "content_part.added": story.part_added,
        "output_text.delta": story.part_text,
        "output_text.annotation.added": story.annotation,
        "output_text.done": story.part_text_done,
        "refusal.delta": story.part_text,
        "refusal.done": story.part_text_done,
        "content_part.done": story.part_done,
    },
    "reasoning": lambda story: {
        "reasoning_summary_part.added": story.part_added,
        "reasoning_summary_text.delta": story.part_text,
        "reasoning_summary_text.done": story.part_text_done,
        "reasoning_summary_part.done": story.part_done,
        "content_part.added": story.part_added,
        "reasoning_text.delta": story.part_text,
        "reasoning_text.done": story.part_text_done,
        "content_part.done": story.part_done,
    },
    "function_call": lambda story: {
        "function_call_arguments.delta": story.text_delta,
        "function_call_arguments.done": story.text_done,
    },
    "custom_tool_call": lambda story: {
        "custom_tool_call_input.delta": story.text_delta,
        "custom_tool_call_input.done": story.text_done,
    },
    "shell_call": lambda story: {
        "shell_call_command.added": story.command_added,
        "shell_call_command.delta": story.command_delta,
        "shell_call_command.done": story.command_done,
    },
    "local_shell_call": lambda _: {},
    "apply_patch_call": lambda story: {
        "apply_patch_call_operation_diff.delta": story.text_delta,
        "apply_patch_call_operation_diff.done": story.text_done,
    },
    "computer_call": lambda _: {},
}
