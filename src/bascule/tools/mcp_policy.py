"""Which of a server's tools may be called, and which calls need an approval."""

from collections.abc import Sequence

import msgspec

from bascule.config import McpApprovals, McpServerSection, McpToolFilter
from bascule.services.mcp import McpTool
from bascule.toolkit.approval import ASK, Always, Rule
from bascule.tools.mcp_params import ApprovalFilters, McpParams, ToolFilter

Names = Sequence[str] | ToolFilter | McpToolFilter | None
Approval = str | ApprovalFilters | McpApprovals | None


class McpPolicy(msgspec.Struct, frozen=True):
    """What a request says of a server, and what the operator does: the stricter counts."""

    requested: McpParams
    configured: McpServerSection | None = None

    def allows(self, tool: McpTool) -> bool:
        configured = self.configured.allowed_tools if self.configured is not None else None
        return is_named(self.requested.allowed_tools, tool) and is_named(configured, tool)

    def allows_resources(self, name: str) -> bool:
        """Whether the gateway's own tool for a server's resources may be called: it only reads."""
        return self.allows(McpTool(name, "", msgspec.Raw(), read_only=True))

    def rule(self, tool: McpTool) -> Rule | None:
        """None for a tool that may be called without asking. A request that says nothing means
        always; an operator who says nothing leaves it to the request."""
        configured = None if self.configured is None else self.configured.require_approval
        asks = needs_approval(self.requested.require_approval, tool)
        if configured is not None:
            asks = asks or needs_approval(configured, tool)
        return Always(ASK) if asks else None


def is_named(allowed: Names, tool: McpTool) -> bool:
    """Whether a list or a filter of allowed tools has this one; without one all are allowed."""
    if allowed is None:
        return True
    if isinstance(allowed, ToolFilter | McpToolFilter):
        return _matches(allowed, tool)
    return tool.name in allowed


def _matches(filter_: ToolFilter | McpToolFilter, tool: McpTool) -> bool:
    if filter_.tool_names is not None and tool.name not in filter_.tool_names:
        return False
    return filter_.read_only is None or filter_.read_only == tool.read_only


def needs_approval(approval: Approval, tool: McpTool) -> bool:
    """Only what `never` alone names needs none."""
    if isinstance(approval, ApprovalFilters | McpApprovals):
        if approval.always is not None and _matches(approval.always, tool):
            return True
        return approval.never is None or not _matches(approval.never, tool)
    return approval != "never"
