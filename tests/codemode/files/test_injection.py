"""Nothing in a schema is ever executed: payloads in every place where text can stand.

Each file is looked at node by node, then run under a tracer that knows every call it may make.
"""

import ast
import builtins
import sys

import pytest

from toolyard.codemode.files import compile_index, compile_server
from toolyard.core.upstream import ServerListing, ToolSchema

PWN = "__import__('builtins').PWNED.append(1)"
PAYLOADS = {
    "closes a docstring": f'"""\n{PWN}\n"""',
    "closes a docstring after a backslash": f'\\"""\n{PWN}\n"""',
    "ends in a backslash": f"x\\\n{PWN}\\",
    "ends in a quote": f'{PWN}"',
    "ends in three quotes": '"""',
    "closes a single quote": f"' + {PWN} + '",
    "closes a double quote": f'" + {PWN} + "',
    "closes a call": f'"); {PWN} #',
    "closes a bracket": f"x]; {PWN}; y: Literal[1",
    "new line": f"x\n{PWN}\n",
    "carriage return": f"x\r{PWN}\r",
    "form feed": f"x\x0c\n{PWN}",
    "line separator": f"x\u2028{PWN}\u2029",
    "next line": f"x\x85{PWN}",
    "vertical tab": f"x\x0b{PWN}",
    "nul": f"x\x00{PWN}",
    "a bare expression": PWN,
    "a format": "{" + PWN + "}",
    "a lambda": f"(lambda: {PWN})()",
    "a coding line": "# -*- coding: utf-7 -*-\n+AAo-" + PWN,
    "a type comment": "type: ignore # pyright: basic",
    "a direction mark": f"\u202e{PWN}\u2066\u200f",
    "a lone surrogate": f"\ud800{PWN}\udfff",
    "a name escape": "\\N{LINE FEED}" + PWN,
    "an octal escape": f"\\12{PWN}",
    "a dunder": "__builtins__",
    "a walrus": f"(PWNED := {PWN})",
    "an annotation": f"Any, x: {PWN}",
    "an import": "os; import os",
    "a decorator": f"\n@{PWN}\n",
    "markdown": f"](javascript:{PWN}) <script>`{PWN}`</script>\n# heading",
}


def text_property(**more):
    return {"type": "object", "properties": {"value": {"type": "string", **more}}}


PLACES = {
    "name": ToolSchema,
    "title": lambda text: ToolSchema("t", title=text),
    "description": lambda text: ToolSchema("t", text),
    "property name": lambda text: ToolSchema("t", "", {"type": "object", "properties": {text: {"type": "string"}}}),
    "property description": lambda text: ToolSchema("t", "", text_property(description=text)),
    "property title": lambda text: ToolSchema("t", "", text_property(title=text)),
    "enum": lambda text: ToolSchema("t", "", text_property(enum=[text, "other"])),
    "default": lambda text: ToolSchema("t", "", text_property(default=text)),
    "default in a list": lambda text: ToolSchema("t", "", text_property(type="array", default=[text, {text: text}])),
    "const": lambda text: ToolSchema("t", "", text_property(const=text)),
    "ref": lambda text: ToolSchema("t", "", {"properties": {"value": {"$ref": f"#/$defs/{text}"}}}),
    "defs key": lambda text: ToolSchema(
        "t",
        "",
        {
            "properties": {
                "value": {"$ref": "#/$defs/" + text.replace("~", "~0").replace("/", "~1").replace("%", "%25")}
            },
            "$defs": {text: {"type": "object", "properties": {"x": {"type": "string"}}}},
        },
    ),
    "pattern": lambda text: ToolSchema("t", "", text_property(pattern=text)),
    "format": lambda text: ToolSchema("t", "", text_property(format=text)),
    "type": lambda text: ToolSchema("t", "", text_property(type=text)),
    "required": lambda text: ToolSchema("t", "", {"type": "object", "properties": {}, "required": [text]}),
    "nested name": lambda text: ToolSchema(
        "t",
        "",
        {"properties": {"box": {"type": "object", "properties": {text: {"enum": [text]}}, "required": [text]}}},
    ),
    "nested description": lambda text: ToolSchema(
        "t",
        "",
        {"properties": {"box": {"type": "object", "properties": {"x": {"description": text, "pattern": text}}}}},
    ),
    "variant": lambda text: ToolSchema(
        "t",
        "",
        {
            "properties": {
                "box": {
                    "oneOf": [
                        {"type": "object", "title": text, "properties": {"a": {"type": "string"}}},
                        {"type": "object", "properties": {"kind": {"const": text}, "a-b": {"const": text}}},
                    ]
                }
            }
        },
    ),
    "recursive alias": lambda text: ToolSchema(
        "t",
        "",
        {
            "properties": {"value": {"$ref": "#/$defs/Json"}},
            "$defs": {"Json": {"anyOf": [{"enum": [text]}, {"type": "array", "items": {"$ref": "#/$defs/Json"}}]}},
        },
    ),
    "pattern properties": lambda text: ToolSchema("t", "", {"patternProperties": {text: {"type": "string"}}}),
    "alternatives": lambda text: ToolSchema("t", "", {"oneOf": [{"required": [text]}, {"required": ["b"]}]}),
    "output": lambda text: ToolSchema(
        "t",
        "",
        {},
        {"type": "object", "properties": {text: {"description": text, "enum": [text]}}, "required": [text]},
    ),
    "annotations": lambda text: ToolSchema("t", annotations={"title": text, "readOnlyHint": text}),
}

ALLOWED_CALLS = {
    ("toolyard_runtime.tool", name) for name in ("tool", "custom_tool", "tool.<locals>.decorate", "Tool.__init__")
}


@pytest.fixture(autouse=True)
def pwned(monkeypatch):
    kept = []
    monkeypatch.setattr(builtins, "PWNED", kept, raising=False)
    yield kept
    assert kept == []


def run_watched(text, files):
    """Run a file; every function that it calls by itself is one of ours, or the making of a class."""
    called = []

    def watch(frame, event, argument):
        if event == "call" and frame.f_back is not None and frame.f_back.f_code.co_filename == "<watched>":
            called.append((frame.f_globals.get("__name__"), frame.f_code.co_qualname))
        elif event == "c_call" and frame.f_code.co_filename == "<watched>":
            called.append(("C", argument.__name__))

    files.run_file(text, "servers_warm")  # what importing imports is not what the file does
    sys.setprofile(watch)
    try:
        files.run_file(text, "watched")
    finally:
        sys.setprofile(None)
    bodies = {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    for module, name in called:
        assert (
            (module, name) in ALLOWED_CALLS
            or (module, name) == ("C", "__build_class__")
            or module in {"typing", "importlib._bootstrap"}
            or (module == "watched" and name in bodies)  # of classes, which were looked at node by node
        ), (module, name)


def check_all(compiled, files):
    for tool in compiled.tools:
        text = compiled.files[f"{tool.module}.py"]
        function = files.check_file(text)
        assert function.name == tool.function
        run_watched(text, files)
        assert tool.signature.isprintable() and tool.summary.isprintable()
    for name in ("__init__.py", "__version__.py", "index.json", "INDEX.md"):
        text = compiled.files[name]
        assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert compiled.files["INDEX.md"].count("\n") == 2 + len(compiled.tools)
    files.run_file(compiled.files["__version__.py"], "watched_version")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_is_only_text(files, place, payload):
    check_all(compile_server(ServerListing("server", (PLACES[place](payload),))), files)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_as_the_name_of_a_server_or_its_version(files, payload):
    compiled = compile_server(ServerListing(payload, (ToolSchema("t"), ToolSchema(payload)), version=payload))
    check_all(compiled, files)
    assert compiled.folder.isidentifier()
    index = compile_index([compiled])
    assert index["INDEX.md"].count("\n") == 5
    version = files.run_file(compiled.files["__version__.py"], "watched_version")
    assert version.__mcp_server__ == payload


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_in_a_shape_that_was_learnt(files, payload):
    learnt = {"type": "object", "properties": {payload: {"enum": [payload], "description": payload}}}
    compiled = compile_server(ServerListing("server", (ToolSchema("t"),)), {"t": learnt})
    check_all(compiled, files)


async def test_names_with_payloads_reach_the_server_as_they_are(files, sent):
    import json

    for payload in PAYLOADS.values():
        schema = {"type": "object", "properties": {payload: {"type": "string"}}, "required": [payload]}
        text, tool = files.compile_tool(schema, name=payload, server=payload)
        await getattr(files.run_file(text), tool.function)("given")
        assert json.loads(sent.wire[-1]) == [payload, payload, {payload: "given"}]


@pytest.mark.parametrize(
    "line",
    [
        "print(1)",
        "x = Any()",
        "import os",
        "from typing import cast",
        "class A(TypedDict):\n    x: print(1)",
        "class A(TypedDict, metaclass=print): ...",
        "@print\nclass A(TypedDict): ...",
        'A = TypedDict("A", {"x": "print(1)"})',
        'A: TypeAlias = "print(1)"',
        "@tool(print(1))\nasync def other() -> Result:\n    ...",
        "async def other(*, x: str = print(1)) -> Result:\n    ...",
    ],
)
def test_the_look_at_a_file_sees_what_does_not_belong(files, line):
    text, _ = files.compile_tool()
    head, rest = text.split("\n\n", 1)
    with pytest.raises((AssertionError, AttributeError, KeyError, ValueError)):
        files.check_file(f"{head}\n{line}\n{rest}")


@pytest.mark.parametrize("line", ["len('x')", "sorted([2, 1])", "(lambda: 1)()", "__import__('json').dumps(1)"])
def test_the_watch_sees_a_call(files, line):
    text, _ = files.compile_tool()
    with pytest.raises(AssertionError):
        run_watched(f"{text}\n{line}\n", files)
