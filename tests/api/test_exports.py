"""What `import toolyard` offers: the names, their signatures, their documentation, and what the import costs."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest

import toolyard

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
SNAPSHOT = os.path.join(os.path.dirname(__file__), "exports.json")
PLAIN = ("__version__", "Message", "TeamEvent")
"""A text and two unions: they have no signature and no docstring."""


def signatures():
    found = {}
    for name in toolyard.__all__:
        value = getattr(toolyard, name)
        if name in PLAIN:
            found[name] = "type" if name != "__version__" else "text"
            continue
        found[name] = signature(value)
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isroutine):
                if not method.startswith("_") and (getattr(function, "__module__", None) or "").startswith(
                    "toolyard"
                ):
                    found[f"{name}.{method}"] = signature(function)
    return found


def signature(value):
    try:
        parameters = inspect.signature(value).parameters.values()
    except ValueError:  # an enum's members are made by Python
        return "class"
    return ", ".join(
        f"{each.kind.name.lower()} {each.name}{'' if each.default is each.empty else '='}" for each in parameters
    )


def test_names_and_signatures_are_those_of_the_snapshot():
    with open(SNAPSHOT, encoding="utf-8") as file:
        assert signatures() == json.load(file), "an incompatible change of the public API? `make api-docs` writes it"


@pytest.mark.parametrize("name", [name for name in toolyard.__all__ if name not in PLAIN])
def test_every_export_has_a_docstring(name):
    assert inspect.getdoc(getattr(toolyard, name))


def test_importing_toolyard_imports_nothing_else_of_it():
    code = "import sys, toolyard; print([m for m in sys.modules if m.startswith(('toolyard.', 'pydantic', 'mcp'))])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Workspaces"):
        _ = toolyard.Workspaces


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "toolyard.api.team", None)
    monkeypatch.delitem(vars(toolyard), "run_team", raising=False)
    with pytest.raises(ImportError):
        _ = toolyard.run_team


def test_names_are_listed_for_completion():
    assert set(toolyard.__all__) <= set(dir(toolyard))


def test_the_page_is_what_the_docstrings_say():
    ran = subprocess.run(
        [sys.executable, os.path.join(PROJECT, "scripts", "api_docs.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_every_lazy_name_is_imported_for_type_checkers_too():
    with open(toolyard.__file__, encoding="utf-8") as file:
        text = file.read()
    typed = set(re.findall(r"\w+", text.split("if TYPE_CHECKING:")[1].split("__version__ =")[0]))
    assert set(toolyard.__all__) - {"__version__"} <= typed
    assert set(toolyard._MODULE_OF) == set(toolyard.__all__) - {"__version__"}


if __name__ == "__main__":  # `make api-docs`
    with open(SNAPSHOT, "w", encoding="utf-8") as file:
        json.dump(signatures(), file, indent=1)
        file.write("\n")
