"""Which tools a session has: one list, from which the prompt and the registry are made."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bascule.agent.calls import ToolName
from bascule.agent.handler import Exposure, LocalHandler
from bascule.agent.registry import ToolRegistryBuilder
from bascule.agent.settings import ToolsConfig
from bascule.agent.tools.apply_patch import ApplyPatch
from bascule.agent.tools.exec_command import ExecCommand
from bascule.agent.tools.local_shell import LocalShell
from bascule.agent.tools.server_tool import ServerTool
from bascule.agent.tools.shell import Shell
from bascule.agent.tools.shell_call import ShellCall
from bascule.agent.tools.update_plan import UpdatePlan
from bascule.agent.tools.view_image import ViewImage
from bascule.agent.tools.write_stdin import WriteStdin

if TYPE_CHECKING:
    from bascule.agent.servers import Servers, ServerTools
    from bascule.agent.session import Session


async def build_specs(
    config: ToolsConfig, session: "Session", own: Sequence[LocalHandler] = ()
) -> ToolRegistryBuilder:
    """What is enabled is declared and registered. `own` are the user's tools; servers are asked for
    theirs."""
    builder = ToolRegistryBuilder()
    for handler in (*_commands(config), *_files(config), *_others(config), *own):
        builder.add(handler)
    if session.servers is not None:
        found, warnings = await session.servers.discover()
        for warning in warnings:
            session.emit(warning)
        _add_servers(builder, session.servers, found, config)
    deferred = [h for h in builder.handlers if h.exposure is Exposure.DEFERRED]
    if deferred:
        from bascule.agent.tools.tool_search import ToolSearch

        builder.add(ToolSearch(deferred))
    return builder


def _commands(config: ToolsConfig) -> Iterator[LocalHandler]:
    match config.shell:
        case "exec_command":
            yield ExecCommand()
            yield WriteStdin()
        case "shell":
            yield Shell()
        case "hosted":
            yield ShellCall()
        case "local_shell":
            yield LocalShell(declared=True)
        case "none":
            return
    # Models that were made for it call it undeclared.
    if config.shell != "local_shell":
        yield LocalShell()


def _files(config: ToolsConfig) -> Iterator[LocalHandler]:
    if config.apply_patch != "none":
        yield ApplyPatch(config.apply_patch)
    if config.view_image:
        yield ViewImage()


def _others(config: ToolsConfig) -> Iterator[LocalHandler]:
    if config.plan:
        yield UpdatePlan()
    if config.web_search:
        yield ServerTool("web_search")


def _add_servers(
    builder: ToolRegistryBuilder,
    servers: "Servers",
    found: "Sequence[ServerTools]",
    config: ToolsConfig,
) -> None:
    from bascule.agent.tools.mcp import McpTools
    from bascule.agent.tools.mcp_resources import ListMcpResources, ReadMcpResource

    many = config.namespaces and sum(len(one.tools) for one in found) > config.defer_above
    exposure = Exposure.DEFERRED if many else Exposure.DIRECT
    taken: set[ToolName] = set()
    for one in found:
        for tool in one.tools:
            name = _free(ToolName(_space(one.section.label), _legal(tool.name)), taken)
            builder.add(McpTools(servers, one, tool, name, exposure))
    there: Mapping[str, ServerTools] = {one.section.label: one for one in found if one.resources}
    if there:
        builder.add(ListMcpResources(servers, there))
        builder.add(ReadMcpResource(servers, there))


def _space(label: str) -> str:
    return f"mcp__{_legal(label)}"


def _legal(name: str) -> str:
    from bascule.agent.tools.mcp import legal

    return legal(name)


def _free(name: ToolName, taken: set[ToolName]) -> ToolName:
    """The name, with a number where it is taken."""
    free, number = name, 2
    while free in taken:
        free = name._replace(name=f"{name.name}_{number}")
        number += 1
    taken.add(free)
    return free
