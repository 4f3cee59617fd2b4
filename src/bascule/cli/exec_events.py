"""The lines of `bascule exec --json`: one JSON object each, in the words that other agents' tools read."""

from typing import Any

import msgspec

from bascule.agent.actions import Action, CallServer, ChangeFiles, RunCommand
from bascule.agent.events import (
    Decided,
    Diff,
    Event,
    MessageDone,
    PlanUpdated,
    ReasoningDone,
    ServerItem,
    SessionStarted,
    ToolBegan,
    ToolEnded,
    TurnEnded,
    TurnStarted,
    Warned,
)

Json = dict[str, Any]
_STATUS = {"completed": "completed", "failed": "failed", "aborted": "failed"}


class Lines:
    """Events in, lines out. Items are numbered; a call that begins and ends is one item."""

    def __init__(self) -> None:
        self._items = 0
        self._open: dict[str, str] = {}
        self._plan: str | None = None

    def of(self, event: Event) -> list[Json]:
        """Pieces of texts have no lines: what is whole has."""
        match event:
            case SessionStarted():
                return [{"type": "thread.started", "thread_id": event.session_id}]
            case MessageDone():
                return [self._whole({"type": "agent_message", "text": event.text})]
            case ReasoningDone():
                reasoning = {"type": "reasoning", "text": event.text}
                return [self._whole(reasoning)] if event.text else []
            case ServerItem():
                return [self._whole(_server_item(event))]
            case ToolBegan():
                id_ = self._open[event.call_id] = self._next()
                return [_line("item.started", {"id": id_, **_began(event)})]
            case ToolEnded():
                id_ = self._open.pop(event.call_id, None) or self._next()
                return [_line("item.completed", {"id": id_, **_ended(event)})]
            case PlanUpdated():
                return [self._updated(event)]
            case Decided() if event.decision not in ("yes", "session", "always"):
                text = f"{event.tool} was not permitted ({event.source}: {event.decision})"
                return [self._whole({"type": "error", "message": text})]
            case Warned():
                return [self._whole({"type": "error", "message": event.message})]
            case _:
                return _of_turn(event)

    def _next(self) -> str:
        self._items += 1
        return f"item_{self._items - 1}"

    def _whole(self, item: Json) -> Json:
        return _line("item.completed", {"id": self._next(), **item})

    def _updated(self, event: PlanUpdated) -> Json:
        steps = [
            {"text": step.step, "completed": step.status == "completed", "status": step.status}
            for step in event.plan
        ]
        kind = "item.started" if self._plan is None else "item.updated"
        if self._plan is None:
            self._plan = self._next()
        return _line(kind, {"id": self._plan, "type": "todo_list", "items": steps})


def _of_turn(event: Event) -> list[Json]:
    match event:
        case TurnStarted():
            return [{"type": "turn.started"}]
        case Diff():
            return [{"type": "turn.diff", "diff": event.diff}]
        case TurnEnded():
            return [_end(event)]
        case _:
            return []


def _line(type_: str, item: Json) -> Json:
    return {"type": type_, "item": item}


def _end(event: TurnEnded) -> Json:
    if event.status == "completed":
        return {"type": "turn.completed", "usage": msgspec.to_builtins(event.usage)}
    return {
        "type": "turn.failed",
        "status": event.status,
        "error": {"message": event.error or event.status},
        "usage": msgspec.to_builtins(event.usage),
    }


def _began(event: ToolBegan) -> Json:
    about = _about(event.tool, event.called_with, event.action)
    if about["type"] == "command_execution":
        about |= {"aggregated_output": "", "exit_code": None}
    return {**about, "status": "in_progress"}


def _ended(event: ToolEnded) -> Json:
    about = _about(event.tool, "", event.action)
    status = _STATUS[event.outcome]
    match about["type"]:
        case "command_execution":
            failed = status == "failed" or bool(event.exit_code)
            status = "failed" if failed else status
            about |= {"aggregated_output": event.text, "exit_code": event.exit_code}
        case "mcp_tool_call":
            failed = event.outcome != "completed"
            about |= {
                "result": None if failed else event.text,
                "error": {"message": event.text} if failed else None,
            }
        case "file_change":
            if event.outcome != "completed":
                about["error"] = {"message": event.text}
        case _:
            about["output"] = event.text
    return {**about, "status": status}


def _about(tool: str, called_with: str, action: Action | None) -> Json:
    match action:
        case RunCommand():
            return {"type": "command_execution", "command": action.shown}
        case ChangeFiles():
            gone = {change.moved_from for change in action.changes}
            changes = [
                {
                    "path": change.path,
                    "kind": "delete"
                    if change.after is None
                    else "add"
                    if change.before is None and change.moved_from is None
                    else "update",
                }
                for change in action.changes
                if not (change.path in gone and change.after is None)
            ]
            return {"type": "file_change", "changes": changes}
        case CallServer():
            return {
                "type": "mcp_tool_call",
                "server": action.server,
                "tool": action.tool,
                "arguments": action.arguments,
            }
        case None:
            item: Json = {"type": "tool_call", "tool": tool}
            return {**item, "arguments": called_with} if called_with else item


def _server_item(event: ServerItem) -> Json:
    return {"type": event.type, "item": msgspec.json.decode(event.item)}
