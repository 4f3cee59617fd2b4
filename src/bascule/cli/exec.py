"""What `bascule exec` does: one turn, without anybody to ask."""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from bascule.agent.agent import Agent, Result
from bascule.agent.events import (
    Decided,
    Event,
    PlanUpdated,
    SessionStarted,
    ToolBegan,
    ToolEnded,
    ToolPrinted,
    TurnEnded,
    Warned,
)
from bascule.agent.processes.output import clean
from bascule.cli.agent_options import Options, arguments, first_model, load
from bascule.cli.agent_telemetry import telemetry
from bascule.cli.exec_events import Lines
from bascule.config import ConfigError
from bascule.services.sandbox import Sandbox, SandboxError

_EXIT: Final = {"completed": 0, "interrupted": 130}
_SHOWN_LINES: Final = 12
_MARKS: Final = {"pending": " ", "in_progress": ">", "completed": "x"}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and how the answer is wanted."""

    prompt: str
    json: bool = False
    output_schema: Path | None = None
    output_file: Path | None = None
    images: tuple[Path, ...] = ()
    resume: str | None = None


def run_exec(options: Options, request: Request, sandbox: Sandbox) -> int:
    """The exit status: 0 where the turn was completed. Raises ConfigError."""
    return asyncio.run(_run(options, request, sandbox))


async def _run(options: Options, request: Request, sandbox: Sandbox) -> int:
    loaded = load(options)
    model = await first_model(loaded.agent, options)
    listener = _json_lines() if request.json else _Progress().show
    try:
        agent = Agent(
            **arguments(loaded, options, model, request.resume),
            # There is nobody to ask: the policy says what that means.
            approval=options.approval or "never",
            output_schema=_schema(request.output_schema),
            listener=listener,
            adapter=sandbox,
            telemetry=telemetry(loaded),
        )
        images = [_image(path) for path in request.images]
        async with agent:
            _stop_on_signals(agent)
            result = await agent.run(_prompt(request.prompt), images)
    except SandboxError as e:
        raise ConfigError(
            f"commands cannot be kept in a sandbox here: {e}. "
            "Say --sandbox danger-full-access to run them without one."
        ) from None
    except ValueError as e:
        raise ConfigError(str(e)) from None
    _answer(request, result)
    return _EXIT.get(result.status, 1)


def _answer(request: Request, result: Result) -> None:
    if request.output_file is not None:
        request.output_file.write_text(result.text)
    if not request.json and result.text:
        sys.stdout.write(clean(result.text).rstrip("\n") + "\n")
        sys.stdout.flush()


def _stop_on_signals(agent: Agent) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, agent.interrupt)


def _prompt(given: str) -> str:
    if given != "-":
        return given
    text = sys.stdin.read()
    if not text.strip():
        raise ConfigError("there is no prompt on standard input")
    return text


def _schema(path: Path | None) -> Any:
    if path is None:
        return None
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError) as e:
        raise ConfigError(f"--output-schema: cannot read {path}: {e}") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"--output-schema: {path} is no JSON object")
    return schema  # pyright: ignore[reportUnknownVariableType] -- its members are the server's business


def _image(path: Path) -> str:
    import base64

    from bascule.agent.tools.view_image import MAX_BYTES, image_type

    try:
        data = path.read_bytes()
    except OSError as e:
        raise ConfigError(f"--image: cannot read {path}: {e.strerror}") from None
    type_ = image_type(data)
    if type_ is None or len(data) > MAX_BYTES:
        raise ConfigError(f"--image: {path} is no image of at most {MAX_BYTES} bytes")
    return f"data:{type_};base64,{base64.b64encode(data).decode()}"


def _json_lines() -> Callable[[Event], None]:
    lines = Lines()

    def write(event: Event) -> None:
        for line in lines.of(event):
            # Whoever reads may have gone; the work goes on.
            with suppress(BrokenPipeError):
                sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
                sys.stdout.buffer.flush()

    return write


class _Progress:
    """For a person, on stderr; stdout is for the answer."""

    def show(self, event: Event) -> None:
        match event:
            case SessionStarted():
                self._say(f"{event.model} in {event.cwd} ({event.sandbox})")
                self._say(f"session {event.session_id}")
            case ToolBegan():
                shown = event.action.shown if event.action is not None else event.called_with
                self._say(f"* {event.tool}: {_short(shown)}")
            case ToolEnded():
                self._ended(event)
            case PlanUpdated():
                for step in event.plan:
                    self._say(f"  [{_MARKS[step.status]}] {_short(step.step)}")
            case Decided() if event.decision in ("denied", "no", "abort"):
                self._say(f"  not permitted ({event.source})")
            case Warned():
                self._say(f"! {event.message}")
            case TurnEnded() if event.status != "completed":
                self._say(f"! {event.status}: {event.error}")
            case TurnEnded():
                usage = event.usage
                self._say(f"tokens: {usage.input_tokens} in, {usage.output_tokens} out")
            case ToolPrinted() | _:
                return

    def _ended(self, event: ToolEnded) -> None:
        lines = event.text.split("Output:\n", 1)[-1].splitlines()
        for line in lines[:_SHOWN_LINES]:
            self._say(f"  {line[:200]}")
        if len(lines) > _SHOWN_LINES:
            self._say(f"  ... {len(lines) - _SHOWN_LINES} more lines")
        how = event.outcome if event.exit_code is None else f"code {event.exit_code}"
        self._say(f"  ({how}, {event.seconds:.1f} s)")

    def _say(self, line: str) -> None:
        with suppress(OSError):
            sys.stderr.write(clean(line) + "\n")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"
