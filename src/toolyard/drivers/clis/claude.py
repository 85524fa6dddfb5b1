"""Driver for Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterable

from toolyard.drivers.clis.claude_stream import ClaudeStreamReader
from toolyard.drivers.clis.cli import ATTEMPTS, START_SECONDS, TOOL_SECONDS, Cli, split_words
from toolyard.drivers.driver import TOKEN_VARIABLE, LaunchSpec, Login, OutputReader, RunSpec

_CONFIG = "claude"
_MAX_RESULT_TOKENS = 4_000_000
_INSTRUCTIONS = "instructions.md"


class Claude(Cli):
    name = "claude"
    title = "Claude Code"
    program = "claude"
    package = "@anthropic-ai/claude-code"
    minimum_version = "2.1.50"
    keys = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
    key_alternatives = ("ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
    passed_variables = (
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "AWS_REGION",
        "CLOUD_ML_REGION",
        "ANTHROPIC_VERTEX_PROJECT_ID",
    )
    logins = (Login(".claude", ".credentials.json", f"{_CONFIG}/.credentials.json", "CLAUDE_CONFIG_DIR"),)
    asks_first = True
    tool_name_template = "mcp__{server}__{tool}"
    provider = "anthropic"
    base_url_variable = "ANTHROPIC_BASE_URL"
    # `tools` of the first event of 2.1.197 with `--tools default`, and names of older versions. Ours have a prefix.
    builtins = split_words(
        """Task Bash CronCreate CronDelete CronList Edit EnterWorktree ExitWorktree NotebookEdit Read ReportFindings
        ScheduleWakeup SendMessage Skill TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate WebFetch WebSearch
        Workflow Write Glob Grep LS MultiEdit BashOutput KillShell TodoWrite ExitPlanMode ToolSearch"""
    )

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        server = {"type": "http", "url": run.url, "headers": {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}}
        arguments = ["--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        arguments += ["--mcp-config", f"{run.folder}/servers.json", "--strict-mcp-config"]
        arguments += ["--tools", "", "--setting-sources", "", "--disable-slash-commands", "--no-session-persistence"]
        if run.approve_tool:
            prompt_tool = self.shown_name(run.approve_tool)
            arguments += ["--permission-mode", "default", "--permission-prompt-tool", prompt_tool]
        else:
            arguments += [
                "--permission-mode",
                "dontAsk",
                "--allowedTools",
                self.tool_name_template.format(server=self.server, tool="*"),
            ]
        if run.model:
            arguments += ["--model", run.model]
        variables = {
            "CLAUDE_CONFIG_DIR": f"{run.folder}/{_CONFIG}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",  # CLAUDE.md of all parent folders
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",  # otherwise `@/a/path` in a prompt would include that file
            "CLAUDE_CODE_MAX_RETRIES": str(ATTEMPTS - 1),
            "DISABLE_AUTOUPDATER": "1",
            "MCP_CONNECTION_NONBLOCKING": "0",  # otherwise the first turn may start before our tools are listed
            # Our results are bounded already, except approvals, which repeat the whole input.
            "MAX_MCP_OUTPUT_TOKENS": str(_MAX_RESULT_TOKENS),
            "MCP_TIMEOUT": str(START_SECONDS * 1000),
            "MCP_TOOL_TIMEOUT": str(TOOL_SECONDS * 1000),
        }
        files = {"servers.json": json.dumps({"mcpServers": {self.server: server}}, indent=1)}
        if run.instructions:
            files[_INSTRUCTIONS] = run.instructions
            arguments += ["--append-system-prompt-file", f"{run.folder}/{_INSTRUCTIONS}"]
        return LaunchSpec(tuple(arguments), variables, files, run.prompt)

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        return ClaudeStreamReader(self, run, tuple(tools))
