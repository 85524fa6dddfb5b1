"""What holds for the project as a whole: its layers, its sizes, its pins, and what it never mentions."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ROOT / "src" / "toolyard_runtime" / "own_packages"
SOURCES = sorted(path for path in (ROOT / "src").rglob("*.py") if GENERATED not in path.parents)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

MOST_LINES, MOST_FUNCTION_LINES = 600, 60
MOST_PACKAGES, MOST_BYTES = 40, 80_000_000
SKIPPED_FOLDERS = {".git", ".venv", "node_modules", "__pycache__", "dist", "build", ".cache"}
# In pieces, so that this file passes its own test.
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
    )
]


def tracked_files():
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=False
    )
    if listed.returncode == 0:
        names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not SKIPPED_FOLDERS & set(path.parts)]


def base_closure():
    """Every distribution that installing the project alone brings, by name."""
    found = {}
    waiting = [(Requirement(text), "") for text in PROJECT["project"]["dependencies"]]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        wanted = {"", *requirement.extras}
        new = wanted - found.get(name, (None, set()))[1]
        if not new:
            continue
        installed = distribution(name)
        found[name] = (installed, found.get(name, (None, set()))[1] | wanted)
        waiting += [(Requirement(text), one) for text in installed.requires or () for one in new]
    return {name: installed for name, (installed, _) in found.items()}


def test_every_module_keeps_to_its_layer():
    program = os.path.join(os.path.dirname(sys.executable), "lint-imports")

    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_source_file_holds_two_ideas():
    long = {
        str(path.relative_to(ROOT)): count
        for path in SOURCES
        if (count := len(path.read_text().splitlines())) > MOST_LINES
    }

    assert long == {}


def test_no_function_is_longer_than_a_page():
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MOST_FUNCTION_LINES
    }

    assert long == {}


def test_every_module_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]

    assert silent == []


def test_only_the_settings_read_the_environment():
    reading = re.compile(r"os\.(?:environ|getenv|putenv)|from os import [^#\n]*\b(?:environ|getenv|putenv)")
    found = {str(path.relative_to(ROOT)) for path in SOURCES if reading.search(path.read_text())}
    # What runs inside the sandbox sees no environment but the one the host decided on; the attacks are such code.
    inside = {path for path in found if path.startswith(("src/toolyard_runtime/", "src/toolyard/testing/"))}

    assert found - inside <= {"src/toolyard/config/settings.py"}


def test_no_tracked_file_names_a_package_registry():
    pattern = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)).encode())
    found = [str(path.relative_to(ROOT)) for path in tracked_files() if pattern.search(path.read_bytes())]

    assert found == []


def test_everything_the_project_asks_for_is_pinned():
    pinned = {canonicalize_name(line.split("==")[0]) for line in pinned_packages()}
    asked = PROJECT["project"]["dependencies"] + [
        text
        for group in (
            *PROJECT["dependency-groups"].values(),
            *PROJECT["project"].get("optional-dependencies", {}).values(),
        )
        for text in group
    ]

    assert {canonicalize_name(Requirement(text).name) for text in asked} <= pinned
    assert set(base_closure()) <= pinned


def pinned_packages():
    """Each requirement of constraints.txt as one line: a version, and the hashes of its files."""
    return (ROOT / "constraints.txt").read_text().replace("\\\n", "").splitlines()


def test_the_pins_are_exact_versions_with_hashes_and_nothing_else():
    for line in pinned_packages():
        assert re.fullmatch(
            r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [^\\]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", line.strip()
        ), line


def test_every_dependency_of_the_wheel_has_an_upper_bound():
    extras = PROJECT["project"]["optional-dependencies"].values()
    asked = [*PROJECT["project"]["dependencies"], *(text for extra in extras for text in extra)]

    unbounded = [text for text in asked if not any(one.operator == "<" for one in Requirement(text).specifier)]

    assert unbounded == []


def test_no_pattern_has_a_possessive_quantifier_on_a_group():
    """Python before 3.11.5 matches them wrongly; an atomic group says the same."""
    on_group = re.compile(r"(?<!\\)\)(?:[?*+]|\{[0-9,]+\})\+")
    texts = {
        f"{path.relative_to(ROOT)}:{node.lineno}": node.value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert [where for where, text in texts.items() if on_group.search(text)] == []


def test_what_is_installed_is_what_is_pinned():
    pins = dict(line.split(" ")[0].split("==") for line in pinned_packages())

    assert {name: installed.version for name, installed in base_closure().items()} == {
        name: pins[name] for name in base_closure()
    }


def test_a_plain_install_is_small():
    closure = base_closure()
    files = [file.locate() for installed in closure.values() for file in installed.files or ()]
    size = sum(os.path.getsize(path) for path in files if "__pycache__" not in str(path) and os.path.isfile(path))

    assert len(closure) + 1 <= MOST_PACKAGES, sorted(closure)
    assert size + sum(path.stat().st_size for path in SOURCES) <= MOST_BYTES
    assert any(os.path.basename(path) == "rg" for path in files)


@pytest.mark.parametrize("words", ["make demo", "make test"])
def test_the_readme_says_how_to_start(words):
    assert words in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "target", ["setup", "demo", "test", "lint", "types", "unit", "e2e", "bench", "constraints", "clean"]
)
def test_the_makefile_has_the_target(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_tests_lie_where_the_code_they_test_lies():
    packages = {path.name for path in (ROOT / "src" / "toolyard").iterdir() if path.is_dir()} - {"__pycache__"}
    mirrored = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("test_*.py"))}

    assert packages <= mirrored
