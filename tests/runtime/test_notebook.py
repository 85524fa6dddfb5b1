"""Code in a notebook is a real main module whose last value is shown."""

import json
import sys

import pytest

from toolyard_runtime.notebook_text import TEXT_LIMIT

FINE = {"status": "ok", "value": None, "error": None, "exit_code": 0, "images": [], "notes": []}


def value(notebook, code: str):
    answer = notebook.run(code)
    assert answer["error"] is None
    return answer["value"]


def test_the_answer_to_a_piece_is_whole_and_ready_for_json(notebook):
    answer = notebook.run("20 + 1")
    assert answer == {**FINE, "value": "21"}
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("", None),
        ("# nothing", None),
        ("x = 1", None),
        ("None", None),
        ("'text'", "'text'"),
        ("x = 1\nx", "1"),
        ("1\nfor i in range(3): i", None),
        ("(1 +\n 1)", "2"),
        ("1 + 1;", None),
        ("1 + 1 ;  # quiet", None),
        ("(1 + 1);", None),
        ("x = 3; x", "3"),
        ("'ends in ;'", "'ends in ;'"),
        ("'é' + 'é' ;", None),
        ("1 + 1  # not; quiet", "2"),
        ("def f():\r\n    return 5\r\n\r\nf()\r\n", "5"),
        ("x = 1\rx + 1", "2"),
        ("x = 1\rx + 1;", None),
        ("'a\x0cb'\n7", "7"),
    ],
)
def test_the_value_of_the_last_expression_is_shown_unless_a_semicolon_follows(notebook, code, shown):
    assert notebook.run(code) == {**FINE, "value": shown}


def test_names_stay_for_the_next_piece_and_nothing_else_is_added(notebook):
    notebook.run("x = 20")
    assert value(notebook, "x + 1") == "21"
    names = value(notebook, "sorted(n for n in globals() if not n.startswith('__'))")
    assert names == "['_', 'x']"


def test_the_last_value_is_underscore(notebook):
    notebook.run("6 * 7")
    notebook.run("None")
    assert value(notebook, "_ + 1") == "43"


def test_an_underscore_of_the_codes_own_is_left_alone(notebook):
    notebook.run("_ = str.upper")
    notebook.run("1 + 1")
    assert value(notebook, "_('a')") == "'A'"


def test_a_first_string_is_a_value_and_a_docstring_only_before_more_code(notebook):
    assert value(notebook, "'words'") == "'words'"
    assert value(notebook, "'about'\n__doc__") == "'about'"


def test_a_long_value_is_cut_in_the_middle_and_says_so(notebook):
    answer = notebook.run("'a' * 50_000 + 'z' * 50_000")
    assert len(answer["value"]) < TEXT_LIMIT + 100
    assert answer["value"].startswith("'aaa")
    assert answer["value"].endswith("zzz'")
    assert answer["notes"] == ["The value has 100,002 characters; its head and tail are shown."]


def test_a_repr_that_raises_is_told_and_is_no_error(notebook):
    answer = notebook.run("class Odd:\n    def __repr__(self): raise KeyError('no')\nOdd()")
    assert answer["status"] == "ok"
    assert answer["value"].startswith("<Odd object at 0x")
    assert answer["value"].endswith("its repr raised KeyError: 'no'>")


@pytest.mark.parametrize("body", ["return 5", "raise RecursionError", "return self.__repr__()"])
def test_no_repr_breaks_a_run(notebook, body):
    answer = notebook.run(f"class Odd:\n    def __repr__(self): {body}\nOdd()")
    assert answer["status"] == "ok"
    assert "its repr raised" in answer["value"]


def test_a_repr_that_exits_ends_the_run_as_any_exit(notebook):
    answer = notebook.run("class Odd:\n    def __repr__(self): raise SystemExit(3)\nOdd()")
    assert (answer["status"], answer["exit_code"]) == ("exit", 3)


def test_lone_surrogates_do_not_reach_the_message(notebook):
    code = "class Odd:\n    def __repr__(self): return 'a\\ud800b'\nOdd()"
    assert value(notebook, code) == "a\\ud800b"


def test_the_code_is_the_main_module(notebook):
    code = "import sys\n(__name__, sys.modules['__main__'].__dict__ is globals(), '__file__' in globals(), sys.argv)"
    assert value(notebook, code) == "('__main__', True, False, [''])"


def test_what_looks_modules_up_finds_the_code(notebook):
    notebook.run("import dataclasses, inspect, pickle, typing")
    notebook.run("@dataclasses.dataclass\nclass Point:\n    x: 'int'\n    other: 'Point | None' = None")
    assert value(notebook, "pickle.loads(pickle.dumps(Point(3)))") == "Point(x=3, other=None)"
    assert value(notebook, "typing.get_type_hints(Point)['x']") == "<class 'int'>"
    notebook.run("def double(x):\n    return 2 * x  # twice")
    assert value(notebook, "inspect.getsource(double)") == repr("def double(x):\n    return 2 * x  # twice\n")


def test_a_future_import_holds_for_the_pieces_after_it(notebook):
    assert notebook.run("def f(x: missing): pass")["status"] == "error"
    notebook.run("from __future__ import annotations")
    assert value(notebook, "def f(x: missing): pass\nf.__annotations__") == "{'x': 'missing'}"


def test_modules_are_found_in_the_working_folder_also_after_it_changed(notebook, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / f"of_{folder.name}.py").write_text(f"NAME = {folder.name!r}")
    monkeypatch.chdir(first)
    assert value(notebook, "import of_first, sys\nof_first.NAME, sys.path[0]") == repr(("first", str(first)))
    notebook.run(f"import os; os.chdir({str(second)!r})")
    assert value(notebook, "import of_second\nof_second.NAME, sys.path[0]") == repr(("second", str(second)))
    assert str(first) not in sys.path


def test_a_deleted_working_folder_does_not_stop_the_code(notebook, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert value(notebook, "1") == "1"


def test_input_says_that_nobody_answers(notebook):
    answer = notebook.run("name = input('Name? ')")
    assert answer["error"].splitlines()[-1].startswith("EOFError: input() cannot be answered here")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('bad')", 1),
        ("exit(4)", 4),
        ("raise SystemExit(True)", 1),
    ],
)
def test_an_exit_is_told_with_its_code_and_the_notebook_goes_on(notebook, code, exit_code):
    assert notebook.run(code) == {**FINE, "status": "exit", "exit_code": exit_code}
    assert value(notebook, "1 + 1") == "2"


def test_a_tracer_left_behind_ends_with_its_run(notebook):
    before = sys.gettrace()
    notebook.run("import sys\nsys.settrace(lambda *a: None)")
    assert sys.gettrace() is before


def test_two_notebooks_do_not_share_names(notebook):
    from toolyard_runtime.notebook import Notebook

    notebook.run("x = 1")
    assert Notebook().run("x")["status"] == "error"
    assert value(notebook, "x") == "1"


def test_a_warm_run_is_cheap(notebook):
    """A generous bound; what it costs on a quiet machine is a tenth of this."""
    import time

    costs: list[float] = []
    for _ in range(50):
        start = time.perf_counter()
        notebook.run("1 + 1")
        costs.append(time.perf_counter() - start)
    assert sorted(costs)[len(costs) // 2] < 0.003


def test_old_pieces_are_forgotten_so_that_a_long_session_stays_small(notebook, monkeypatch):
    import linecache

    monkeypatch.setattr("toolyard_runtime.notebook_cells.KEPT_CELLS", 3)
    for number in range(10):
        notebook.run(f"x = {number}")
    kept = [name for name in linecache.cache if name.startswith("<code") and "x = " in linecache.getline(name, 1)]
    assert sorted(kept, key=len)[:3] == ["<code 8>", "<code 9>", "<code 10>"]
