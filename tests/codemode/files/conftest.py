"""What the tests of tool files share: compile one tool, import from a tree of them, look at what a file may be."""

import ast
import importlib
import io
import json
import random
import sys
import tokenize

import pytest

from toolyard.codemode.files import compile_index, compile_server
from toolyard.core.upstream import ServerListing, ToolSchema

TYPING = {"Any", "Literal", "Never", "NotRequired", "TypeAlias", "TypedDict"}
PLAIN_TYPES = {"str", "int", "float", "bool", "list", "dict", "tuple", "Result"}


def compile_tool(input_schema=None, *, name="probe", server="server", inferred=None, **more):
    """The text of one tool's file and what search knows of it."""
    tool = ToolSchema(name, input_schema=input_schema if input_schema is not None else {"type": "object"}, **more)
    compiled = compile_server(ServerListing(server, (tool,)), {name: inferred} if inferred else {})
    return compiled.files[f"{compiled.tools[0].module}.py"], compiled.tools[0]


def write_tree(folder, listings):
    compiled = [compile_server(listing) for listing in listings]
    for one in compiled:
        target = folder / "servers" / one.folder
        target.mkdir(parents=True)
        for name, text in one.files.items():
            (target / name).write_text(text, encoding="utf-8")
    for name, text in compile_index(compiled).items():
        (folder / "servers" / name).write_text(text, encoding="utf-8")
    return compiled


class FileCheck(ast.NodeVisitor):
    """Only what a tool file is made of: imports of ours, types, one decorated function without a body."""

    def __init__(self, text):
        self.tree = ast.parse(text)
        self.names = TYPING | PLAIN_TYPES

    def check(self):
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.names.add(node.name)
            elif isinstance(node, ast.Assign):
                self.names.add(node.targets[0].id)
            elif isinstance(node, ast.AnnAssign):
                self.names.add(node.target.id)
        for node in self.tree.body:
            getattr(self, f"on_{type(node).__name__.lower()}")(node)
        functions = [node for node in self.tree.body if isinstance(node, ast.AsyncFunctionDef)]
        assert len(functions) == 1
        return functions[0]

    def on_importfrom(self, node):
        allowed = {
            "__future__": {"annotations"},
            "typing": TYPING,
            "toolyard_runtime.tool": {"tool", "custom_tool", "Result"},
        }
        assert node.level == 0
        assert {alias.name for alias in node.names} <= allowed[node.module]
        assert not any(alias.asname for alias in node.names)

    def on_classdef(self, node):
        assert [base.id for base in node.bases] == ["TypedDict"]
        assert [(word.arg, word.value.value) for word in node.keywords] in ([], [("total", False)])
        assert not node.decorator_list
        for line in node.body:
            assert isinstance(line, ast.AnnAssign)
            assert line.value is None
            assert isinstance(line.target, ast.Name)
            self.annotation(line.annotation)

    def on_assign(self, node):
        if isinstance(node.value, ast.Subscript):
            self.annotation(node.value)
            return
        assert node.value.func.id == "TypedDict"
        assert node.value.args[0].value == node.targets[0].id
        assert [word.arg for word in node.value.keywords] in ([], ["total"])
        fields = node.value.args[1]
        for key, value in zip(fields.keys, fields.values, strict=True):
            assert isinstance(key.value, str)
            self.annotation(ast.parse(value.value, mode="eval").body)

    def on_annassign(self, node):
        assert node.annotation.id == "TypeAlias"
        self.annotation(ast.parse(node.value.value, mode="eval").body)

    def on_asyncfunctiondef(self, node):
        (decorator,) = node.decorator_list
        assert decorator.func.id in {"tool", "custom_tool"}
        assert not decorator.keywords
        for given in decorator.args:
            parts = [*given.keys, *given.values] if isinstance(given, ast.Dict) else [given]
            assert all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
        arguments = node.args
        assert not arguments.posonlyargs and not arguments.vararg and not arguments.defaults
        every = [*arguments.args, *arguments.kwonlyargs, *([arguments.kwarg] if arguments.kwarg else [])]
        for argument in every:
            self.annotation(argument.annotation)
        for default in arguments.kw_defaults:
            if isinstance(default, (ast.List, ast.Dict)):
                assert ast.unparse(default) in {"[]", "{}"}
            else:
                self.constant(default)
        self.annotation(node.returns)
        *doc, last = node.body
        assert last.value.value is ...
        assert len(doc) <= 1
        assert all(isinstance(line.value.value, str) for line in doc)

    def constant(self, node):
        if isinstance(node, ast.UnaryOp):
            assert isinstance(node.op, ast.USub)
            node = node.operand
        assert isinstance(node, ast.Constant)

    def annotation(self, node):
        if isinstance(node, ast.Name):
            assert node.id in self.names
        elif isinstance(node, ast.BinOp):
            assert isinstance(node.op, ast.BitOr)
            self.annotation(node.left)
            self.annotation(node.right)
        elif isinstance(node, ast.Subscript):
            self.annotation(node.value)
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for one in inner:
                (self.constant if node.value.id == "Literal" else self.annotation)(one)
        else:
            assert isinstance(node, ast.Constant) and node.value is None, ast.dump(node)


def check_file(text):
    """The function of a tool file, after every node and every character of it was looked at."""
    assert text.split("\n")[0] == "from __future__ import annotations"
    assert text.split("\n")[1].startswith("from ")
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    text.encode("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        assert token.type != tokenize.ERRORTOKEN
    return FileCheck(text).check()


def run_file(text, name="probe_file"):
    """The names of a tool file, after it was run as a module of its own."""
    module = type(sys)(name)
    sys.modules[name] = module
    try:
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    finally:
        del sys.modules[name]
    return module


class Arguments:
    """Values that a schema takes, made up. The same seed gives the same."""

    def __init__(self, root, seed):
        self.root = root
        self.dice = random.Random(seed)

    def value(self, schema, depth=0):
        if not isinstance(schema, dict):
            return self.dice.choice([None, 1, "any", {"a": [True]}])
        if "$ref" in schema:
            found = self.root
            for part in schema["$ref"].split("/")[1:]:
                found = found[int(part)] if isinstance(found, list) else found[part]
            return self.value(found, depth + 1) if depth < 6 else None
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self.dice.choice(schema["enum"])
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key) and "properties" not in schema:
                return self.value(self.dice.choice(schema[key]), depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.dice.choice(kind)
        return self.of_kind(kind, schema, depth)

    def of_kind(self, kind, schema, depth):
        if kind == "object" or "properties" in schema:
            return self.object(schema, depth)
        if kind == "array":
            items = schema.get("items", True)
            if depth > 6 or isinstance(items, list):
                return []
            return [self.value(items, depth + 1) for _ in range(self.dice.randint(0, 2))]
        return {
            "string": self.dice.choice(["", "text", 'é"\\\n\u2028', "a/b"]),
            "integer": self.dice.choice([0, -7, 2**53 + 1]),
            "number": self.dice.choice([0.1, -3, 1e300]),
            "boolean": self.dice.choice([True, False]),
        }.get(kind)

    def object(self, schema, depth=0):
        made = {}
        needed = schema.get("required") if isinstance(schema.get("required"), list) else []
        for key, inner in schema.get("properties", {}).items():
            if key in needed or (depth < 5 and self.dice.random() < 0.5):
                made[key] = self.value(inner, depth + 1)
        for key in needed:
            made.setdefault(key, "required")
        return made


class Sent:
    """In the place of `calls`: keeps what was sent, as the JSON it is on the wire."""

    def __init__(self, answer):
        self.answer = answer
        self.wire = []

    def note(self, server, tool, arguments):
        self.wire.append(json.dumps([server, tool, arguments]))
        return self.answer


@pytest.fixture
def sent(monkeypatch):
    """Calls of tools end here."""
    from toolyard_runtime import calls
    from toolyard_runtime.results import Result

    kept = Sent(Result([{"type": "text", "text": "done"}], {"ok": True}))
    kept.options = []

    async def call(server, tool, arguments, **options):
        kept.options.append(options)
        return kept.note(server, tool, arguments)

    def call_sync(server, tool, arguments, **options):
        kept.options.append(options)
        return kept.note(server, tool, arguments)

    async def custom(name, **arguments):
        return kept.note("", name, arguments)

    monkeypatch.setattr(calls, "call_mcp_tool", call)
    monkeypatch.setattr(calls, "call_mcp_tool_sync", call_sync)
    monkeypatch.setattr(calls, "call_custom_tool", custom)
    monkeypatch.setattr(calls, "call_custom_tool_sync", lambda name, **arguments: kept.note("", name, arguments))
    return kept


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """Write listings as a tree of files and make it importable; what was imported is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(*listings):
        compiled = write_tree(tmp_path, listings)
        importlib.invalidate_caches()
        return compiled

    yield made
    for name in [name for name in sys.modules if name == "servers" or name.startswith("servers.")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def files():
    """The functions above, for test files."""

    class Files:
        compile_tool = staticmethod(compile_tool)
        write_tree = staticmethod(write_tree)
        check_file = staticmethod(check_file)
        run_file = staticmethod(run_file)
        arguments = Arguments

    return Files
