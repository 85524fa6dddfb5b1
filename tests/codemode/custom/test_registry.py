"""Typed Python functions as tools: found, described, called."""

from __future__ import annotations

import asyncio
import textwrap
import threading

import pytest

from toolyard.codemode.custom import ToolContext, load_custom_tools
from toolyard.codemode.custom.executor import ToolThreads, run_function
from toolyard.codemode.custom.signature import inspect_function, split_docstring
from toolyard.config.loader import load_config
from toolyard.config.settings import Settings
from toolyard.core.errors import ConfigError, SecurityError, ToolError, ValidationError
from toolyard.core.upstream import UpstreamResult

SETTINGS = Settings.from_environment({"HOME": "/h"})

MODULE = '''
from __future__ import annotations
import time
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Literal
from pydantic import Field
from toolyard.codemode.custom import ToolContext
from toolyard.core.errors import SecurityError

class Colour(Enum):
    RED = "red"

@dataclass
class Point:
    x: int
    y: int = 0

def paint(
    colour: Colour, where: list[Point], size: Annotated[int, Field(ge=1)] = 3, mode: Literal["a", "b"] = "a"
) -> Point:
    """Paint something.

    It may take a while.

    Args:
        colour: The colour
            to use.
        size (int): How big.

    Returns:
        A point.
    """
    assert isinstance(colour, Colour) and isinstance(where[0], Point)
    return Point(size, len(where))

async def count(words: list[str], context: ToolContext) -> int:
    context.progress(1, 2, "half")
    return len(words)

def plain(schema: str, json: dict[str, int] | None = None) -> str:
    return schema + str(json)

def nothing() -> None: ...

def fails(kind: str) -> str:
    if kind == "exit": raise SystemExit("bye")
    if kind == "stop": raise StopIteration("over")
    if kind == "ours": raise SecurityError("no", hint="ask")
    if kind == "timeout": raise TimeoutError("its own")
    raise KeyError("boom")

async def fails_too(kind: str) -> str:
    return fails(kind)

def odd() -> object:
    return {1, object()}

def _private(x: int) -> int: return x
'''


@pytest.fixture
def load(tmp_path):
    (tmp_path / "my_tools.py").write_text(MODULE)

    def _load(tools: str, more: str = ""):
        path = tmp_path / "toolyard.yaml"
        path.write_text(f"toolyard:\n  available_custom_tools: {tools}\n{textwrap.indent(more, '  ')}\n")
        return load_custom_tools(load_config(str(path), env={}), SETTINGS)

    return _load


ALL = "[{group: mine, path: ./my_tools.py}]"


def test_every_public_function_of_a_file_is_a_tool_of_its_group(load):
    tools = load(ALL)
    names = ["paint", "count", "plain", "nothing", "fails", "fails_too", "odd"]
    assert [tool.name for tool in tools] == [f"mine.{name}" for name in names]
    assert (tools.problems, list(tools.groups), len(tools.groups["mine"])) == ((), ["mine"], 7)


def test_the_schema_says_what_the_type_hints_and_the_docstring_say(load):
    schema = load(ALL).get("mine.paint").schema
    assert schema.description == "Paint something.\n\nIt may take a while.\n\nReturns:\n    A point."
    properties = schema.input_schema["properties"]
    assert list(properties) == ["colour", "where", "size", "mode"]
    assert schema.input_schema["required"] == ["colour", "where"]
    assert properties["size"]["minimum"] == 1
    assert (properties["size"]["default"], properties["size"]["description"]) == (3, "How big.")
    assert properties["colour"]["description"] == "The colour to use."
    assert properties["mode"]["enum"] == ["a", "b"]
    assert schema.output_schema["properties"]["x"]["type"] == "integer"
    assert schema.output_schema["type"] == "object"


def test_the_context_is_no_argument_and_names_of_pydantics_own_are(load):
    tools = load(ALL)
    assert list(tools.get("mine.count").schema.input_schema["properties"]) == ["words"]
    assert list(tools.get("mine.plain").schema.input_schema["properties"]) == ["schema", "json"]
    assert tools.get("mine.nothing").schema.input_schema["properties"] == {}


async def test_arguments_are_converted_and_results_handed_over(load):
    tools = load(ALL)
    told: list[tuple[object, ...]] = []

    painted = await tools.call("mine", "paint", {"colour": "red", "where": [{"x": 1}, {"x": 2}]})
    counted = await tools.call("mine", "count", {"words": ["a", "b"]}, progress=lambda *said: told.append(said))

    assert painted == UpstreamResult(({"type": "text", "text": '{"x":3,"y":2}'},), {"x": 3, "y": 2})
    assert (counted.text, counted.structured, told) == ("2", {"result": 2}, [(1, 2, "half")])
    assert (await tools.call("mine", "plain", {"schema": "s"})).structured is None
    assert (await tools.call("mine", "nothing", {})).text == "null"


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        ({"where": []}, "colour", "Missing"),
        ({"colour": "red", "where": [{"x": "no"}]}, "where.0.x", "integer"),
        ({"colour": "blue", "where": []}, "colour", "'red'"),
        ({"colour": "red", "where": [], "size": 0}, "size", "greater than"),
        ({"colour": "red", "where": [], "sise": 1}, "sise", "is not an argument"),
        ({"context": 1, "colour": "red", "where": []}, "context", "is not an argument"),
    ],
)
async def test_wrong_arguments_are_named_and_nothing_runs(load, arguments, field, said):
    with pytest.raises(ValidationError) as caught:
        await load(ALL).call("mine", "paint", arguments)
    assert (caught.value.fields[0].field, said in caught.value.fields[0].error) == (field, True)


async def test_a_misspelt_argument_is_answered_with_a_guess(load):
    with pytest.raises(ValidationError, match='Did you mean "size"'):
        await load(ALL).call("mine", "paint", {"colour": "red", "where": [], "sise": 1})


@pytest.mark.parametrize("tool", ["fails", "fails_too"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("x", "failed: KeyError: 'boom'"),
        ("exit", "SystemExit"),
        ("stop", "StopIteration"),
        ("timeout", "failed: TimeoutError: its own"),
    ],
)
async def test_what_a_function_raises_is_a_typed_error_without_a_traceback(load, tool, kind, said):
    with pytest.raises(ToolError) as caught:
        await load(ALL).call("mine", tool, {"kind": kind})
    assert said in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "Traceback" not in str(caught.value)


async def test_an_error_of_ours_keeps_its_kind(load):
    with pytest.raises(SecurityError, match=r"no\. ask"):
        await load(ALL).call("mine", "fails", {"kind": "ours"})


async def test_a_result_that_json_cannot_hold_is_a_clear_error(load):
    with pytest.raises(ToolError, match=r"mine\.odd returned a value that cannot be converted to JSON"):
        await load(ALL).call("mine", "odd", {})


async def test_a_tool_nobody_knows_is_answered_with_a_guess(load):
    with pytest.raises(ValidationError, match=r'Did you mean "mine\.paint"'):
        await load(ALL).call("mine", "piant", {})


async def test_a_function_that_does_not_end_is_given_up_and_keeps_its_place():
    end = threading.Event()
    threads = ToolThreads(max_threads=2)

    def hang() -> None:
        end.wait(30)

    try:
        for _ in range(2):
            with pytest.raises(ToolError, match=r"x did not finish within 0\.05 seconds"):
                await run_function(hang, {}, name="x", seconds=0.05, threads=threads)
        with pytest.raises(ToolError, match="2 custom tools are already running"):
            await run_function(hang, {}, name="x", seconds=0.05, threads=threads)
    finally:
        end.set()
    ended = [thread for thread in threading.enumerate() if thread.name == "custom-hang"]
    for thread in ended:
        await asyncio.to_thread(thread.join, 10)
    assert await run_function(lambda: 5, {}, name="x", seconds=5, threads=threads) == 5


async def test_an_async_function_has_a_deadline_too_and_cancelling_reaches_it():
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ToolError, match="did not finish"):
        await run_function(hang, {}, name="x", seconds=0.05, threads=ToolThreads())
    assert ended.is_set()
    ended.clear()
    task = asyncio.create_task(run_function(hang, {}, name="x", seconds=60, threads=ToolThreads()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_shorter_of_two_deadlines_counts(load, tmp_path):
    (tmp_path / "slow.py").write_text("import asyncio\nasync def slow() -> None:\n    await asyncio.sleep(30)\n")
    tools = load("[{group: s, path: slow.py, timeout: 0.05}]")
    with pytest.raises(ToolError, match=r"within 0\.05"):
        await tools.call("s", "slow", {}, timeout=20)
    with pytest.raises(ToolError, match=r"within 0\.01"):
        await tools.call("s", "slow", {}, timeout=0.01)


def test_functions_can_be_named_by_module_by_file_and_chosen(load, tmp_path):
    tools = load(
        "[textwrap:indent, 'my_tools.py:plain', {group: m, path: my_tools.py, tools: [count], read_only: true}]"
    )
    assert [tool.name for tool in tools] == ["my_tools.plain", "m.count"]
    assert tools.get("m.count").schema.annotations == {"readOnlyHint": True}
    assert tools.problems[0].name == "textwrap.indent"  # it has no types
    assert "has no type" in tools.problems[0].text


def test_our_tools_go_by_their_plain_names_and_globs(load):
    tools = load("[web.*, multimodal.vision_understanding, multimodal.video_analysis]")
    assert [tool.name for tool in tools] == [
        "web.playwright_navigate",
        "web.screenshot",
        "multimodal.vision_understanding",
    ]
    assert "there is no built-in tool 'multimodal.video_analysis'" in tools.problems[0].text
    navigate = tools.get("web.playwright_navigate").schema
    assert list(navigate.input_schema["properties"]) == ["url", "screenshot", "wait_for"]
    assert {"final_url", "title", "screenshot_path"} <= set(navigate.output_schema["properties"])
    assert navigate.input_schema["required"] == ["url"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("[no.such.module:f]", "cannot be imported: ModuleNotFoundError"),
        ("[{group: g, path: gone.py}]", "there is no Python file"),
        ("[{group: g, path: broken.py}]", "cannot be loaded: ZeroDivisionError"),
        ("[{group: g, path: empty.py}]", "has no public functions"),
        ("['my_tools.py:piant']", 'Did you mean "paint"'),
        ("[{group: g, path: untyped.py}]", "the parameter x of g.f has no type"),
        ("[{group: g, path: starred.py}]", "takes *args, which a tool cannot"),
        ("[{group: g, path: strange.py}]", "has a type that cannot be described"),
        ("[{group: g, path: unknown.py}]", "type hints of g.f cannot be read"),
        ("[web.screenshit]", 'Did you mean "web.screenshot"'),
    ],
)
def test_what_cannot_be_loaded_is_told_and_costs_nobody_else(load, tmp_path, source, said):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "empty.py").write_text("from os.path import join\n")
    (tmp_path / "untyped.py").write_text("def f(x): ...\n")
    (tmp_path / "starred.py").write_text("def f(*args: int): ...\n")
    (tmp_path / "strange.py").write_text("import threading\ndef f(x: threading.Lock().__class__): ...\n")
    (tmp_path / "unknown.py").write_text("def f(x: 'Nowhere'): ...\n")
    tools = load(source[:-1] + ", {group: mine, path: my_tools.py, tools: [plain]}]")
    assert [tool.name for tool in tools] == ["mine.plain"]
    assert len(tools.problems) == 1
    assert said in tools.problems[0].text


def test_two_tools_of_one_name_are_told(load, tmp_path):
    (tmp_path / "other.py").write_text("def plain(schema: str) -> str:\n    return schema\n")
    tools = load("[{group: m, path: my_tools.py, tools: [plain]}, {group: m, path: other.py}]")
    assert len(tools) == 1
    assert "declared twice" in tools.problems[0].text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[{group: a}]", "either `path`"),
        ("[{group: a, path: x.py, modul: y}]", 'Did you mean "module"'),
        ("[{group: 'no-name', path: x.py}]", "letters"),
    ],
)
def test_a_wrong_entry_is_an_error_of_the_configuration(load, text, said):
    with pytest.raises(ConfigError, match=said):
        load(text)


def test_docstrings_of_other_styles_are_kept_whole():
    assert split_docstring("Do it.\n\n:param x: the x") == ("Do it.\n\n:param x: the x", {})
    assert split_docstring("") == ("", {})
    assert split_docstring("A.\n\nArgs:\n  x: one\n  y (int): two\nMore.") == (
        "A.\n\nMore.",
        {"x": "one", "y": "two"},
    )


def test_a_function_with_a_context_alone_is_a_tool():
    def bare(context: ToolContext) -> str:
        return context.settings.home

    bare.__annotations__ = {"context": ToolContext, "return": str}
    assert inspect_function(bare, "a.bare").parameters == ()
