"""The snippets that filesystem-based tool discovery is explained with elsewhere, run as they stand."""

from __future__ import annotations

SAVING = '''
from _massgen_runtime import save_skill

# After successfully creating a website
save_skill(
    name="create_modern_website",
    code="""
import servers.filesystem as fs
import tools.shop as shop

async def create_website(project_name: str, style_reference: str):
    \'\'\'Create a modern website based on a style reference.\'\'\'
    html_content = f'<h1>{style_reference}: {await shop.price_of(part="bolt", count=4)}</h1>'

    await fs.write_file(
        path=f'{project_name}/index.html',
        content=html_content
    )

    return f'Website created at {project_name}/'
    """,
    description="Create a modern website by analyzing a reference site"
)
'''
USING = """
from skills.create_modern_website import create_website

result = await create_website(
    project_name="PROJECT",
    style_reference="https://ag2.ai/"
)
print(result)
"""


def test_listing(team):
    shown = team.python(
        "import os\n\n"
        "# List all available MCP servers\n"
        'servers = os.listdir("servers/")\n'
        'print(f"Available servers: {servers}")\n\n'
        "# List tools in a specific server\n"
        'filesystem_tools = os.listdir("servers/filesystem/")\n'
        'print(f"Filesystem tools: {filesystem_tools}")\n'
        'print(os.listdir("tools/"))\n'
    )
    assert "'filesystem'" in shown
    assert "'read_file.py'" in shown
    assert "'shop'" in shown


def test_searching(team):
    commands = {
        'rg "text" servers/ tools/ --type py -l': "servers/filesystem/read_text_file.py",
        'rg "image|visual|media" servers/ -i -l': "servers/filesystem/read_media_file.py",
        "ast-grep --pattern 'async def $FUNC($$$)' servers/ tools/": "async def price_of",
        "ast-grep --pattern 'async def $FUNC($$$) -> $TYPE' servers/": "-> WriteFileResult",
        "cat servers/filesystem/read_file.py": "async def read_file(",
    }
    shown = team.bash(f"set -e\n{'; echo ----; '.join(commands)}").split("----")
    assert [found for found, text in zip(commands.values(), shown, strict=True) if found not in text] == []


def test_calling_by_name(team):
    (team.workspace / "agents/agent_a/workspace/named.txt").write_text("by its name")
    shown = team.python(
        "from _massgen_runtime import call_mcp_tool\n\n"
        "result = await call_mcp_tool(\n"
        '    server="filesystem",\n'
        '    tool="read_file",\n'
        '    arguments={"path": "named.txt"}\n'
        ")\n"
        'print(result["content"])\n'
        "from _massgen_runtime import call_custom_tool\n"
        'print(await call_custom_tool("shop.price_of", part="nut", count=4))\n'
    )
    assert shown == "by its name\n1.0\n"


def test_searching_by_meaning(team):
    shown = team.python(
        "from _massgen_runtime import semantic_search\n\n"
        "results = semantic_search(\n"
        '    query="I need to write a file to disk",\n'
        '    search_paths=["servers/", "tools/"],\n'
        "    top_k=5\n"
        ")\n\n"
        "for result in results:\n"
        '    print(f"{result.path}: {result.relevance_score}")\n'
    )
    assert shown.startswith(("servers/filesystem/write_file.py: ", "servers/filesystem_server/write_file.py: "))
    assert 1 <= len(shown.splitlines()) <= 5


def test_a_skill_is_kept_by_one_agent_and_used_by_another(team):
    project = team.workspace / "agents/agent_b/workspace/my_project"
    team.python(SAVING)
    assert "create_modern_website" in team.bash('rg "create.*website" skills/ -i -l', "agent_b")
    assert team.python(USING.replace("PROJECT", str(project)), "agent_b") == f"Website created at {project}/\n"
    assert (project / "index.html").read_text() == "<h1>https://ag2.ai/: 2.0</h1>"
