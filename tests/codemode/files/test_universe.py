"""Every captured schema of real servers compiles fast and small, passes a strict type checker, and can be called."""

import json
import os
import statistics
import subprocess
import sys
import time
import warnings

import pytest

from tests.support.universe import universe
from toolyard.codemode.files import compile_index, compile_server, folder_names

pytestmark = pytest.mark.slow  # thousands of real schemas

MOST_MILLISECONDS = 0.5
MOST_TOKENS = 500
TRIES = 5
SAMPLE = 9
"""Every ninth server is type-checked in each run, all of them in the slow one."""


@pytest.fixture(scope="module")
def compiled():
    folders = folder_names(one.server for one in universe())
    return [compile_server(one, folder=folders[one.server]) for one in universe()]


def test_the_universe_is_whole():
    assert (len(universe()), sum(len(one.tools) for one in universe())) == (207, 4463)


def test_every_file_is_a_tool_file(compiled, files):
    for one in compiled:
        for tool in one.tools:
            assert files.check_file(one.files[f"{tool.module}.py"]).name == tool.function


def test_every_tool_has_a_file_of_its_own(compiled):
    paths = [tool.path.casefold() for one in compiled for tool in one.tools]
    assert len(set(paths)) == len(paths) == 4463
    assert all(len(tool.module) <= 64 for one in compiled for tool in one.tools)


def test_every_signature_and_summary_is_one_line(compiled):
    for one in compiled:
        for tool in one.tools:
            assert "\n" not in tool.signature and "\n" not in tool.summary
            assert tool.summary
            assert tool.signature.startswith(f"{tool.function}(")


def test_a_tool_compiles_in_half_a_millisecond():
    """The best of a few, of processor time: others use the machine as well."""
    best = MOST_MILLISECONDS * 10
    for _ in range(TRIES):
        begun = time.process_time()
        for one in universe():
            compile_server(one)
        best = min(best, (time.process_time() - begun) / 4463 * 1000)
        if best <= MOST_MILLISECONDS:
            return
    pytest.fail(f"{best:.2f} ms a tool")


def test_a_typical_tool_is_short_to_read(compiled):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bpe = pytest.importorskip("rs_bpe.bpe")
    count = bpe.openai.o200k_base().count
    read = [count(one.files[f"{tool.module}.py"]) for one in compiled for tool in one.tools]
    assert statistics.median(read) <= MOST_TOKENS / 2  # the other half is for finding it
    assert statistics.quantiles(read, n=10)[-2] <= MOST_TOKENS
    schemas = [count(_as_injected(tool)) for one in universe() for tool in one.tools]
    assert sum(read) < sum(schemas)


def _as_injected(tool):
    told = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return json.dumps({**told, "outputSchema": tool.output_schema} if tool.output_schema else told)


@pytest.mark.timeout(120)
async def test_arguments_reach_the_server_byte_for_byte(compiled, files, sent):
    calls = 0
    for listing, one in zip(universe(), compiled, strict=True):
        for schema, tool in zip(listing.tools, one.tools, strict=True):
            arguments = files.arguments(schema.input_schema, schema.name).object(schema.input_schema)
            made = getattr(files.run_file(one.files[f"{tool.module}.py"]), tool.function)
            names = {key: name for name, key in made._names.items()}
            spelled = {names.get(key, key): value for key, value in arguments.items()}
            code = made.__wrapped__.__code__
            first = code.co_varnames[: code.co_argcount]
            await made(**spelled)
            made.sync(*[spelled.pop(name) for name in first], **spelled)
            plain, ordered = sent.wire[-2:]
            assert plain == json.dumps([listing.server, schema.name, arguments])
            assert json.loads(ordered) == json.loads(plain)
            calls += 1
    assert calls == 4463


def check_types(folder, listings, files):
    files.write_tree(folder, listings)
    runtime = os.path.join(os.path.dirname(__file__), "..", "..", "..", "src")
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [os.path.abspath(runtime)]}
    (folder / "pyrightconfig.json").write_text(json.dumps({**settings, "include": ["servers", "use.py"]}))
    first = next(one for one in listings if one.tools)
    compiled = compile_server(first)
    (folder / "use.py").write_text(
        f"from servers.{compiled.folder} import {compiled.tools[0].function} as one\n"
        "reveal_type(one)\nwrong: int = one\n"
    )
    checker = os.path.join(os.path.dirname(sys.executable), "basedpyright")
    ran = subprocess.run(
        [checker, "-p", str(folder), "--outputjson"], capture_output=True, text=True, timeout=280, check=False
    )
    told = json.loads(ran.stdout)
    found = [line for line in told["generalDiagnostics"] if line["severity"] in {"error", "warning"}]
    # The one mistake that was put in is seen: the checker knows what a tool is.
    assert [(os.path.basename(line["file"]), line["range"]["start"]["line"]) for line in found] == [("use.py", 2)]
    assert "Tool[" in found[0]["message"]
    return told["summary"]["filesAnalyzed"]


def test_a_sample_passes_a_strict_type_checker(tmp_path, files):
    assert check_types(tmp_path, universe()[::SAMPLE], files) > 300


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_of_it_passes_a_strict_type_checker(tmp_path, files):
    assert check_types(tmp_path, universe(), files) > 4463


def test_the_top_index_names_every_server_on_a_line(compiled):
    index = compile_index(compiled)
    assert index["INDEX.md"].count("\n- ") == 207
    assert len(json.loads(index["index.json"])) == 4463
