"""The ways to a client's files beside sampling in its plain form: tools, batches, roots, a shared disk, resources."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer

from tests.bridge.agent import Agent, hangs, honest, message
from toolyard.bridge import BridgeHost, FileCache, RoundNeeded, SecurityPolicy, on_the_wire
from toolyard.core.errors import ToolyardError

AT = "/home/me/project"
LOCAL = "local"


def reason(error):
    return error.error.data["reason"]


async def test_both_questions_on_the_other_ways(connect_otherwise):
    async with connect_otherwise() as agent:
        assert len(json.loads(await agent.call("list_directory", path="src"))) == 3
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert (await agent.fails("read_file", path="../x")).error.code == -32001


async def test_a_model_that_can_be_given_tools_hands_the_file_over_in_its_answer(connect_inside):
    async with connect_inside(tools=True) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        noted = await agent.noted()
    [request] = agent.requests
    assert [tool.name for tool in request.tools] == ["guide_cache_file"]
    assert noted["cache"]["entries"] == 1


async def test_several_files_are_asked_for_at_once(connect_inside):
    async with connect_inside() as agent:
        paths = ["src/a.py", "src/b.txt", "docs/page.md"]
        read = json.loads(await agent.call("read_files", paths=paths))
        noted = await agent.noted()
    assert read == {"src/a.py": "print('a')\n", "src/b.txt": "bé\n", "docs/page.md": "# A page\n"}
    assert sum(each["outcome"] == "asked" for each in noted["operations"]) <= 1


async def test_of_several_files_one_that_is_missing_keeps_all_out_of_the_cache(connect_inside):
    async with connect_inside() as agent:
        error = await agent.fails("read_files", paths=["src/a.py", "src/gone"])
        noted = await agent.noted()
    assert reason(error) == "not_found"
    assert noted["cache"]["entries"] == 0


async def test_a_tool_may_ask_one_question_after_the_other(connect_inside):
    async with connect_inside() as agent:
        read = json.loads(await agent.call("list_then_read", folder="src"))
    assert read == {"a.py": "print('a')\n", "b.txt": "bé\n"}


async def test_a_client_without_sampling_is_told_at_once(connect_inside):
    async with connect_inside(sampling=False) as agent:
        await agent.fails("read_file", path="src/a.py")
        started = time.perf_counter()
        await agent.fails("read_file", path="src/b.txt")
        assert time.perf_counter() - started < 0.1


async def test_an_absolute_path_is_held_against_the_root_that_the_client_offers(connect_inside):
    async with connect_inside(root=None, roots=[f"file://{AT}"]) as agent:
        assert await agent.call("read_file", path=f"{AT}/src/a.py") == "print('a')\n"
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        outside = await agent.fails("read_file", path="/home/me/other/src/a.py")
    assert agent.asked[0]["path"] == "src/a.py"
    assert len(agent.asked) == 1
    assert outside.error.code == -32001


async def test_without_roots_an_absolute_path_cannot_be_judged(connect_inside):
    async with connect_inside(root=None) as agent:
        error = await agent.fails("read_file", path=f"{AT}/src/a.py")
    assert error.error.code == -32001


@pytest.mark.parametrize("roots", [[], ["file://elsewhere/x"], ["file:///"]])
async def test_roots_that_do_not_hold_it_say_nothing(connect_inside, roots):
    async with connect_inside(root=None, roots=roots) as agent:
        error = await agent.fails("read_file", path=f"{AT}/src/a.py")
    assert error.error.code == -32001


async def test_on_a_shared_disk_nobody_is_asked(connect_inside, project):
    async with connect_inside(hangs, root=str(project), disk=[str(project.parent)]) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        listed = json.loads(await agent.call("list_directory", path="src", recursive=True, pattern="*.py"))
        assert [each["name"] for each in listed] == ["a.py", "inner"]
        assert (await agent.fails("read_file", path=".env")).error.code == -32001
        assert reason(await agent.fails("read_file", path="src/gone")) == "not_found"
        (project / "src/a.py").write_text("new\n")
        assert await agent.call("read_file", path="src/a.py") == "new\n"
    assert agent.asked == []


async def test_the_root_that_a_client_offers_is_read_where_the_disk_is_shared(connect_inside, project):
    async with connect_inside(
        sampling=False, root=None, roots=[project.as_uri()], disk=[str(project.parent)]
    ) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert await agent.call("read_file", path=f"{project}/src/a.py") == "print('a')\n"


async def test_a_root_that_is_not_shared_is_not_read_whatever_a_client_says(connect_inside, project, tmp_path):
    other = tmp_path / "other"
    (other / "src").mkdir(parents=True)
    (other / "src/a.py").write_text("secret")
    shared = tmp_path / "shared"
    shared.mkdir()
    os.symlink(other, shared / "way")
    for root in (other, shared / "way", shared / ".." / "other"):
        async with connect_inside(sampling=False, root=None, roots=[f"file://{root}"], disk=[str(shared)]) as agent:
            assert reason(await agent.fails("read_file", path="src/a.py")) == "sampling_unsupported"


@pytest.mark.parametrize("target", ["../.env", "/etc/passwd", "../../outside"])
async def test_a_link_on_a_shared_disk_leads_nowhere_else(connect_inside, project, target):
    (project.parent / "outside").write_text("secret")
    os.symlink(target, project / "src/way")
    os.symlink(project, project / "docs/up")
    async with connect_inside(sampling=False, root=str(project), disk=[str(project.parent)]) as agent:
        error = await agent.fails("read_file", path="src/way")
        through = await agent.fails("read_file", path="docs/up/.env")
        listed = json.loads(await agent.call("list_directory", path="src"))
        noted = await agent.noted()
    assert [each.error.data["violation"] for each in (error, through)] == ["link"] * 2
    assert {each["name"]: each["refused"] for each in listed if each["refused"]} == {"way": "link"}
    violations = [each for each in noted["operations"] if each["violation"] and each["stack"]]
    assert [each["violations"] for each in violations] == [1, 2]


async def test_special_files_on_a_shared_disk_are_not_opened(connect_inside, project):
    os.mkfifo(project / "src/pipe")
    async with connect_inside(sampling=False, root=str(project), disk=[str(project.parent)]) as agent:
        error = await asyncio.wait_for(agent.fails("read_file", path="src/pipe"), 10)
        listed = json.loads(await agent.call("list_directory", path="src"))
    assert error.error.code == -32001
    assert "pipe" not in {each["name"] for each in listed}


@pytest.mark.parametrize("name", ["back\\slash", " ", "dots\u2026", b"\xff"], ids=repr)
async def test_an_odd_name_on_a_shared_disk_is_told_of_and_harms_nobody(connect_inside, project, name):
    with open(os.path.join(os.fsencode(project), b"src", os.fsencode(name)), "w"):
        pass
    async with connect_inside(sampling=False, root=str(project), disk=[str(project)], violations=1) as agent:
        for _ in range(3):
            listed = json.loads(await agent.call("list_directory", path="src"))
    assert [each["refused"] is not None for each in listed].count(True) == 1
    assert {"a.py", "b.txt", "inner"} <= {each["name"] for each in listed}


async def test_a_folder_without_end_on_a_shared_disk_is_not_followed_for_ever(connect_inside, project):
    deep = project / "src"
    for _ in range(150):
        deep /= "d"
    deep.mkdir(parents=True)
    async with connect_inside(sampling=False, root=str(project), disk=[str(project)]) as agent:
        listed = await agent.call("list_directory", path="src", recursive=True)
    assert listed.count('"directory"') > 50


class Beside:
    """A server beside the client, which answers as it likes."""

    def __init__(self, answer):
        self.answer = answer

    async def read_resource(self, uri):
        if self.answer is None:
            await asyncio.sleep(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return types.ReadResourceResult(contents=[self.answer])

    async def list_resources(self, *, cursor=None):
        if self.answer is None:
            await asyncio.sleep(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        names = ["a/" * 300 + "x", "n" * 300, "../out", "src/fine"]
        resources = [types.Resource(name="r", uri=f"file://{AT}/{name}") for name in names]
        return types.ListResourcesResult(resources=resources)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (types.BlobResourceContents(uri=f"file://{AT}/src/a", blob="\u00e9"), "bad_answer"),
        (types.TextResourceContents(uri=f"file://{AT}/src/b", text="x"), "bad_answer"),
        (MCPError(-32002, "no"), "not_found"),
        (MCPError(-32603, "a\x1b[2Jb"), "resource_refused"),
        (None, "resource_refused"),
    ],
    ids=["no base64", "another", "missing", "refused", "never"],
)
async def test_what_a_server_beside_says_is_held_to_the_rules(project, answer, why):
    host = BridgeHost(SecurityPolicy(AT), seconds=0.3)
    server: MCPServer = MCPServer("resourceful")

    @server.tool(structured_output=False)
    @host.asks
    async def read_file(ctx: Context, path: str) -> str:
        return await host.bridge(ctx, resources=Beside(answer)).read_file(path)

    async with Client(server) as client:
        agent = Agent(project, AT)
        agent.client = client
        error = await agent.fails("read_file", path="src/a")
    assert reason(error) == why
    assert "\x1b" not in str(error)


async def test_names_elsewhere_do_not_keep_a_folder_from_being_listed(project):
    _, server = with_resources(AT, Beside(types.TextResourceContents(uri=f"file://{AT}/x", text="")))
    async with Client(server) as client:
        agent = Agent(project, AT)
        agent.client = client
        assert json.loads(await agent.call("list_directory", path="src")) == [f"{AT}/src/fine"]


def with_resources(project, reader):
    """A server whose bridge reads the resources of another, beside the client."""
    host = BridgeHost(SecurityPolicy(str(project)))
    server: MCPServer = MCPServer("resourceful")

    @server.tool(structured_output=False)
    @host.asks
    async def read_file(ctx: Context, path: str) -> str:
        return await host.bridge(ctx, resources=reader).read_file(path)

    @server.tool(structured_output=False)
    @host.asks
    async def list_directory(ctx: Context, path: str, recursive: bool = False, pattern: str | None = None) -> str:
        listed = await host.bridge(ctx, resources=reader).list_directory(path, recursive, pattern)
        return json.dumps([each.path for top in listed for each in top.walk()])

    return host, server


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_resources_of_toolyard_mcp_are_a_way_in(project, tmp_path, mode):
    command = ["-m", "toolyard", "mcp", "--workspace", str(project), "--state", str(tmp_path / "state")]
    beside = StdioServerParameters(command=sys.executable, args=command, env={"PATH": os.environ["PATH"]})
    async with Client(beside, mode=mode) as reader:
        host, server = with_resources(project, reader)
        async with Client(server) as client:
            agent = Agent(project, str(project))
            agent.client = client
            assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
            flat = json.loads(await agent.call("list_directory", path="src"))
            deep = json.loads(await agent.call("list_directory", path="src", recursive=True, pattern="*.py"))
            missing = await agent.fails("read_file", path="src/gone")
            nowhere = await agent.fails("list_directory", path="tests")
            outside = await agent.fails("read_file", path=".env")
            (project / "src/a.py").write_text("changed\n")
            assert await agent.call("read_file", path="src/a.py") == "changed\n"
        host.cache.put(f"{project}/src/handed", b"over", client=LOCAL)
        assert host.cache.statistics.entries == 1  # what was handed over alone
    assert flat == [f"{project}/src/{name}" for name in ("a.py", "b.txt", "inner")]
    assert deep == [f"{project}/src/{name}" for name in ("a.py", "inner", "inner/c.py")]
    assert (reason(missing), reason(nowhere)) == ("resource_refused", "not_found")
    assert "guide_cache_file" in str(missing)
    assert outside.error.code == -32001


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_low_level_server_offers_and_asks_as_well(project, mode):
    host = BridgeHost(SecurityPolicy(AT))

    async def list_tools(context, params):
        tool = types.Tool(name="read_file", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[host.TOOL, tool])

    async def call_tool(context, params):
        if params.name == host.TOOL.name:
            return await host.handle(context, params)
        try:
            text = await host.bridge(context, params).read_file(params.arguments["path"])
        except RoundNeeded as needed:
            return needed.result
        except ToolyardError as error:
            raise on_the_wire(error) from error
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)
    agent = Agent(project, AT)
    async with Client(server, mode=mode, sampling_callback=agent.sampled) as client:
        agent.client = client
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert (await agent.push("docs/page.md"))["cached"] == 1
        assert (await agent.fails("guide_cache_file", path="../x", content="")).error.code == -32001
        assert (await agent.fails("guide_cache_file", path="src/x", content="", more=1)).error.code == -32602


async def test_what_is_handed_over_while_a_read_waits_is_that_reads_alone(connect_inside):
    """The push is told apart from one that nobody waits for."""

    async def script(agent, request):
        pushed = await agent.push(request["path"])
        assert (pushed["for_reads"], pushed["cache"]["entries"]) == (1, 0)
        other = await agent.push("docs/page.md")
        assert (other["for_reads"], other["cache"]["entries"]) == (0, 1)
        return {"path": request["path"], "status": "cached"}

    async with connect_inside(script) as agent:
        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
        assert (await agent.noted())["cache"]["entries"] == 2


async def test_errors_can_be_results_which_every_framework_shows_its_model(project):
    server = MCPServer("somebody's")
    host = BridgeHost(SecurityPolicy(AT), errors="result")
    host.offer(server)

    @server.tool()
    @host.asks
    async def read_file(ctx: Context, path: str) -> str:
        return await host.bridge(ctx).read_file(path)

    async with Client(server) as client:
        result = await client.call_tool("read_file", {"path": "src/a.py"})
        wrong = await client.call_tool("guide_cache_file", {"path": 5, "content": "x"})
    assert result.is_error
    assert "guide_cache_file" in result.content[0].text
    assert result.structured_content["error"]["code"] == -32603
    assert wrong.structured_content["error"]["code"] == -32602


async def test_a_client_that_says_no_is_heard(connect_inside):
    async def script(agent, request):
        return types.ErrorData(code=-1, message="the user said no")

    async with connect_inside(script) as agent:
        error = await agent.fails("read_file", path="src/a.py")
    assert "the user said no" in str(error)


async def test_an_answer_that_was_cut_is_not_taken(connect_inside):
    async def script(agent, request):
        said = await honest(agent, request)
        return message(json.dumps(said), stop_reason="maxTokens")

    async with connect_inside(script) as agent:
        assert reason(await agent.fails("list_directory", path="src")) == "bad_answer"


async def test_a_text_that_was_handed_over_is_that_text_whatever_encoding_is_asked_for(connect_inside):
    async with connect_inside(sampling=False) as agent:
        await agent.client.call_tool("guide_cache_file", {"path": "src/c", "content": "caf\u00e9"})
        assert await agent.call("read_file", path="src/c", encoding="latin-1") == "caf\u00e9"


async def test_bytes_are_read_in_the_encoding_that_is_asked_for(connect_inside, project):
    (project / "src/c").write_bytes("caf\u00e9".encode("latin-1"))
    async with connect_inside(sampling=False, root=str(project), disk=[str(project)]) as agent:
        assert await agent.call("read_file", path="src/c", encoding="latin-1") == "caf\u00e9"
        assert await agent.call("read_file", path="src/c", encoding="cp437") == "caf\u0398"
        assert await agent.call("read_file", path="src/c") == "caf\u00e9"


async def test_all_that_is_missing_is_named_at_once(connect_inside):
    async with connect_inside(sampling=False) as agent:
        error = await agent.fails("read_files", paths=["src/a.py", "src/b.txt"])
        folder = await agent.fails("list_directory", path="src")
    assert "src/a.py" in str(error)
    assert "src/b.txt" in str(error)
    assert "Name the files you need instead of the folder" in str(folder)


async def test_a_path_as_windows_spells_it_is_held_against_the_root_that_is_offered(connect_inside):
    async with connect_inside(sampling=False, root=None, roots=["file:///C:/work"]) as agent:
        for path in ("src\\app.py", "C:\\work\\src\\app.py", "c:/work/SRC/app.py"):
            await agent.client.call_tool("guide_cache_file", {"path": path, "content": path})
            assert await agent.call("read_file", path="src/app.py") == path
        assert (await agent.fails("read_file", path="C:\\other\\src\\app.py")).error.code == -32001


async def test_a_low_level_server_passes_on_that_roots_are_needed_for_a_push():
    host = BridgeHost(SecurityPolicy())

    async def call_tool(context, params):
        return await host.handle(context, params)

    async def list_tools(context, params):
        return types.ListToolsResult(tools=[host.TOOL])

    async def roots(_):
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{AT}")])

    server = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)
    async with Client(server, mode="2026-07-28", list_roots_callback=roots) as client:
        result = await client.call_tool("guide_cache_file", {"path": f"{AT}/src/a", "content": "x"})
    assert result.structured_content["files"] == ["src/a"]


def add_reading(server, host):
    @server.tool(structured_output=False)
    @host.asks
    async def read_file(ctx: Context, path: str) -> str:
        return await host.bridge(ctx).read_file(path)


async def test_processes_that_share_a_cache_and_know_no_root_do_not_share_files(tmp_path, project):
    """Relative paths of two projects are the same."""
    with FileCache.in_sqlite(tmp_path / "cache.sqlite3") as cache:
        for root, reads in ((None, False), (AT, True)):
            for number in range(2):
                server: MCPServer = MCPServer("one")
                host = BridgeHost(SecurityPolicy(root), cache=cache)
                host.offer(server)

                add_reading(server, host)
                async with Client(server) as client:
                    agent = Agent(project, AT)
                    agent.client = client
                    if number == 0:
                        await agent.push("src/a.py")
                    elif reads:
                        assert await agent.call("read_file", path="src/a.py") == "print('a')\n"
                    else:
                        assert reason(await agent.fails("read_file", path="src/a.py")) == "sampling_unsupported"


@pytest.mark.parametrize("state", ["x", "[]", '{"asked": 1}', '{"answers": []}'])
async def test_a_state_that_nobody_sealed_is_not_believed_to_be_ours(project, state):
    params = types.CallToolRequestParams(name="x", request_state=state)
    host = BridgeHost(SecurityPolicy(AT))

    async def call_tool(context, _):
        try:
            host.bridge(context, params)
        except ToolyardError as error:
            raise on_the_wire(error) from error

    server = Server("low", on_call_tool=call_tool)
    async with Client(server) as client:
        agent = Agent(project, AT)
        agent.client = client
        assert (await agent.fails("x")).error.code == -32602
