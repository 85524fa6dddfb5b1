"""`toolyard snapshot ignore` as a user runs it."""


def test_a_file_counts_once_it_is_accepted_and_as_it_was_accepted(place):
    assert "no .toolyardignore" in place.run("ignore", only="stderr")
    (place.root / "big").mkdir()
    (place.root / "big/data").write_text("x")
    (place.root / ".toolyardignore").write_text("big/\n")
    assert "not accepted, has no effect" in place.run("ignore")
    assert "`toolyard snapshot ignore" in place.run("create", only="stderr")
    assert place.json("show")["files"] == 3

    assert ".toolyardignore: accepted" in place.run("ignore", "--accept", ".toolyardignore")
    assert place.json("create")["files"] == 2

    (place.root / ".toolyardignore").write_text("*\n")
    listed = place.json("ignore")
    assert [(each["path"], each["rules"], each["proposed"]) for each in listed] == [
        (".toolyardignore", ["big/"], ["*"])
    ]
    assert "    big/\n  the file now has these rules, which apply once you accept it:\n    *\n" in place.run("ignore")
    assert "changed since" in listed[0]["state"]
    assert place.json("create")["files"] == 2

    assert "not accepted" in place.run("ignore", "--forget", ".")
    assert place.json("create")["files"] == 3


def test_something_that_is_no_ignore_file_is_not_accepted(place):
    assert "neither a .toolyardignore" in place.run("ignore", "--accept", "a.txt", code=1)
