"""Documentation that still speaks of what a change takes away is told of, line by line, and nothing else."""

CODE = """
def load_settings(path, strict):
    return path

def run(command):
    return command

def kept_name():
    pass

class OldThing:
    pass

parser.add_argument("--dry-run")
key = os.environ["WIDGET_HOME"]
"""
GUIDE = """# Guide

Call `load_settings(path)` first.
Use OldThing for the rest, with --dry-run or --dry-run-all.
Set WIDGET_HOME. We run things often.
A kept_name stays.
"""


def begun(repo):
    repo.commit(**{"src/widget.py": CODE, "docs/guide.md": GUIDE, "CHANGELOG.md": "- OldThing came\n"})


def test_names_options_and_variables_that_are_gone_are_told_with_the_line_that_mentions_them(repo, look, of):
    begun(repo)
    repo.write("src/widget.py", "def kept_name():\n    pass\n")
    found = look()
    assert found.verdict == "go"
    outcome, details = of(found, "docs")
    assert outcome == "warned"
    assert sorted(details) == [
        ("docs/guide.md", 3, "mentions load_settings, which no other file contains any more"),
        ("docs/guide.md", 4, "mentions --dry-run, which no other file contains any more"),
        ("docs/guide.md", 4, "mentions OldThing, which no other file contains any more"),
        ("docs/guide.md", 5, "mentions WIDGET_HOME, which no other file contains any more"),
    ]


def test_what_only_moved_to_another_file_is_not_gone(repo, look, of):
    begun(repo)
    repo.write("src/widget.py", "")
    repo.write("src/gadget.py", CODE)
    assert of(look(), "docs") == ("passed", [])


def test_only_what_is_staged_counts_where_only_that_is_asked_for(repo, look, of):
    begun(repo)
    repo.write("src/widget.py", "def kept_name():\n    pass\n")
    repo.git("add", "-A")
    repo.write("src/widget.py", CODE)
    assert len(of(look(unstaged=False), "docs")[1]) == 4


def test_documentation_that_is_changed_with_the_code_is_in_order(repo, look, of):
    begun(repo)
    repo.write("src/widget.py", "def kept_name():\n    pass\n")
    repo.write("docs/guide.md", "# Guide\n\nA kept_name stays.\n")
    assert of(look(), "docs") == ("passed", [])


def test_a_call_that_is_shown_with_other_parameters_is_told(repo, look, of):
    begun(repo)
    repo.write("src/widget.py", CODE.replace("(path, strict)", "(path, mode)"))
    assert of(look(), "docs") == (
        "warned",
        [("docs/guide.md", 3, "shows load_settings(), whose parameters change in src/widget.py")],
    )
    repo.write("docs/guide.md", f"{GUIDE}Looked at.\n")
    assert of(look(), "docs") == ("passed", [])


def test_files_that_are_deleted_or_renamed_are_missed_in_the_documentation(repo, look, of):
    repo.commit(
        **{"tool.sh": "echo 1\n" * 9, "other.sh": "echo 2\n" * 9, "README.md": "Run `sh tool.sh`, or other.sh.\n"}
    )
    repo.git("mv", "tool.sh", "gadget.sh")
    repo.git("rm", "-q", "other.sh")
    outcome, details = of(look(), "docs")
    assert (outcome, sorted(details)) == (
        "warned",
        [
            ("README.md", 1, "mentions other.sh, which is deleted"),
            ("README.md", 1, "mentions tool.sh, which is gadget.sh now"),
        ],
    )


def test_keys_of_a_configuration_that_are_gone_are_told(repo, look, of):
    repo.commit(**{"app.yaml": "retry_count: 3\nplain: 1\n", "README.md": "Set `retry_count` and plain.\n"})
    repo.write("app.yaml", "plain: 2\n")
    assert of(look(), "docs") == (
        "warned",
        [("README.md", 1, "mentions retry_count, which no other file contains any more")],
    )


def test_a_change_of_documentation_alone_has_nothing_to_be_held_against(repo, look, of):
    repo.write("README.md", "words\n")
    assert of(look(), "docs") == ("skipped", [])
