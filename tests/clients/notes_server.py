"""An MCP server on stdio, for agents under test: it reads a note out, backwards. An argument says how
many tools it has; the others do nothing."""

import json
import sys
from typing import Any

TOOL = {
    "name": "read_note",
    "description": "Reads a note",
    "inputSchema": {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    },
}


def result(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        case "tools/list":
            count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
            others = [{**TOOL, "name": f"do_nothing_{i}"} for i in range(1, count)]
            return {"tools": [TOOL, *others]}
        case "tools/call":
            title = params["arguments"]["title"]
            return {"content": [{"type": "text", "text": f"note {title[::-1]}"}]}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        found = result(message["method"], message.get("params") or {})
        if found is None:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = found
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
