"""Writes docs/api*.md from the docstrings of what `toolyard` exports: `make api-docs`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import griffe

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
DOCS = os.path.join(PROJECT, "docs")
NOTE = "This page is generated from the docstrings by `make api-docs`.\n"
API = f"""\
# Python API

Everything on these pages is imported from `toolyard`. Names are loaded when they are first used, so `import toolyard`
takes a few milliseconds. More pages: [agents](api-agents.md), [files of an MCP client](api-bridge.md). {NOTE}
**Stability.** The exported names, their parameters and their meaning follow semantic versioning: they change
incompatibly only with a new major version, after at least one minor version that warns (while the version is 0.x: a
new minor version). New optional parameters, fields, messages and errors can come at any time. Everything that cannot
be imported from `toolyard` itself is internal and changes without notice, except what the pages of these docs use.
"""
AGENTS = f"# Python API: agents\n\nSee [Python API](api.md) for the stability of these names. {NOTE}"
BRIDGE = f"# Python API: files of an MCP client\n\nSee [Python API](api.md) for their stability. {NOTE}"


@dataclass(frozen=True, slots=True)
class Page:
    """One page: a section for each name of `sections`, a row for each name of a table."""

    introduction: str
    sections: dict[str, tuple[str, ...]]
    tables: dict[str, tuple[str, ...]]

    @property
    def names(self) -> list[str]:
        """The exported names that the page describes."""
        return [name for names in (*self.sections.values(), *self.tables.values()) for name in names]


RUN_EXAMPLES = ("Workspace", "convert_config")
"""Their examples are whole programs, which the tests of the docs run. Others need a CLI, a model or a server."""
MESSAGES = ("Message", "SessionStarted", "TextDelta", "ToolCall", "ToolResult", "ResultStatus", "ImageData")
ERRORS = ("ToolyardError", "SecurityError", "ValidationError", "UnknownToolError", "ToolError", "ProviderError")
PAGES = {
    "api.md": Page(
        API,
        {
            "Workspaces": ("Workspace", "ToolInfo", "Result"),
            "Configuration": ("load_config", "convert_config"),
        },
        {
            "Policy": ("PermissionMode", "Policy", "Action", "Decision", "Effect"),
            "Errors": (*ERRORS, "SystemFault", "ConfigError", "FieldError"),
            "Others": ("Config", "MCPFilesystemConverter", "FilesystemToolDetector", "__version__"),
        },
    ),
    "api-agents.md": Page(
        AGENTS,
        {"Agent CLIs": ("drive", "Host"), "Teams": ("run_team", "TeamRun", "RunOptions")},
        {
            "Messages of a driven CLI": (*MESSAGES, "Usage", "Tokens", "Fault", "Finished", "Status"),
            "Events of a run": ("TeamEvent", "RunFinished"),
        },
    ),
    "api-bridge.md": Page(
        BRIDGE,
        {"Bridge": ("BridgeHost", "FilesystemBridge", "PathValidator", "SecurityPolicy", "FileCache")},
        {"Others": ("PathInfo",)},
    ),
}


def pages() -> dict[str, str]:
    """Returns the texts of the pages. Raises SystemExit if an exported name is on no page or on two."""
    module = griffe.load("toolyard", search_paths=[os.path.join(PROJECT, "src")], docstring_parser="google")
    listed = [name for page in PAGES.values() for name in page.names]
    exported = [str(name) for name in module.exports or ()]
    if sorted(listed) != sorted(exported):
        raise SystemExit(f"scripts/api_docs.py does not list what is exported: {set(listed) ^ set(exported)}")
    return {name: _text(page, module) for name, page in PAGES.items()}


def _text(page: Page, module: griffe.Object) -> str:
    parts = [page.introduction]
    for title, names in page.sections.items():
        parts.append(f"## {title}\n")
        parts += [_section(name, _target(module[name])) for name in names]
    for title, names in page.tables.items():
        rows = "".join(f"\n| `{name}` | {_table_text(_target(module[name]))} |" for name in names)
        parts.append(f"## {title}\n\n| name | what it is |\n| --- | --- |{rows}\n")
    return "\n".join(parts)


def _target(item: griffe.Object | griffe.Alias) -> griffe.Object:
    while isinstance(item, griffe.Alias):
        item = item.final_target
    return item


def _section(name: str, item: griffe.Object) -> str:
    lines = [f"### {name}\n", f"```text\n{_signature(name, item)}\n```\n", *_docstring(item)]
    if isinstance(item, griffe.Class):
        members = [_target(each) for each in item.members.values() if not each.name.startswith("_")]
        methods = [each for each in members if isinstance(each, griffe.Function) and each.docstring]
        attributes = [each for each in members if isinstance(each, griffe.Attribute) and each.docstring]
        lines += [f"- `{each.name}`: {_first_sentence(each)}" for each in attributes]
        lines += ["", *(f"- `{_signature(each.name, each)}`: {_first_sentence(each)}" for each in methods)]
    return "\n".join(lines).rstrip() + "\n"


def _docstring(item: griffe.Object) -> Iterator[str]:
    """Yields the docstring as Markdown: text, arguments, results, errors, examples."""
    if item.docstring is None:
        return
    for section in item.docstring.parsed:
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield f"{section.value}\n"
            case griffe.DocstringSectionKind.parameters | griffe.DocstringSectionKind.raises:
                is_raised = section.kind is griffe.DocstringSectionKind.raises
                yield "Raises:\n" if is_raised else "Arguments:\n"
                for each in section.value:
                    word = each.annotation if is_raised else each.name
                    yield f"- `{word}`: {_joined(each.description)}"
                yield ""
            case griffe.DocstringSectionKind.returns:
                yield "Returns: " + " ".join(_joined(each.description) for each in section.value) + "\n"
            case griffe.DocstringSectionKind.admonition:
                is_program = item.name in RUN_EXAMPLES
                yield section.value.description.replace("```python", "```python" if is_program else "```text") + "\n"
            case griffe.DocstringSectionKind.examples:
                yield "\n".join(text for _, text in section.value) + "\n"
            case _:
                raise SystemExit(f"{item.path}: a section {section.kind} is not written to the page")


def _signature(name: str, item: griffe.Object) -> str:
    if isinstance(item, griffe.Class):
        maker = item.all_members.get("__init__")
        return f"{name}({_parameters(_target(maker))})" if maker is not None else f"class {name}"
    if isinstance(item, griffe.Function):
        prefix = "async " if "async" in item.labels else ""
        return f"{prefix}{name}({_parameters(item)})"
    return name


def _parameters(function: griffe.Object) -> str:
    if not isinstance(function, griffe.Function):
        return ""
    shown: list[str] = []
    is_keyword = False
    for each in function.parameters:
        if each.name in ("self", "cls"):
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not is_keyword:
            is_keyword = True
            shown.append("*")
        prefix = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(each.kind, "")
        is_keyword = is_keyword or each.kind is griffe.ParameterKind.var_positional
        optional = f"={each.default}" if each.default is not None and not prefix else ""
        shown.append(f"{prefix}{each.name}{optional}")
    return ", ".join(shown)


def _first_sentence(item: griffe.Object) -> str:
    return "" if item.docstring is None else _joined(item.docstring.value.split("\n\n")[0])


def _table_text(item: griffe.Object) -> str:
    text = _first_sentence(item)
    if isinstance(item, griffe.Class):
        fields = [each.name for each in item.members.values() if isinstance(each, griffe.Attribute)]
        names = [f"`{name}`" for name in fields if not name.startswith("_") and name not in ("type", "code", "kind")]
        text += f" ({', '.join(names)})" if names else ""
    return text.replace("|", "\\|")


def _joined(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Writes the pages; with --check, exits with 1 if one is out of date."""
    for name, text in pages().items():
        path = os.path.join(DOCS, name)
        if "--check" not in sys.argv:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(path, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit(f"docs/{name} is out of date: run `make api-docs`")


if __name__ == "__main__":
    main()
