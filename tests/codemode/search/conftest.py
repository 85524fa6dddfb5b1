import pytest

from tests.support.toolsearch import simple_doc as make_doc
from toolyard.codemode.search import ToolIndex

SMALL = {
    "files": [
        make_doc("files", "read_file", "Read the complete contents of a file.", ["path"]),
        make_doc("files", "write_file", "Create a new file or overwrite one.", ["path", "content"]),
        make_doc("files", "list_directory", "List what a directory contains.", ["path"]),
    ],
    "github": [
        make_doc("github", "create_issue", "Open a new issue in a repository.", ["owner", "repo", "title"]),
        make_doc("github", "createPullRequest", "Open a pull request.", ["owner", "repo", "head", "base"]),
        make_doc("github", "list_commits", "List the commits of a branch.", ["owner", "repo"]),
    ],
    "weather": [make_doc("weather", "get_forecast", "Weather for the coming days.", city="Name of the town")],
    "bing-cn": [make_doc("bing-cn", "bing_search", "使用必应搜索指定的关键词并返回搜索结果列表")],
}


@pytest.fixture(scope="session")
def doc():
    return make_doc


@pytest.fixture(scope="session")
def small():
    return SMALL


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "tools.index")


@pytest.fixture
def index(path):
    with ToolIndex.open_writable(path, semantic=False) as index:
        for server, docs in SMALL.items():
            index.replace_server(server, docs)
        yield index
