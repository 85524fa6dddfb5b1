"""What was left in a change by mistake."""


def test_conflict_markers_are_a_no_go(repo, look, of):
    repo.write("b.py", "<<<<<<< HEAD\na = 1\n=======\na = 2\n>>>>>>> other\n")
    found = look()
    assert (found.verdict, of(found, "conflicts")) == (
        "no-go",
        ("failed", [("b.py", 1, "is a conflict marker"), ("b.py", 5, "is a conflict marker")]),
    )


def test_lines_that_underline_a_heading_are_no_markers(repo, look, of):
    repo.write("b.rst", "Heading\n=======\n\n>>> python\n<<<<<<<<<<\n")
    assert of(look(), "conflicts") == ("passed", [])


LEFT = {
    "a.py": "    breakpoint()",
    "b.py": "import pdb; pdb.set_trace()",
    "c.js": "  debugger;",
    "d.test.ts": "describe.only('x', () => {})",
    "e.rb": "binding.pry",
    "f.rs": "dbg!(x);",
    "g.py": "x = 1  # DO NOT COMMIT",
}


def test_debuggers_and_marks_are_warned_of(repo, look, of):
    for name, text in LEFT.items():
        repo.write(name, f"\n{text}\n")
    found = look()
    outcome, details = of(found, "debugging")
    assert (outcome, [(path, line) for path, line, _ in details]) == ("warned", [(name, 2) for name in LEFT])
    assert [reason for reason in found.reasons if not reason.startswith("lint")] == []


def test_words_that_only_sound_like_it_pass(repo, look, of):
    repo.write("b.py", "debugger = Debugger()\nbreakpoint_count = 3\n# commit notes\n")
    repo.write("b.md", "Do not commit secrets.\n")
    repo.write("b.js", "const debuggerOn = true;\n")
    assert of(look(), "debugging") == ("passed", [])


def test_a_left_over_that_was_there_before_is_not_this_changes(repo, look, of):
    repo.commit(**{"b.py": "breakpoint()\n"})
    repo.write("b.py", "breakpoint()\na = 1\n")
    assert of(look(), "debugging") == ("passed", [])


def test_all_that_was_found_is_told_to_a_reader(repo, look):
    repo.write("b.py", "breakpoint()\n")
    repo.write("c.py", "<<<<<<< HEAD\n")
    told = look().render_report()
    assert told.startswith("2 changes on main, after ")
    assert "- conflicts: FAILED\n  - c.py:1 is a conflict marker" in told
    assert "Verdict" not in told  # the model that reads it is not to be led
    assert "- b.py (untracked, not staged)" in told
    assert "- debugging: warned\n  - b.py:1 looks like leftover debugging code" in told
    assert "- secrets: ok" in told


def test_so_many_findings_are_told_as_can_be_read(repo, look, of):
    repo.write("b.py", "breakpoint()\n" * 300)
    found = look()
    details = of(found, "debugging")[1]
    assert (len(details), details[-1]) == (101, ("", 0, "200 more like these"))
    assert len(found.render_report().splitlines()) < 60
