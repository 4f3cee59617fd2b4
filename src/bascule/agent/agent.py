"""`Agent`: a coding agent as a library. The commands `exec` and `chat` are made of the same parts."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from bascule.agent import rollout
from bascule.agent.approvals import rules as rule_files
from bascule.agent.approvals.ask import Approver
from bascule.agent.approvals.gate import Gate
from bascule.agent.approvals.policy import Approval, ApprovalPolicy
from bascule.agent.approvals.rules import Rule
from bascule.agent.events import Event, Listener, MessageDone, TurnStatus, Usage
from bascule.agent.handler import LocalHandler
from bascule.agent.model import Endpoint, ModelClient
from bascule.agent.own import handler_of
from bascule.agent.session import Session
from bascule.agent.settings import Settings, ToolsConfig
from bascule.agent.telemetry import Telemetry
from bascule.config import McpServerSection, Secret, data_folder, read_table
from bascule.services.sandbox import Boundary, Bubblewrap, Mode, Open, Sandbox, SandboxError
from bascule.telemetry.logger import configure_later
from bascule.upstreams.client import UpstreamClient
from bascule.upstreams.http1 import Http1Client

GATEWAY: Final = "http://127.0.0.1:8787/v1"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a turn. `diff` is what its patches changed, in git's form."""

    text: str
    """The last message."""
    status: TurnStatus
    error: str | None
    usage: Usage
    diff: str


class Agent:
    """Give it a model behind an endpoint of the Responses API, and `async with` it.

    Commands run in a sandbox below `cwd`, by default without network, and nobody is asked: what would
    need an approval is refused, unless there is an `approver`. `tools` are functions decorated with
    `tool`, or `LocalHandler`s; `mcp_servers` are tables as in the configuration's `[[mcp_servers]]`.
    `listener` is told of everything that happens. `resume` is the id of an earlier session, or `last`.

    Entering raises SandboxError where there is no sandbox: say `sandbox="danger-full-access"` to do
    without. ConfigError, OSError and ValueError tell what else is wrong.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = GATEWAY,
        api_key: str | Secret | None = None,
        cwd: str | Path = ".",
        sandbox: Mode = "workspace-write",
        approval: Approval = "never",
        network: bool = False,
        writable_roots: Sequence[str | Path] = (),
        tools: Sequence[object] = (),
        config: ToolsConfig | None = None,
        mcp_servers: Sequence[Mapping[str, Any] | McpServerSection] = (),
        rules: Sequence[str | Path] = (),
        instructions: str | None = None,
        reasoning_effort: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        tool_choice: Any = "auto",
        max_rounds: int = 500,
        env: Mapping[str, str] | None = None,
        env_keep: Sequence[str] = (),
        home: str | Path | None = None,
        approver: Approver | None = None,
        listener: Listener | None = None,
        telemetry: Telemetry | None = None,
        timeout: float = 600.0,
        retries: int = 4,
        resume: str | None = None,
        unconfined: bool = False,
        adapter: Sandbox | None = None,
    ) -> None:
        """`unconfined`: where there is no sandbox, ask about each command that may change something.
        `adapter` makes the sandboxes, in place of bubblewrap.

        Raises TypeError for tools that are none.
        """
        secret = Secret(api_key) if isinstance(api_key, str) else api_key
        self._endpoint = Endpoint(
            base_url=base_url, api_key=secret, timeout=timeout, retries=retries
        )
        self._cwd = Path(os.path.realpath(cwd))
        self._mode: Mode = sandbox
        self._network = network
        self._roots = tuple(Path(os.path.realpath(root)) for root in writable_roots)
        self._handlers: list[LocalHandler] = [handler_of(thing) for thing in tools]
        self._servers = [_section(i, server) for i, server in enumerate(mcp_servers)]
        self._rules = [Path(path) for path in rules]
        self._home = data_folder() / "agent" if home is None else Path(home)
        self._approver = approver
        self._listener = listener
        self._telemetry = telemetry
        self._resume = resume
        self._unconfined = unconfined
        self._adapter = adapter or Bubblewrap()
        self._settings = Settings(
            model=model,
            home=self._home,
            approval=approval,
            tools=config or ToolsConfig(),
            instructions=instructions,
            reasoning_effort=reasoning_effort,
            output_schema=output_schema,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            env=env or {},
            env_keep=frozenset(env_keep),
        )
        self._texts: list[str] = []
        self._http: UpstreamClient | None = None
        self._temp: Path | None = None
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError("enter the agent first: `async with agent`")
        return self._session

    async def __aenter__(self) -> Self:
        configure_later("text", "error")  # unless somebody has said how to log
        resumed = self._resumed()
        sandbox, confined = await self._sandbox()
        self._home.mkdir(parents=True, exist_ok=True)
        temp = self._temp = Path(tempfile.mkdtemp(prefix="bascule-"))
        boundary = Boundary(
            mode=self._mode,
            workspace=self._cwd,
            roots=self._roots,
            network=self._network,
            protected=(self._home,),
            temp=temp,
        )
        policy = ApprovalPolicy(
            approval=self._settings.approval,
            boundary=boundary,
            rules=rule_files.load([self._own_rules, *self._rules]),
            sandboxed=confined,
        )
        self._http = http_client()
        self._session = Session(
            self._settings,
            ModelClient(self._http, self._endpoint),
            sandbox=sandbox,
            boundary=boundary,
            gate=Gate(policy, self._approver, self._remember),
            listener=self._heard,
            telemetry=self._telemetry,
            handlers=self._handlers,
            servers=self._mcp(),
            resumed=resumed,
        )
        try:
            await self._session.begin()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what runs, and leave nothing behind but the session's file."""
        if self._session is not None:
            await self._session.aclose()
        if self._http is not None:
            await self._http.aclose()
        if self._temp is not None:
            await asyncio.to_thread(shutil.rmtree, self._temp, ignore_errors=True)

    async def run(self, prompt: str, images: Sequence[str] = ()) -> Result:
        """One turn: the model works until it has an answer. `images` are URLs, `data:` included.
        Whatever goes wrong with the model is in the result."""
        self._texts.clear()
        turn = await self.session.turn(prompt, images)
        return Result(
            text=self._texts[-1] if self._texts else "",
            status=turn.status,
            error=turn.error,
            usage=turn.usage,
            diff=await asyncio.to_thread(turn.tracker.diff),
        )

    def interrupt(self) -> bool:
        """Stop the turn that runs; whether there was one."""
        return self._session is not None and self._session.interrupt()

    # --- its parts

    def _heard(self, event: Event) -> None:
        if isinstance(event, MessageDone):
            self._texts.append(event.text)
        if self._listener is not None:
            self._listener(event)

    def _resumed(self) -> Path | None:
        """Raises ValueError for a session that is not there."""
        if self._resume is None:
            return None
        last = self._resume == "last"
        found = rollout.find(self._home, None if last else self._resume, self._cwd)
        if found is None:
            which = f"of {self._cwd}" if last else f"'{self._resume}'"
            raise ValueError(f"there is no session {which}")
        return found

    async def _sandbox(self) -> tuple[Sandbox, bool]:
        """The sandbox, and whether it keeps commands in. Raises SandboxError."""
        if self._mode == "danger-full-access":
            return Open(), False
        fault = await asyncio.to_thread(self._adapter.fault)
        if fault is None:
            return self._adapter, True
        if not self._unconfined:
            raise SandboxError(fault)
        return Open(), False

    @property
    def _own_rules(self) -> Path:
        return self._home / "rules.toml"

    def _remember(self, prefix: tuple[str, ...]) -> Rule:
        return rule_files.remember(self._own_rules, prefix)

    def _mcp(self) -> Any:
        if not self._servers:
            return None
        from bascule.agent.servers import Servers  # the SDK below it is large

        return Servers(self._servers)


def http_client() -> UpstreamClient:
    """The small client, or aiohttp where the environment names a proxy. What is on this machine is not
    asked through one."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in names):
        from bascule.upstreams.proxied import ProxiedClient

        given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
        os.environ["no_proxy"] = ",".join(filter(None, [given, "localhost", "127.0.0.1", "::1"]))
        return ProxiedClient(trust_env=True)
    return Http1Client()


def _section(index: int, server: Mapping[str, Any] | McpServerSection) -> McpServerSection:
    if isinstance(server, McpServerSection):
        return server
    return read_table(McpServerSection, server, f"mcp_servers[{index}]")
