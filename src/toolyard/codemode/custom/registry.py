"""The custom tools of a configuration, ready to be called.

`CustomTools` owns the thread slots of its functions. Nothing outlives the process, so there is nothing to close. A
tool that cannot be loaded is reported as a problem and does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toolyard.codemode.custom import loader
from toolyard.codemode.custom.context import (
    NoFiles,
    OnConnection,
    ToolContext,
    WorkspaceFiles,
    ignore_event,
)
from toolyard.codemode.custom.executor import ToolThreads, run_function
from toolyard.codemode.custom.signature import RESULT_KEY, Function, FunctionSignature, inspect_function
from toolyard.config.custom_tools import CustomToolSource
from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError, ValidationError
from toolyard.core.upstream import ToolSchema, UpstreamProgress, UpstreamResult

CALL_SECONDS: Final = 120.0
_READ_ONLY: Final = {"readOnlyHint": True}


@dataclass(frozen=True, slots=True)
class ToolProblem:
    """A configured tool that could not be loaded."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class CustomTool:
    """One function as a tool."""

    name: str
    """`group.tool`"""
    function: Function
    signature: FunctionSignature
    seconds: float = CALL_SECONDS

    @property
    def schema(self) -> ToolSchema:
        return self.signature.schema

    async def run(
        self, arguments: Mapping[str, Any], context: ToolContext, threads: ToolThreads, seconds: float | None = None
    ) -> UpstreamResult:
        """Calls the function. Raises ValidationError, ToolError, or a Toolyard error that
        the function raises itself.
        """
        values = self.signature.bind(arguments, context)
        limit = min(self.seconds, seconds) if seconds is not None else self.seconds
        value = await run_function(self.function, values, name=self.name, seconds=limit, threads=threads)
        return self.signature.to_result(value)


class CustomTools:
    """All custom tools, by name."""

    def __init__(
        self, tools: Sequence[CustomTool], context: ToolContext, problems: Sequence[ToolProblem] = ()
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context
        self._threads = ToolThreads()
        self.problems = tuple(problems)

    def __iter__(self) -> Iterator[CustomTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> CustomTool | None:
        return self._tools.get(name)

    @property
    def groups(self) -> Mapping[str, tuple[ToolSchema, ...]]:
        """The schemas by group, as clients see them; names are complete (`group.tool`)."""
        return self._schemas_by_group(lambda tool: tool.schema)

    @property
    def unwrapped_groups(self) -> Mapping[str, tuple[ToolSchema, ...]]:
        """The schemas by group, as code sees them: results that are not objects are not wrapped."""
        return self._schemas_by_group(lambda tool: tool.signature.unwrapped_schema)

    def _schemas_by_group(
        self, schema_of: Callable[[CustomTool], ToolSchema]
    ) -> Mapping[str, tuple[ToolSchema, ...]]:
        found: dict[str, tuple[ToolSchema, ...]] = {}
        for name, tool in self._tools.items():
            group = name.partition(".")[0]
            found[group] = (*found.get(group, ()), schema_of(tool))
        return found

    def unwrap_result(self, name: str, answer: UpstreamResult) -> UpstreamResult:
        """Returns a result with the value itself as its structured part, for code."""
        tool = self._tools.get(name)
        if tool is None or not tool.signature.is_wrapped or answer.is_error:
            return answer
        return replace(answer, structured=answer.structured[RESULT_KEY])

    async def call(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - part of the call, as with servers
        progress: UpstreamProgress | None = None,
    ) -> UpstreamResult:
        """Calls `server.tool`, where the server is the tool's group."""
        found = self._tools.get(f"{server}.{tool}")
        if found is None:
            hint = did_you_mean(f"{server}.{tool}", self._tools) if self._tools else "None is configured."
            raise ValidationError.of("tool", f"there is no custom tool '{server}.{tool}'", hint=hint)
        context = replace(self._context, progress=progress) if progress is not None else self._context
        return await found.run(arguments, context, self._threads, timeout)


def load_custom_tools(
    config: Config,
    settings: Settings,
    files: WorkspaceFiles | None = None,
    on_connection: OnConnection = ignore_event,
) -> CustomTools:
    """Loads every custom tool of the configuration.

    `files` are the agent's; `on_connection` receives every host that a browser tries to reach.
    """
    section = config.toolyard
    hosts = section.browser.allowed_hosts
    context = ToolContext(
        settings=settings,
        files=files or NoFiles(),
        browser=section.browser,
        vision=section.vision,
        allowed_hosts=section.code_execution.allowed_hosts if hosts is None else hosts,
        on_connection=on_connection,
    )
    found: dict[str, CustomTool] = {}
    problems: list[ToolProblem] = []
    for wanted in section.available_custom_tools:
        shown = wanted if isinstance(wanted, str) else f"{wanted.group} ({wanted.path or wanted.module})"
        try:
            for name, function in _load_functions(wanted, config.base_folder("")):
                try:
                    tool = _build_tool(name, function, wanted)
                except ConfigError as error:
                    problems.append(ToolProblem(name, str(error)))
                    continue
                if name in found and found[name].function is not tool.function:
                    problems.append(
                        ToolProblem(name, "is declared twice; the first declaration is used. Rename one of them.")
                    )
                    continue
                found[name] = tool
        except ConfigError as error:
            problems.append(ToolProblem(shown, str(error)))
    return CustomTools(tuple(found.values()), context, problems)


def _load_functions(wanted: str | CustomToolSource, folder: str) -> Iterator[tuple[str, Function]]:
    if isinstance(wanted, CustomToolSource):
        yield from loader.load_source_functions(wanted, folder)
    elif ":" in wanted:
        yield loader.load_named_function(wanted, folder)
    else:
        yield from loader.load_builtin_tools(wanted)


def _build_tool(name: str, function: Function, wanted: str | CustomToolSource) -> CustomTool:
    source = wanted if isinstance(wanted, CustomToolSource) else None
    annotations = _READ_ONLY if source and source.read_only else getattr(function, "__tool_annotations__", {})
    seconds = (source.timeout if source else None) or CALL_SECONDS
    return CustomTool(name, function, inspect_function(function, name, annotations), seconds)
