"""What `bascule chat` does: turns with a person, who is asked and can interrupt."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from prompt_toolkit import PromptSession
from rich.console import Console

from bascule.agent.agent import Agent
from bascule.agent.approvals.ask import Choice, Question, Reply
from bascule.agent.tools.request_user_input import RequestUserInput, UserQuestion
from bascule.cli.agent_options import Options, arguments, first_model, load
from bascule.cli.agent_telemetry import telemetry
from bascule.cli.chat_view import KEYS, View
from bascule.config import Config, ConfigError
from bascule.services.sandbox import Bubblewrap

_HELP: Final = {
    "/help": "this list",
    "/status": "the session, its bounds, and the tokens so far",
    "/plan": "the plan",
    "/diff": "what the last turn's patches changed",
    "/model NAME": "another model from now on",
    "/new": "a new session",
    "/quit": "leave; so does Ctrl-D",
}
_LEAVE: Final = ("/quit", "/exit")


def run_chat(options: Options, prompt: str | None, resume: str | None) -> int:
    """The exit status. Raises ConfigError."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("chat needs a terminal; use `bascule exec` without one")
    return asyncio.run(_run(options, prompt, resume))


async def _run(options: Options, prompt: str | None, resume: str | None) -> int:
    loaded = load(options)
    model = await first_model(loaded.agent, options)
    chat = Chat(loaded, options, model)
    await chat.hold(prompt, resume)
    return 0


class Chat:
    """One terminal, and one session after the other."""

    def __init__(self, loaded: Config, options: Options, model: str) -> None:
        self._loaded = loaded
        self._options = options
        self._model = model
        self._view = View(Console(highlight=False))
        self._lines: PromptSession[str] = PromptSession()
        self._agent: Agent | None = None
        self._again = False
        self._commands: dict[str, Callable[[str], Awaitable[bool] | bool]] = {
            "/help": self._help,
            "/status": self._status,
            "/plan": self._plan,
            "/diff": self._diff,
            "/model": self._change_model,
            "/new": self._new,
        }

    async def hold(self, prompt: str | None, resume: str | None) -> None:
        """Until the person leaves."""
        unconfined = await self._may_do_without_sandbox()
        if unconfined is None:
            return
        while True:
            self._again = False
            async with self._make(resume, unconfined=unconfined) as agent:
                self._agent = agent
                await self._turns(agent, prompt)
            if not self._again:
                return
            prompt = resume = None

    def _make(self, resume: str | None, *, unconfined: bool) -> Agent:
        given = arguments(self._loaded, self._options, self._model, resume)
        try:
            return Agent(
                **given,
                approval=self._options.approval or self._loaded.agent.approval,
                tools=[RequestUserInput(self._answers)],
                approver=self._approve,
                listener=self._view.show,
                telemetry=telemetry(self._loaded),
                unconfined=unconfined,
            )
        except ValueError as e:
            raise ConfigError(str(e)) from None

    async def _may_do_without_sandbox(self) -> bool | None:
        """Whether commands run without a sandbox, because there is none; None to leave."""
        wanted = self._options.sandbox or self._loaded.agent.sandbox
        if wanted == "danger-full-access":
            return False
        fault = await asyncio.to_thread(Bubblewrap().fault)
        if fault is None:
            return False
        self._view.line(f"! Commands cannot be kept in a sandbox here: {fault}.", "bold red")
        self._view.line(
            "They would run as you do. You are asked about each that may change something."
        )
        said = await self._ask("Go on without a sandbox? [y/N] ")
        return True if said == "y" else None

    # --- turns

    async def _turns(self, agent: Agent, prompt: str | None) -> None:
        while True:
            text = prompt if prompt is not None else await self._line()
            prompt = None
            if text is None or text.strip() in _LEAVE:
                return
            if not text.strip():
                continue
            if text.startswith("/"):
                if await self._command(text):
                    return
                continue
            await self._turn(agent, text)

    async def _turn(self, agent: Agent, text: str) -> None:
        """One turn; Ctrl-C interrupts it, and not the program."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, agent.interrupt)
        try:
            await agent.run(text)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _line(self) -> str | None:
        """What the person writes; None if they leave."""
        while True:
            try:
                return await self._lines.prompt_async("› ")
            except KeyboardInterrupt:
                self._view.line("Ctrl-D or /quit leaves.", "dim")
            except EOFError:
                return None

    async def _ask(self, message: str) -> str:
        """A short answer in lower case; `q` for somebody who wants to stop."""
        try:
            said = await PromptSession[str]().prompt_async(message)
        except (KeyboardInterrupt, EOFError):
            return "q"
        return said.strip().lower()

    # --- what the agent asks

    async def _approve(self, question: Question) -> Reply:
        self._view.ask(question)
        by_key: dict[str, Choice] = {KEYS[choice]: choice for choice in question.choices}
        keys = "/".join(by_key)
        while True:
            said = await self._ask(f"[{keys}] ")
            self._take_signals_back()
            key, _, reason = said.partition(" ")
            if key in by_key:
                return Reply(by_key[key], reason.strip() or None)

    def _take_signals_back(self) -> None:
        """A prompt takes Ctrl-C for itself, and leaves it to nobody."""
        if self._agent is not None:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self._agent.interrupt)

    async def _answers(self, questions: Sequence[UserQuestion]) -> Sequence[str] | None:
        answers: list[str] = []
        for question in questions:
            self._view.line(f"? {question.question}", "bold yellow")
            options = question.options or []
            for number, option in enumerate(options, 1):
                about = f": {option.description}" if option.description else ""
                self._view.line(f"  [{number}] {option.label}{about}")
            try:
                said = (await PromptSession[str]().prompt_async("> ")).strip()
            except (KeyboardInterrupt, EOFError):
                self._take_signals_back()
                return None
            self._take_signals_back()
            chosen = int(said) if said.isdecimal() else 0
            answers.append(options[chosen - 1].label if 0 < chosen <= len(options) else said)
        return answers

    # --- slash commands: each says whether the session ends

    async def _command(self, text: str) -> bool:
        name, _, rest = text.strip().partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._view.line(f"There is no {name}; /help lists what there is.", "yellow")
            return False
        ended = command(rest.strip())
        return await ended if isinstance(ended, Awaitable) else ended

    def _help(self, _: str) -> bool:
        for name, about in _HELP.items():
            self._view.line(f"  {name:12} {about}")
        return False

    def _status(self, _: str) -> bool:
        if self._agent is None:
            return False
        session, usage = self._agent.session, self._view.usage
        self._view.line(f"  session   {session.id}")
        self._view.line(f"  model     {session.settings.model} at {session.model.url}")
        self._view.line(f"  folder    {session.boundary.workspace}")
        network = "with" if session.boundary.network else "without"
        self._view.line(f"  sandbox   {session.gate.policy.named}, {network} network")
        self._view.line(f"  approvals {session.settings.approval}")
        self._view.line(f"  running   {len(session.commands)} commands")
        self._view.line(f"  tokens    {usage.input_tokens} in, {usage.output_tokens} out")
        return False

    def _plan(self, _: str) -> bool:
        if not self._view.plan:
            self._view.line("There is no plan.", "dim")
        self._view.show_plan()
        return False

    def _diff(self, _: str) -> bool:
        if not self._view.diff:
            self._view.line("No patch has changed anything.", "dim")
        self._view.show_diff(self._view.diff)
        return False

    def _change_model(self, name: str) -> bool:
        if self._agent is None or not name:
            self._view.line(f"  {self._model}")
            return False
        self._model = name
        self._agent.session.use_model(name)
        return False

    def _new(self, _: str) -> bool:
        self._again = True
        return True
