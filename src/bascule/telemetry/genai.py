"""Names of OpenTelemetry's semantic conventions for generative AI, and of the few others in use.

The conventions are in development: a renamed attribute is changed here and nowhere else.
"""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
FIRST_CHUNK_SECONDS: Final = "gen_ai.response.time_to_first_chunk"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

OPERATION_SECONDS: Final = "gen_ai.client.operation.duration"
TOKENS: Final = "gen_ai.client.token.usage"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 -- a name
TIME_TO_FIRST: Final = "gen_ai.client.operation.time_to_first_chunk"

ERROR_TYPE: Final = "error.type"
HTTP_METHOD: Final = "http.request.method"
HTTP_ROUTE: Final = "http.route"
HTTP_STATUS: Final = "http.response.status_code"

CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

TURN_STATUS: Final = "bascule.turn.status"
TURN_ROUNDS: Final = "bascule.turn.rounds"
TOOL_OUTCOME: Final = "bascule.tool.outcome"
REQUEST_ID: Final = "bascule.request.id"
TOOL_CALLS: Final = "bascule.agent.tool.calls"
TOOL_SECONDS: Final = "bascule.agent.tool.duration"
TURN_TOOL_CALLS: Final = "bascule.agent.turn.tool.calls"
TOOLS_REGISTERED: Final = "bascule.agent.tools.registered"
TOOLS_DESCRIBED: Final = "bascule.agent.tools.spec_description_bytes"
CONVERSATIONS: Final = "bascule.agent.conversations"
"""No convention has these."""
