"""How many tokens a turn's input has."""

from bascule.engine.engine import Engine
from bascule.engine.observe import estimated_tokens
from bascule.engine.preparing import prepare_turn
from bascule.protocols.responses.request import TurnRequest
from bascule.upstreams.counting import ask_for_count
from bascule.upstreams.target import Target


async def count_input_tokens(
    engine: Engine, request: TurnRequest, target: Target, owner: str
) -> tuple[int, bool]:
    """The number, and whether it is an estimate: the model's server is asked where it can tell.

    The turn is prepared as if it were to run; nothing is stored. Raises ApiError as the turn would.
    """
    prepared = await prepare_turn(engine, request, target, owner)
    tools = prepared.plan.encoded(
        target.flags, lambda tools: target.protocol.encode_tools(tools, target.flags)
    )
    encoded = target.protocol.encode_request(
        request,
        model=target.model,
        items=prepared.items,
        tools=tools,
        choice=prepared.choice,
        flags=target.flags,
    )
    counted = await ask_for_count(target, encoded.body)
    if counted is not None:
        return counted, False
    return estimated_tokens(encoded.body), True
