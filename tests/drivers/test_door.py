"""The way in from Python: what is imported with it, and what only when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import toolyard.drivers
from toolyard.drivers.mcp_host import Host

HEAVY = "{'mcp', 'uvicorn', 'starlette', 'pydantic', 'asyncio', 'toolyard.app.yard', 'toolyard.drivers.mcp_host'}"


def test_who_imports_it_waits_for_no_server():
    program = f"import sys, toolyard.drivers\nprint(sorted({HEAVY} & set(sys.modules)))\n"
    program += f"from toolyard.drivers import Host\nprint(Host.__module__, sorted({HEAVY} - set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]", "toolyard.drivers.mcp_host []"]


def test_the_host_is_found_beside_the_rest():
    assert toolyard.drivers.Host is Host
    assert {*toolyard.drivers.__all__} <= {*dir(toolyard.drivers)}
    with pytest.raises(AttributeError, match="no attribute 'Hots'"):
        toolyard.drivers.Hots  # noqa: B018
