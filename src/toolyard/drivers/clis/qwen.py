"""Driver for Qwen Code: settings like Gemini CLI, output like Claude Code.

It hides the tools of a server behind its own search tool. Denying that tool makes it declare them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from toolyard.drivers.clis.claude_stream import ClaudeStreamReader
from toolyard.drivers.clis.cli import TOOL_SECONDS, Cli, split_words
from toolyard.drivers.clis.workdir import INSTRUCTIONS_FILE_NAME, escape_slash_command, workdir_relative_path
from toolyard.drivers.driver import TOKEN_VARIABLE, LaunchSpec, Login, OutputReader, RunSpec

_NO_TOOL = "none"
"""Its list of allowed own tools must not be empty, and future versions may have tools that we do not deny."""


class Qwen(Cli):
    name = "qwen"
    title = "Qwen Code"
    program = "qwen"
    package = "@qwen-code/qwen-code"
    minimum_version = "0.15.10"
    keys = ("OPENAI_API_KEY", "DASHSCOPE_API_KEY")
    key_alternatives = ("OPENAI_BASE_URL",)
    passed_variables = ("OPENAI_BASE_URL", "OPENAI_MODEL")
    logins = (Login(".qwen", "oauth_creds.json", ".qwen/oauth_creds.json", "QWEN_HOME"),)
    shadows_bare_names = True
    tool_name_template = "mcp__{server}__{tool}"
    provider = "openai"
    base_url_variable = "OPENAI_BASE_URL"
    # ToolNames of packages/core/src/tools/tool-names.ts, as bundled in 0.15.10, and what 0.24.4 adds to them.
    builtins = split_words(
        """edit write_file read_file grep_search glob run_shell_command todo_write save_memory agent skill
        exit_plan_mode web_fetch list_directory lsp ask_user_question cron_create cron_list cron_delete task_stop
        send_message monitor tool_search structured_output
        exec zoom_image enter_plan_mode web_search image_gen loop_wakeup create_sub_session list_agents task_create
        task_update task_list team_create team_delete team_plan_approval request_shutdown notebook_edit tool_call
        read_mcp_resource enter_worktree exit_worktree workflow artifact record_artifact record_source
        report_findings get_goal update_goal propose_goal display_image omni_downsample_image omni_downscale_video
        omni_downsample_audio omni_extract_keyframes omni_extract_audio omni_clip_video omni_convert_image
        omni_transcribe_audio omni_clip_image omni_clip_audio omni_caption_image omni_caption_audio omni_ocr_image
        omni_understand_video_segments omni_recall_media_memory"""
    )

    def launch_spec(self, run: RunSpec) -> LaunchSpec:
        server = {
            "httpUrl": run.url,
            "headers": {"Authorization": f"Bearer ${TOKEN_VARIABLE}"},
            "timeout": TOOL_SECONDS * 1000,
            "trust": True,
        }
        settings = {
            "mcpServers": {self.server: server},
            "security": {"auth": {"selectedType": "qwen-oauth" if run.has_login else "openai"}},
            "permissions": {
                "deny": [*sorted(self.builtins), *map(self.shown_name, run.denied)],
                "allow": [self.tool_name_template.format(server=self.server, tool="*")],
            },
            "tools": {"core": [_NO_TOOL]},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "checkpointing": {"enabled": False}},
            "context": {"fileName": INSTRUCTIONS_FILE_NAME},
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
            "disableAllHooks": True,
        }
        files = {".qwen/settings.json": json.dumps(settings, indent=1), workdir_relative_path(run, ".env"): ""}
        if run.instructions:
            files[f".qwen/{INSTRUCTIONS_FILE_NAME}"] = run.instructions
        arguments = ["--output-format", "stream-json", "--include-partial-messages", "--approval-mode", "default"]
        arguments += ["--chat-recording", "false", "--allowed-mcp-server-names", self.server]
        if run.model:
            arguments += ["--model", run.model]
        variables = {"QWEN_HOME": f"{run.folder}/.qwen", "QWEN_CODE_NO_RELAUNCH": "true"}
        return LaunchSpec(tuple(arguments), variables, files, escape_slash_command(run.prompt))

    def reader(self, run: str, tools: Iterable[str]) -> OutputReader:
        return QwenReader(self, run, tuple(tools))


class QwenReader(ClaudeStreamReader):
    refusal = re.compile(r"^Qwen Code requires permission to use ")
    unknown = re.compile(r'^Tool "[^"]*" not found')
    error_text = re.compile(r"^\[API Error: ")
    counts_cached_apart = False
