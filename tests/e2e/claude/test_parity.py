"""Claude Code's own tools answer as recorded. When this fails, its version has changed: record it anew, and look."""

import json

from tests.parity.recording import THEIRS, recorded_theirs


def test_claude_codes_tools_answer_as_recorded(npm, tmp_path):
    variables = {"PATH": f"{npm.node.parent}:/usr/bin:/bin"}
    assert recorded_theirs(npm.program("claude"), tmp_path, variables) == json.loads(THEIRS.read_text())
