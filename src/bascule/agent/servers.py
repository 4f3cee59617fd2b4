"""The MCP servers of a session: the pool of the services, for servers that the user has configured."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from bascule.agent.events import Event, Warned
from bascule.config import McpServerSection
from bascule.services.egress import EgressPolicy, Guard
from bascule.services.mcp import ClientCredentials, McpError, McpPool, McpServer, McpTool
from bascule.tools.mcp_policy import is_named, needs_approval

CALL_SECONDS: Final = 60.0
"""Without a sign of life."""
HARD_SECONDS: Final = 3600.0
_MAX_RESULT_BYTES: Final = 16 * 1024 * 1024


class ServerTools(msgspec.Struct, frozen=True):
    """What a server offers, as far as the user permits."""

    section: McpServerSection
    server: McpServer
    tools: Sequence[McpTool]
    resources: bool

    @property
    def seconds(self) -> float:
        return CALL_SECONDS if self.section.timeout is None else self.section.timeout

    def asks(self, tool: McpTool) -> bool | None:
        """What is configured of a tool's approvals; None where nothing is."""
        said = self.section.require_approval
        return None if said is None else needs_approval(said, tool)


class Servers:
    """Asks all of them at once; one that does not answer is missing, and the user hears of it."""

    def __init__(self, sections: Sequence[McpServerSection]) -> None:
        self._sections = sections
        self.pool: Final = McpPool(Guard(EgressPolicy()), max_result_bytes=_MAX_RESULT_BYTES)

    async def discover(self) -> tuple[list[ServerTools], list[Event]]:
        found = await asyncio.gather(*map(self._of, self._sections))
        there = [one for one in found if isinstance(one, ServerTools)]
        return there, [one for one in found if isinstance(one, Warned)]

    async def _of(self, section: McpServerSection) -> ServerTools | Warned:
        server = McpServer(
            label=section.label,
            url=section.url,
            command=section.command,
            args=section.args,
            env={name: value.reveal() for name, value in section.env.items()},
            headers={name: value.reveal() for name, value in section.headers.items()},
            oauth=_credentials(section),
            guarded=False,
        )
        try:
            listing = await self.pool.tools(server)
        except McpError as e:
            return Warned(f"The MCP server {section.label} cannot be used: {e.message}")
        tools = [tool for tool in listing.tools if is_named(section.allowed_tools, tool)]
        return ServerTools(section, server, tools, listing.resources)

    async def aclose(self) -> None:
        await self.pool.aclose()


def _credentials(section: McpServerSection) -> ClientCredentials | None:
    oauth = section.oauth
    if oauth is None:
        return None
    return ClientCredentials(oauth.client_id, oauth.client_secret, oauth.issuer, oauth.scopes)
