"""Requests pass through few files; every further one is one more to open when following a request."""

from __future__ import annotations

import pytest

from benchmarks.call_chains.__main__ import traced_read, traced_upstream_call

pytestmark = pytest.mark.slow  # it starts a server, and waits until it is quiet


def test_a_read_over_stdio_stays_within_its_limit_of_files(tmp_path):
    chain = traced_read(str(tmp_path))

    assert chain.is_within_limit, "\n".join(chain.calls)
    assert chain.files[0] == "transports/mcp/stdio.py"
    assert "policy/policy.py" in chain.files, "the policy decided"
    assert "storage/audit_log.py" in chain.files, "the call was recorded"


def test_an_upstream_call_from_sandboxed_code_stays_within_its_limit_of_files(tmp_path):
    chain = traced_upstream_call(str(tmp_path))

    assert chain.is_within_limit, "\n".join(chain.calls)
    assert "codemode/upstream_caller.py" in chain.files, "the tool was called"
    assert "storage/audit_log.py" in chain.files, "the call was recorded"
