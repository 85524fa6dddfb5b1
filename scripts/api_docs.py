"""Writes docs/api.md from the docstrings of what `toolyard` exports: `make api-docs`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import griffe

PROJECT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PAGE = os.path.join(PROJECT, "docs", "api.md")
INTRODUCTION = """\
# Python API

Everything on this page is imported from `toolyard`. Names are loaded when they are first used, so `import toolyard`
takes a few milliseconds. This page is generated from the docstrings by `make api-docs`.

**Stability.** The names on this page, their parameters and their meaning follow semantic versioning: they change
incompatibly only with a new major version, after at least one minor version that warns (while the version is 0.x: a
new minor version). New optional parameters, fields, messages and errors can come at any time. Everything that cannot
be imported from `toolyard` itself is internal and changes without notice, except what the pages of these docs use.
"""
GROUPS: dict[str, tuple[str, ...]] = {
    "Workspaces": ("Workspace", "ToolInfo", "Result"),
    "Agent CLIs": ("drive", "Host"),
    "Teams": ("run_team", "TeamRun", "RunOptions"),
    "Configuration": ("load_config", "convert_config", "MCPFilesystemConverter"),
    "Files of an MCP client": ("BridgeHost", "FilesystemBridge", "PathValidator", "SecurityPolicy", "FileCache"),
}
TABLES: dict[str, tuple[str, ...]] = {
    "Messages of a driven CLI": (
        "Message",
        "SessionStarted",
        "TextDelta",
        "ToolCall",
        "ToolResult",
        "ResultStatus",
        "ImageData",
        "Usage",
        "Tokens",
        "Fault",
        "Finished",
        "Status",
    ),
    "Policy": ("PermissionMode", "Policy", "Action", "Decision", "Effect"),
    "Errors": (
        "ToolyardError",
        "SecurityError",
        "ValidationError",
        "UnknownToolError",
        "ToolError",
        "ProviderError",
        "SystemFault",
        "ConfigError",
        "FieldError",
    ),
    "Others": ("Config", "TeamEvent", "RunFinished", "PathInfo", "FilesystemToolDetector", "__version__"),
}


def page() -> str:
    """Returns the text of docs/api.md. Raises SystemExit if an exported name is on no list or on two."""
    module = griffe.load("toolyard", search_paths=[os.path.join(PROJECT, "src")], docstring_parser="google")
    listed = [name for names in (*GROUPS.values(), *TABLES.values()) for name in names]
    exported = [str(name) for name in module.exports or ()]
    if sorted(listed) != sorted(exported):
        raise SystemExit(f"scripts/api_docs.py does not list what is exported: {set(listed) ^ set(exported)}")
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_section(name, _target(module[name])) for name in names]
    for title, names in TABLES.items():
        parts.append(f"## {title}\n\n| name | what it is |\n| --- | --- |")
        parts[-1] += "".join(f"\n| `{name}` | {_table_text(_target(module[name]))} |" for name in names) + "\n"
    return "\n".join(parts)


def _target(item: griffe.Object | griffe.Alias) -> griffe.Object:
    while isinstance(item, griffe.Alias):
        item = item.final_target
    return item


def _section(name: str, item: griffe.Object) -> str:
    lines = [f"### {name}\n", f"```python\n{_signature(name, item)}\n```\n", *_docstring(item)]
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
                yield f"{section.value.description}\n"
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


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        with open(PAGE, encoding="utf-8") as file:
            sys.exit(0 if file.read() == text else "docs/api.md is out of date: run `make api-docs`")
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(text)
