"""A small MCP server over stdio that speaks either protocol generation and can misbehave on demand.

    python -m toolyard.testing.mock_mcp_server [--era both|handshake|old|modern] [--fault NAME] [--tools N]

Tests use it as an upstream server: it starts in tens of milliseconds, answers in microseconds, and has a switch for
each fault seen in real servers (`FAULTS`). It uses the standard library alone. Slow calls run in their own threads,
so that other calls are answered meanwhile. It exits at the end of its input, except with the fault `ignores-term`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

Json = dict[str, Any]

FAULTS = {
    "mute": "never answers anything",
    "never-answers": "lists its tools, and never answers a call",
    "stops-listing": "does not answer when it is asked for its tools after a call",
    "huge-notification": "sends a notification of more than 64 MiB before each answer",
    "garbage": "answers every call with a line that is not JSON",
    "prints": "prints a banner on stdout before it speaks, and a line before each answer",
    "dies-at-start": "prints why on stderr and exits with 3",
    "dies-mid-call": "exits with 7 when it is called",
    "tells-secrets": "prints its environment on stderr and exits",
    "many-tools": "lists 2,000 tools on one page",
    "pages-forever": "a next page follows every page",
    "pages-in-a-circle": "the second page names the first as the next",
    "list-changed": "has another tool after the first call, and sends list_changed",
    "duplicate-names": "lists two tools of one name",
    "invalid-schema": "lists invalid schemas, and a tool without a name",
    "big-description": "a description of 1 MB",
    "lists-secrets": "puts its API_KEY into its instructions and into the description and schema of a tool",
    "slow": "waits half a second before each answer",
    "slow-start": "waits two seconds before the first answer",
    "ignores-term": "stays when its input ends, and when it is sent SIGTERM",
    "noisy": "writes 1 MB on stderr for each call",
    "huge-line": "answers a call with a line of 65 MiB",
    "many-values": "answers a call with two million lists",
    "long-nonsense": "answers a call with 5 MiB that end in half a character",
    "odd-questions": "sends requests whose ids cannot be encoded in an answer",
    "asks": "asks the client for roots, and pings it, before it answers a call",
    "batches": "answers in JSON arrays",
    "wants-input": "answers calls with a question to the user",
    "closes-stdout": "closes its output when it is called, and stays",
    "deaf": "stops reading after the greeting",
    "leaves-children": "starts a child that sleeps, and prints its pid on stderr",
}
_MODERN = "2026-07-28"
_HANDSHAKE = "2025-11-25"
_OLD = "2024-11-05"
_META = "io.modelcontextprotocol/"
_UNSUPPORTED_VERSION = -32022
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_MANY_TOOLS = 2_000
_HUGE_BYTES = 65 * 1024 * 1024
_TEXT = {"type": "string"}
_NUMBER = {"type": "number"}


def _tool(name: str, description: str, **properties: Any) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = (
    {**_tool("echo", "Say it again.", text=_TEXT), "annotations": {"readOnlyHint": True}},
    {
        **_tool("add", "Add two numbers.", a=_NUMBER, b=_NUMBER),
        "outputSchema": {"type": "object", "properties": {"sum": _NUMBER}, "required": ["sum"]},
    },
    _tool("wait", "Wait, and report how it goes.", seconds=_NUMBER),
    _tool("fail", "Fail, as a tool does.", text=_TEXT),
    _tool("refuse", "Fail, as the protocol does.", code={"type": "integer"}),
    _tool("blob", "As many characters as asked for.", size={"type": "integer"}),
    _tool("env", "The names of the variables it sees."),
    _tool("cancelled", "How many calls were cancelled."),
    _tool("crash", "Exit with this code.", code={"type": "integer"}),
)


class JsonRpcError(Exception):
    """An error response to a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message} | ({} if data is None else {"data": data})


class MockMcpServer:
    """One conversation over this process's stdin and stdout."""

    def __init__(self, era: str, fault: str, tools: int) -> None:
        self._era = era
        self._fault = fault
        self._extra_tools = tools
        self._lock = threading.Lock()
        self._out = os.fdopen(os.dup(1), "wb")
        self._calls = 0
        self._request_id: Any = None
        self._cancelled_calls = 0
        self._subscription_id: Any = None
        self._running: dict[Any, threading.Event] = {}

    def serve(self) -> None:
        """Answers requests until the input ends."""
        if self._fault == "slow-start":
            time.sleep(2)
        if self._fault == "prints":
            self._print("Welcome to the little server!")
        for line in sys.stdin.buffer:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if self._fault != "mute" and "method" in message:
                self._handle_message(message)
            if self._fault == "deaf" and message.get("method") in ("notifications/initialized", "server/discover"):
                threading.Event().wait()
        if self._fault == "ignores-term":
            threading.Event().wait()

    def _handle_message(self, message: Json) -> None:
        method, number = message["method"], message.get("id")
        params: Json = message.get("params") or {}
        if number is None:
            if method == "notifications/cancelled":
                self._cancelled_calls += 1
                running = self._running.get(params.get("requestId"))
                if running is not None:
                    running.set()
            return
        if method == "subscriptions/listen":
            self._subscription_id = number
            self._notify("notifications/subscriptions/acknowledged", {"notifications": params["notifications"]})
            return
        slow = method == "tools/call" and (params.get("name") == "wait" or self._fault == "slow")
        if slow:
            self._running[number] = threading.Event()
            threading.Thread(target=self._answer_request, args=(number, method, params), daemon=True).start()
        else:
            self._answer_request(number, method, params)

    def _answer_request(self, number: Any, method: str, params: Json) -> None:
        try:
            body = {"result": self._result(number, method, params)}
        except JsonRpcError as refusal:
            body = {"error": refusal.body}
        running = self._running.pop(number, None)
        if running is not None and running.is_set():
            return
        result = body.get("result")
        if isinstance(result, dict) and f"{_META}protocolVersion" in params.get("_meta", ()):
            later = {"resultType": "complete"} | (
                {} if method == "tools/call" else {"ttlMs": 0, "cacheScope": "private"}
            )
            body = {"result": {**later, **cast("Json", result)}}
        if result is not NotImplemented:
            self._send({"jsonrpc": "2.0", "id": number, **body})

    def _result(self, number: Any, method: str, params: Json) -> Any:
        if method == "initialize":
            return self._initialize_result()
        if method == "server/discover":
            return self._discover_result(params)
        if method == "ping":
            return {}
        if self._era == "modern" and f"{_META}protocolVersion" not in params.get("_meta", ()):
            raise JsonRpcError(_INVALID_PARAMS, "the envelope is missing")
        if method == "tools/list":
            stuck = self._fault == "stops-listing" and self._calls
            return NotImplemented if stuck else self._tools_page(params.get("cursor"))
        if method == "tools/call":
            return self._call_tool(number, params)
        raise JsonRpcError(_METHOD_NOT_FOUND, f"no method {method}")

    def _server_facts(self) -> Json:
        instructions = os.environ["API_KEY"] if self._fault == "lists-secrets" else "Echo and be merry."
        return {"capabilities": {"tools": {"listChanged": True}}, "instructions": instructions}

    def _initialize_result(self) -> Json:
        if self._era == "modern":
            raise JsonRpcError(_UNSUPPORTED_VERSION, "unsupported protocol version", {"supported": [_MODERN]})
        info = {"name": "upstream", "version": "1.2.3"}
        version = _OLD if self._era == "old" else _HANDSHAKE
        return {"protocolVersion": version, "serverInfo": info, **self._server_facts()}

    def _discover_result(self, params: Json) -> Json:
        if self._era in ("handshake", "old") or f"{_META}protocolVersion" not in params.get("_meta", {}):
            raise JsonRpcError(_METHOD_NOT_FOUND, "no method server/discover")
        info = {f"{_META}serverInfo": {"name": "upstream", "version": "1.2.3"}}
        return {"supportedVersions": [_MODERN], **self._server_facts(), "_meta": info}

    def _tools_page(self, cursor: str | None) -> Json:
        tools = [*TOOLS, *(_tool(f"extra_{n}", "One of many.", text=_TEXT) for n in range(self._extra_tools))]
        if self._fault == "many-tools":
            tools = [_tool(f"tool_{n}", f"Number {n}.", text=_TEXT) for n in range(_MANY_TOOLS)]
        elif self._fault == "pages-forever":
            at = int(cursor or 0)
            return {"tools": [_tool(f"tool_{at}", "One more.")], "nextCursor": str(at + 1)}
        elif self._fault == "pages-in-a-circle":
            return {"tools": tools, "nextCursor": "b" if cursor == "a" else "a"}
        elif self._fault == "list-changed" and self._calls:
            tools.append(_tool("latecomer", "It was not there before."))
        elif self._fault == "duplicate-names":
            tools.append(_tool("echo", "Another echo.", other=_TEXT))
        elif self._fault == "invalid-schema":
            broken: list[Any] = [
                {"name": "no_schema"},
                {"name": "list_schema", "inputSchema": [1]},
                {"name": "bad_required", "inputSchema": {"type": "object", "required": False}},
                {"description": "nameless"},
                {"name": 5, "inputSchema": {}},
                "no tool at all",
            ]
            tools = [*tools, *broken]
        elif self._fault == "big-description":
            tools.append(_tool("wordy", "x" * 1_000_000))
        elif self._fault == "lists-secrets":
            key = os.environ["API_KEY"]
            tools.append(_tool("open", f"Uses {key}.", key={"type": "string", "default": key, "description": key}))
        return {"tools": tools}

    def _call_tool(self, number: Any, params: Json) -> Any:
        self._calls += 1
        self._request_id = number
        misbehave: Callable[[], Any] | None = getattr(self, f"fault_{self._fault}".replace("-", "_"), None)
        odd = misbehave() if misbehave is not None else None
        if odd is not None:
            return odd
        name, arguments = params.get("name"), cast("Json", params.get("arguments") or {})
        run: Callable[[Any, Json, Json], Any] | None = getattr(self, f"tool_{name}", None)
        if run is None:
            raise JsonRpcError(_INVALID_PARAMS, f"Unknown tool: {name}")
        try:
            return run(number, arguments, params.get("_meta") or {})
        except KeyError as missing:
            raise JsonRpcError(_INVALID_PARAMS, f"the argument {missing} is missing") from None

    # The tools. Arguments: the request id, the tool's arguments, and `_meta`.

    def tool_echo(self, _number: Any, given: Json, _meta: Json) -> Any:
        return _text_result(given["text"])

    def tool_add(self, _number: Any, given: Json, _meta: Json) -> Any:
        total = given["a"] + given["b"]
        return _text_result(str(total), structuredContent={"sum": total})

    def tool_fail(self, _number: Any, given: Json, _meta: Json) -> Any:
        return {**_text_result(given["text"]), "isError": True}

    def tool_refuse(self, _number: Any, given: Json, _meta: Json) -> Any:
        raise JsonRpcError(given["code"], f"refused with {given['code']}")

    def tool_blob(self, _number: Any, given: Json, _meta: Json) -> Any:
        return _text_result("x" * given["size"])

    def tool_env(self, _number: Any, _given: Json, _meta: Json) -> Any:
        return _text_result(" ".join(sorted(os.environ)))

    def tool_cancelled(self, _number: Any, _given: Json, _meta: Json) -> Any:
        return _text_result(str(self._cancelled_calls))

    def tool_crash(self, _number: Any, given: Json, _meta: Json) -> Any:
        os._exit(given["code"])

    def tool_wait(self, number: Any, given: Json, meta: Json) -> Any:
        token, steps = meta.get("progressToken"), 4
        for step in range(steps):
            if token is not None:
                progress = {
                    "progressToken": token,
                    "progress": step + 1,
                    "total": steps,
                    "message": f"step {step + 1}",
                }
                self._notify("notifications/progress", progress)
            if self._running[number].wait(given["seconds"] / steps):
                return NotImplemented
        return _text_result("waited")

    def _notify(self, method: str, params: Json) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Json) -> None:
        if self._fault == "prints" and "result" in message:
            self._print("about to answer")
        self._write(json.dumps([message] if self._fault == "batches" else message).encode() + b"\n")

    def _print(self, text: str) -> None:
        self._write(text.encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with self._lock:
            self._out.write(data)
            self._out.flush()

    # The behaviour of each fault when a tool is called; a return value replaces the answer.

    def fault_list_changed(self) -> None:
        # The modern protocol notifies only clients that have subscribed.
        if self._calls == 1 and (self._era != "modern" or self._subscription_id is not None):
            meta = (
                {"_meta": {f"{_META}subscriptionId": self._subscription_id}}
                if self._subscription_id is not None
                else {}
            )
            self._notify("notifications/tools/list_changed", meta)

    def fault_asks(self) -> None:
        self._send({"jsonrpc": "2.0", "id": "ask-1", "method": "roots/list"})
        self._send({"jsonrpc": "2.0", "id": "ask-2", "method": "ping"})
        answers = [json.loads(sys.stdin.buffer.readline()) for _ in range(2)]
        if answers[0].get("error", {}).get("code") != _METHOD_NOT_FOUND or answers[1].get("result") != {}:
            os._exit(9)

    def fault_dies_mid_call(self) -> None:
        sys.stderr.write("fatal: the disk is on fire\n")
        sys.stderr.flush()
        os._exit(7)

    def fault_closes_stdout(self) -> Any:
        with self._lock:
            self._out.close()
            os.close(1)
        threading.Event().wait()

    def fault_never_answers(self) -> Any:
        return NotImplemented

    def fault_slow(self) -> None:
        time.sleep(0.5)

    def fault_wants_input(self) -> Any:
        return {"resultType": "input_required", "inputRequests": {"a": {}}, "requestState": "s"}

    def fault_garbage(self) -> Any:
        self._print("this is not JSON {")
        return NotImplemented

    def fault_huge_line(self) -> Any:
        self._print('{"result":"' + "x" * _HUGE_BYTES + f'","jsonrpc":"2.0","id":{self._request_id}}}')
        return NotImplemented

    def fault_huge_notification(self) -> None:
        self._notify("notifications/message", {"level": "info", "data": "x" * _HUGE_BYTES})

    def fault_many_values(self) -> Any:
        self._print(f'{{"jsonrpc":"2.0","id":{self._request_id},"result":{{"content":[{"[]," * 2_000_000}[]]}}}}')
        return NotImplemented

    def fault_long_nonsense(self) -> Any:
        text = "x" * 5 * 1024 * 1024
        self._print(f'{{"jsonrpc":"2.0","id":{self._request_id},"result":{{"text":"{text}\\ud800"}}}}')
        return NotImplemented

    def fault_odd_questions(self) -> None:
        self._print('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')
        self._print('{"jsonrpc":"2.0","id":[{}],"method":"ping"}')

    def fault_noisy(self) -> None:
        sys.stderr.write(("noise " * 20 + "\n") * 8_700)
        sys.stderr.flush()


def _text_result(text: str, **more: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": False, **more}


def main() -> None:
    parser = argparse.ArgumentParser(description="A small MCP server that can misbehave.")
    parser.add_argument("--era", choices=("both", "handshake", "old", "modern"), default="both")
    parser.add_argument("--fault", choices=("", *FAULTS), default="")
    parser.add_argument("--tools", type=int, default=0, help="list this many more tools")
    chosen = parser.parse_args()
    if chosen.fault == "dies-at-start":
        sys.exit(_exit_with_message("cannot find my configuration"))
    if chosen.fault == "tells-secrets":
        sys.exit(_exit_with_message(f"bad key: {dict(os.environ)}"))
    if chosen.fault == "ignores-term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if chosen.fault == "leaves-children":
        child = subprocess.Popen(["sleep", "600"])
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    MockMcpServer(chosen.era, chosen.fault, chosen.tools).serve()
    os._exit(0)  # ends waiting threads as well


def _exit_with_message(text: str) -> int:
    sys.stderr.write(text + "\n")
    return 3


if __name__ == "__main__":
    main()
