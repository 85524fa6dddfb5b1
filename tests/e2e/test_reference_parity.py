"""The same calls to the npm reference server and to ours, on twin folders: the same trees, the same texts.

Where the two are meant to differ, the test says so by name.
"""

import fcntl
import itertools
import os
import sys

import pytest

from benchmarks.lean_client import BenchFault
from benchmarks.reference_server import install
from toolyard.testing.mcp_client import StdioClient

CACHE = os.path.join(os.path.dirname(__file__), "../../.cache/npm/reference")

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def reference():
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return install(CACHE)
        except BenchFault as fault:
            pytest.skip(str(fault))


class Twins:
    """One folder behind each server. Every test works in a folder of its own inside, the same in both."""

    def __init__(self, base, reference):
        self.roots = [str(base / "theirs"), str(base / "ours")]
        for root in self.roots:
            os.mkdir(root)
        ours = [sys.executable, "-m", "toolyard", "mcp", "--tools", "reference", "--state", str(base / "state")]
        self.clients = [
            StdioClient(reference.command(self.roots[0])),
            StdioClient([*ours, "--workspace", self.roots[1]]),
        ]
        self._cases = itertools.count(1)
        self.folders = self.roots

    def begin(self):
        case = f"case-{next(self._cases)}"
        self.folders = [os.path.join(root, case) for root in self.roots]
        for folder in self.folders:
            fill(folder)

    def close(self):
        for client in self.clients:
            client.close()

    def call(self, tool, **arguments):
        """What both answer, `WS` standing for the test's folder in arguments and answers; None for an error."""
        answers = []
        for client, root, folder in zip(self.clients, self.roots, self.folders, strict=True):
            response = client.call(tool, **replaced(arguments, "WS", folder))
            result = response.get("result", {"isError": True})
            said = None if result.get("isError") else result["structuredContent"]
            answers.append(replaced(replaced(said, folder, "WS"), root, "ROOT"))
        return answers

    def trees(self):
        return [tree(folder) for folder in self.folders]


def fill(folder):
    contents = {
        "a.txt": "one\ntwo\nthree",
        "src/main.py": "import os\n\n\ndef main():\n    return os.name\n\n\nprint(main())\n",
        "src/deep/x.PY": "x = 1\n",
        "src/deep/y.py": "y = 2\n",
        "data.bin": "." * 3000,
        "ümlaut.txt": "grün\n",
    }
    for name, content in contents.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, 0o640)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    os.mkdir(os.path.join(folder, "empty"))
    os.symlink("a.txt", os.path.join(folder, "link"))


def replaced(value, old, new):
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: replaced(item, old, new) for key, item in value.items()}
    return value


def tree(folder):
    """Every name with its kind, mode and content."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(place, name)
            key = os.path.relpath(path, folder)
            if os.path.islink(path):
                found[key] = os.readlink(path)
            elif os.path.isdir(path):
                found[key] = "folder"
            else:
                with open(path, "rb") as file:
                    found[key] = (oct(os.stat(path).st_mode & 0o777), file.read())
    return found


@pytest.fixture(scope="module")
def servers(tmp_path_factory, reference):
    pair = Twins(tmp_path_factory.mktemp("parity"), reference)
    yield pair
    pair.close()


@pytest.fixture
def twins(servers):
    servers.begin()
    return servers


READS = [
    ("read_file", {"path": "WS/a.txt"}),
    ("read_text_file", {"path": "WS/src/main.py"}),
    ("read_text_file", {"path": "WS/link"}),
    ("read_text_file", {"path": "WS/ümlaut.txt"}),
    ("read_text_file", {"path": "WS/src/main.py", "head": 3}),
    ("read_text_file", {"path": "WS/src/main.py", "head": 99}),
    ("read_text_file", {"path": "WS/a.txt", "tail": 2}),
    ("read_text_file", {"path": "WS/a.txt", "tail": 99}),
    ("read_media_file", {"path": "WS/data.bin"}),
    ("read_multiple_files", {"paths": ["WS/a.txt", "WS/src/deep/y.py"]}),
    ("list_directory_with_sizes", {"path": "WS/src/deep"}),
    ("list_directory_with_sizes", {"path": "WS/src/deep", "sortBy": "size"}),
    ("list_directory", {"path": "WS/empty"}),
    ("directory_tree", {"path": "WS/empty"}),
    ("search_files", {"path": "WS", "pattern": "*.nothing"}),
    ("search_files", {"path": "WS", "pattern": "**/*.py", "excludePatterns": ["src/deep/**"]}),
    ("get_file_info", {"path": "WS/src"}),
    ("list_allowed_directories", {}),
    ("edit_file", {"path": "WS/src/main.py", "edits": [{"oldText": "os.name", "newText": "os.sep"}], "dryRun": True}),
]


@pytest.mark.parametrize(("tool", "arguments"), READS)
def test_both_say_the_same(twins, tool, arguments):
    theirs, ours = twins.call(tool, **arguments)
    if tool == "get_file_info":
        # Accessed and created are the moment's; dates of other time zones are spelled otherwise.
        theirs, ours = (
            [line for line in said["content"].split("\n") if "GMT" not in line] for said in (theirs, ours)
        )
    assert theirs is not None
    assert ours == theirs


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_directory", {"path": "WS"}),
        ("directory_tree", {"path": "WS"}),
        ("directory_tree", {"path": "WS", "excludePatterns": ["deep", "*.txt"]}),
        ("search_files", {"path": "WS", "pattern": "**/*.py"}),
        ("search_files", {"path": "WS/src", "pattern": "*"}),
    ],
)
def test_both_list_the_same_in_their_own_order(twins, tool, arguments):
    """Ours sorts; theirs takes names as the disk gives them. Ours finds `x.PY` for `*.py` as well."""
    theirs, ours = (sorted(said["content"].replace(",", "").split("\n")) for said in twins.call(tool, **arguments))
    assert [line for line in ours if not line.endswith("x.PY") or tool != "search_files"] == theirs


TWO_EDITS = [
    {"oldText": "import os", "newText": "import sys"},
    {"oldText": "os.name", "newText": "sys.path"},
]
CHANGES = [
    [("write_file", {"path": "WS/new.txt", "content": "grün\n"})],
    [("write_file", {"path": "WS/a.txt", "content": ""})],
    [("write_file", {"path": "WS/link", "content": "through the link"})],
    [("create_directory", {"path": "WS/x/y/z"}), ("create_directory", {"path": "WS/x/y"})],
    [("move_file", {"source": "WS/a.txt", "destination": "WS/empty/b.txt"})],
    [("move_file", {"source": "WS/src", "destination": "WS/empty/src"})],
    [("edit_file", {"path": "WS/a.txt", "edits": [{"oldText": "two\nthree", "newText": "2\n3\n4"}]})],
    [("edit_file", {"path": "WS/src/main.py", "edits": TWO_EDITS})],
    [
        ("write_file", {"path": "WS/w.txt", "content": "1\n"}),
        ("edit_file", {"path": "WS/w.txt", "edits": [{"oldText": "1", "newText": "2"}]}),
        ("move_file", {"source": "WS/w.txt", "destination": "WS/v.txt"}),
        ("read_file", {"path": "WS/v.txt"}),
    ],
]


@pytest.mark.parametrize("calls", CHANGES, ids=lambda calls: calls[0][0])
def test_both_leave_the_same_tree_and_say_the_same(twins, calls):
    before = twins.trees()[0]
    for tool, arguments in calls:
        theirs, ours = twins.call(tool, **arguments)
        assert theirs is not None
        assert ours == theirs
    theirs, ours = twins.trees()
    assert theirs != before
    assert ours == theirs


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "WS/gone"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "WS/../x"}),
        ("read_file", {}),
        ("read_text_file", {"path": "WS/a.txt", "head": 1, "tail": 1}),
        ("read_multiple_files", {"paths": []}),
        ("write_file", {"path": "/etc/new", "content": "x"}),
        ("write_file", {"path": "WS/empty", "content": "x"}),
        ("edit_file", {"path": "WS/a.txt", "edits": [{"oldText": "nowhere", "newText": "x"}]}),
        ("create_directory", {"path": "WS/a.txt"}),
        ("move_file", {"source": "WS/a.txt", "destination": "WS/data.bin"}),
        ("move_file", {"source": "WS/gone", "destination": "WS/x"}),
        ("move_file", {"source": "WS/src", "destination": "WS/src/deep/x"}),
        ("list_directory", {"path": "WS/a.txt"}),
        ("get_file_info", {"path": "WS/gone"}),
    ],
)
def test_both_refuse_and_change_nothing(twins, tool, arguments):
    before = twins.trees()
    assert twins.call(tool, **arguments) == [None, None]
    assert twins.trees() == before


def test_ours_names_the_same_tools_with_the_same_arguments(twins):
    shown = []
    for client in twins.clients:
        tools = client.request("tools/list")["result"]["tools"]
        shown.append({tool["name"]: sorted(tool["inputSchema"].get("properties", {})) for tool in tools})
    theirs, ours = shown
    assert ours == theirs


def test_ours_marks_the_same_tools_as_reading_destructive_and_idempotent(twins):
    shown = []
    for client in twins.clients:
        tools = client.request("tools/list")["result"]["tools"]
        shown.append({tool["name"]: tool["annotations"] for tool in tools})
    theirs, ours = shown
    # Theirs leaves the other hints out where a tool only reads.
    assert {name: {key: ours[name][key] for key in hints} for name, hints in theirs.items()} == theirs


@pytest.mark.parametrize(
    ("edits", "fate"),
    [
        pytest.param([{"oldText": "e", "newText": "E"}], "ambiguous", id="a text that occurs more than once"),
        pytest.param([{"oldText": "  one", "newText": "1"}], "missing", id="a text that only nearly matches"),
    ],
)
def test_where_theirs_guesses_ours_asks(twins, edits, fate):
    theirs, ours = twins.call("edit_file", path="WS/a.txt", edits=edits)
    assert (theirs is not None, ours) == (True, None), fate


def test_ours_counts_the_last_lines_as_lines(twins):
    """Theirs takes the end of the last line for one more line, so that a tail of 1 shows nothing."""
    theirs, ours = twins.call("read_text_file", path="WS/src/main.py", tail=1)
    assert (theirs, ours) == ({"content": ""}, {"content": "print(main())"})
