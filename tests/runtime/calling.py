"""A handler that answers by the tool's name, and scripts that call it."""

import asyncio
import os
import subprocess
import sys
import threading

from toolyard.codemode.broker import RequestRefused

DEADLINE = 30.0


class Handler:
    """Answers by the tool's name."""

    def __init__(self):
        self.requests = []
        self.held = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)

    async def __call__(self, request, progress):
        self.requests.append(request)
        answer = getattr(self, f"_{request.tool or request.do}", None)
        return await answer(request, progress) if answer else self._said(request)

    def _said(self, request):
        text = f"{request.agent}:{request.server}:{request.tool}"
        return {"content": [{"type": "text", "text": text}], "structured": dict(request.arguments)}

    async def _hold(self, request, progress):
        self.held.release()
        progress(0, None, "held")
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            self.cancelled.release()

    async def _refuse(self, request, progress):
        raise RequestRefused(request.arguments["kind"], "what happened", [{"type": "text", "text": "more"}])

    async def _progress(self, request, progress):
        for step in range(3):
            progress(step, 2, f"step {step}")
        return self._said(request)

    async def _search(self, request, progress):
        hit = {"path": "servers/a/b.py", "score": 0.5, "server": "a", "tool": "b", "summary": "s", "signature": "b()"}
        return [hit] * request.arguments["top_k"]

    async def _skill(self, request, progress):
        return f"skills/a/{request.arguments['name']}"


def script(code, broker, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "TOOLYARD_BROKER": broker.socket_path, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
