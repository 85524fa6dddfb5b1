"""A CLI that does what its input says, one step after the other. A step is a list: what, and with what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from toolyard.testing.mcp_http_client import HttpClient


def say(**record: object) -> None:
    print(json.dumps(record), flush=True)


def main(url: str, steps: list[list]) -> None:
    client: HttpClient | None = None
    for number, (what, *rest) in enumerate(steps):
        match what:
            case "connect":
                client = HttpClient(url, rest[0] if rest else os.environ["TOOLYARD_RUN_TOKEN"])
            case "list":
                say(kind="tools", names=[tool["name"] for tool in client.request("tools/list")["result"]["tools"]])
            case "call" | "quiet_call":
                say(kind="call", id=str(number), name=rest[0], arguments=rest[1])
                answer = client.call(rest[0], **rest[1])
                result = answer.get("result", {})
                text = "".join(part.get("text", "") for part in result.get("content", [])) or json.dumps(answer)
                ok = "error" not in answer and not result.get("isError")
                say(kind="result", id=str(number), ok=ok, text=text if ok or what == "call" else "it failed")
            case "usage":
                say(kind="usage", **rest[0])
            case "open_call":
                say(kind="call", id=str(number), name=rest[0], arguments={})
            case "say":
                say(kind="text", text=rest[0])
            case "error":
                say(kind="error", text=rest[0])
            case "raw":
                sys.stdout.write(rest[0] * rest[1])
                sys.stdout.flush()
            case "stderr":
                sys.stderr.write(rest[0] * rest[1])
                sys.stderr.flush()
            case "environment":
                with open(rest[0], "w") as file:  # what it says of its secrets is masked
                    json.dump(dict(os.environ), file)
            case "child":
                subprocess.Popen(["sleep", "1000"], start_new_session=True)
            case "ignore":
                import signal

                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "touch":
                open(rest[0], "w").close()
            case "wait":
                while rest and not os.path.exists(rest[0]):
                    time.sleep(0.01)
                if not rest:
                    time.sleep(1000)
            case "over":
                say(kind="over")
            case "exit":
                sys.exit(rest[0])
            case _:
                raise ValueError(what)


if __name__ == "__main__":
    main(sys.argv[1], json.load(sys.stdin))
