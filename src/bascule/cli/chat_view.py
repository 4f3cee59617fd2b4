"""What a person sees of a session in a terminal. Nothing that a model or a command says is obeyed by it."""

import shlex
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from bascule.agent.actions import Action, CallServer, ChangeFiles
from bascule.agent.approvals.ask import Choice, Question
from bascule.agent.events import (
    Decided,
    Diff,
    Event,
    MessageDone,
    PlanUpdated,
    ReasoningDelta,
    ReasoningDone,
    ServerItem,
    SessionStarted,
    Step,
    TextDelta,
    ToolBegan,
    ToolEnded,
    ToolPrinted,
    TurnEnded,
    Usage,
    Warned,
)
from bascule.agent.processes.output import Cleaner, clean

_SHOWN_LINES: Final = 20
_MARKS: Final = {"pending": "☐", "in_progress": "▶", "completed": "☑"}
_STYLES: Final = {"pending": "", "in_progress": "bold cyan", "completed": "green"}
_OUTCOMES: Final = {"completed": "green", "failed": "red", "aborted": "yellow"}
KEYS: Final[dict[Choice, str]] = {
    "yes": "y",
    "session": "s",
    "always": "a",
    "no": "n",
    "abort": "q",
}
_WORDS: Final[dict[Choice, str]] = {
    "yes": "yes, once",
    "session": "yes, for this session",
    "always": "yes, always for commands that begin so",
    "no": "no, go on without",
    "abort": "no, and stop",
}


class View:
    """Events as lines. Text is shown as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._streaming = False
        self._thinking: bool = False
        self._cleaner = Cleaner()
        self._printed: dict[str, int] = {}
        self.plan: Sequence[Step] = ()
        self.diff = ""
        """Of the turn that was the last to change anything."""
        self.usage: Usage = Usage()

    def show(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._stream(event.text, "")
            case ReasoningDelta():
                self._stream(event.text, "dim italic")
            case MessageDone() | ReasoningDone():
                self._end_stream(event.text)
            case ToolBegan():
                self._began(event)
            case ToolPrinted():
                self._live(event)
            case ToolEnded():
                self._ended(event)
            case PlanUpdated():
                self.plan = event.plan
                self.show_plan()
            case _:
                self._other(event)

    def _other(self, event: Event) -> None:
        match event:
            case SessionStarted():
                again = ", resumed" if event.resumed else ""
                self.line(f"{event.model} in {event.cwd}", "bold")
                self.line(f"sandbox {event.sandbox}, approvals {event.approval}{again}", "dim")
            case ServerItem():
                self.line(f"• {event.type}", "dim")
            case Diff():
                self.diff = event.diff
            case Decided() if event.source == "config":
                self.line(f"  {event.tool}: {event.decision}", "yellow")
            case Warned():
                self.line(f"! {event.message}", "yellow")
            case TurnEnded():
                self.usage.add(event.usage)
                if event.status != "completed":
                    self.line(f"! {event.status}: {event.error or ''}", "red")
            case _:
                return

    # --- lines

    def line(self, text: str, style: str = "") -> None:
        """One line, or several; a text that is still being written ends first."""
        self._break()
        self._console.print(Text(clean(text), style=style), soft_wrap=True)

    def show_plan(self) -> None:
        for step in self.plan:
            self.line(f"  {_MARKS[step.status]} {step.step}", _STYLES[step.status])

    def show_diff(self, diff: str) -> None:
        for line in diff.splitlines():
            self.line(line, _diff_style(line))

    def ask(self, question: Question) -> None:
        """What somebody has to decide, and how they can."""
        self._break()
        tried = "It was tried, and the sandbox stopped it. " if question.retry else ""
        self.line(f"? {tried}{question.why}", "bold yellow")
        self._action(question.action)
        prefix = getattr(question.action, "prefix", None) or ()
        for choice in question.choices:
            more = f": {shlex.join(prefix)} …" if choice == "always" else ""
            self.line(f"  [{KEYS[choice]}] {_WORDS[choice]}{more}")

    def _action(self, action: Action) -> None:
        if isinstance(action, ChangeFiles):
            self.show_diff(action.diff)
        elif isinstance(action, CallServer):
            self.line(f"  {action.shown}")
        else:
            self.line(f"  $ {action.shown}")
            self.line(f"  in {action.cwd}", "dim")

    def _stream(self, text: str, style: str) -> None:
        thinking = style != ""
        if self._streaming and thinking != self._thinking:
            self._break()
        self._streaming, self._thinking = True, thinking
        shown = self._cleaner.feed(text.encode("utf-8", "replace"))
        self._console.print(Text(shown, style=style), end="", soft_wrap=True)

    def _end_stream(self, text: str) -> None:
        if self._streaming:
            self._break()
        elif text:
            self.line(text)  # it came whole

    def _break(self) -> None:
        if self._streaming:
            self._streaming, self._cleaner = False, Cleaner()
            self._console.print()

    # --- calls

    def _began(self, event: ToolBegan) -> None:
        action = event.action
        if isinstance(action, ChangeFiles):
            self.line(f"• {event.tool}", "bold")
            self.show_diff(action.diff)
        elif event.tool != "update_plan":
            shown = action.shown if action is not None else event.called_with
            self.line(f"• {event.tool}: {_short(shown)}", "bold")

    def _live(self, event: ToolPrinted) -> None:
        shown = self._printed.get(event.call_id, 0)
        for line in event.text.splitlines():
            shown += 1
            if shown <= _SHOWN_LINES:
                self.line(f"  {line}", "dim")
        self._printed[event.call_id] = shown

    def _ended(self, event: ToolEnded) -> None:
        shown = self._printed.pop(event.call_id, 0)
        if shown > _SHOWN_LINES:
            self.line(f"  … {shown - _SHOWN_LINES} more lines", "dim")
        if event.tool == "update_plan" and event.outcome == "completed":
            return
        if not shown and (event.outcome != "completed" or event.action is None):
            self.line(f"  {_short(event.text)}", "dim")
        how = event.outcome if event.exit_code is None else f"code {event.exit_code}"
        good = event.outcome == "completed" and not event.exit_code
        style = "green" if good else _OUTCOMES[event.outcome] if event.exit_code is None else "red"
        self.line(f"  {how}, {event.seconds:.1f} s", style)


def _diff_style(line: str) -> str:
    if line.startswith(("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    if line.startswith("+"):
        return "green"
    return "red" if line.startswith("-") else ""


def _short(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    shown = lines[0] if len(lines) == 1 else f"{lines[0]} … ({len(lines)} lines)"
    return shown if len(shown) <= 200 else shown[:199] + "…"
