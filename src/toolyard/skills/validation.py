"""Checks whether a skill is valid.

Its SKILL.md can be read, its Python parses, its imports resolve, and it has a docstring and an example. The example
is found here and run by a caller that has a sandbox.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Protocol

from toolyard.core.errors import ValidationError
from toolyard.skills.import_check import ImportResolver, required_imports
from toolyard.skills.skill import MODULE, module_of, parse_python
from toolyard.skills.skill_files import SkillFile, SkillTree
from toolyard.skills.skill_md import PAGE, SkillMarkdown, module_name, parse_page

_HEADING = re.compile(r"#{1,6}\s+(.*)")
_TITLE = re.compile(r"examples?\b", re.IGNORECASE)
_FENCE = re.compile(r"(`{3,}|~{3,})\s*(?:python|py)?\s*", re.IGNORECASE)
_AWAIT = re.compile(r"\bawait\b")
_MAX_SHOWN_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SkillExample:
    """Code that demonstrates the skill. It runs where `skills` can be imported, and raises on failure."""

    code: str
    where: str


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """How an example ended."""

    ok: bool
    output: str


class ExampleRunner(Protocol):
    """Runs an example."""

    def __call__(self, code: str) -> ExampleResult:
        """Runs Python in the sandbox of the skill's agent. Top-level `await` is allowed."""
        ...


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The result of checking a skill."""

    faults: tuple[str, ...]
    """Why the skill is invalid."""
    remarks: tuple[str, ...] = ()
    """What would improve the skill."""
    example: SkillExample | None = None
    example_result: ExampleResult | None = None
    """The result of the example, if a runner was given."""

    @property
    def ok(self) -> bool:
        """Whether the skill is valid."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class SkillChecks:
    """The checks that a skill has to pass."""

    resolver: ImportResolver
    runner: ExampleRunner | None = None
    needs_example: bool = False


def check_skill(
    checks: SkillChecks, name: str, tree: SkillTree, owner: str = "", prelude: str = ""
) -> ValidationReport:
    """Checks a skill. `owner` is the folder that it is imported from in its example.

    `prelude` is Python that runs before the example.
    """
    faults: list[str] = []
    remarks: list[str] = []
    page = _check_page(tree, name, faults, remarks)
    modules = {path: _parse_module(path, file, faults) for path, file in tree.items() if path.endswith(".py")}
    for path, module in modules.items():
        if module is not None and not path.startswith("scripts/"):
            found = checks.resolver.import_faults(name, tree, path, required_imports(module))
            faults += [f"{path}, {fault}" for fault in found]
    main = modules.get(MODULE)
    if main is not None and not ast.get_docstring(main):
        faults.append(f"{MODULE} has no docstring that says what it does")
    example = _find_example(name, owner, main, page)
    if example is None and main is not None:
        lacking = "it has no example: a `>>>` in a docstring, or a section Example with code in SKILL.md"
        (faults if checks.needs_example else remarks).append(lacking)
    ran = None
    if example is not None and checks.runner is not None and not faults:
        ran = checks.runner(prelude + example.code)
        if not ran.ok:
            faults.append(f"its example ({example.where}) failed:\n{ran.output[-_MAX_SHOWN_CHARS:]}")
    return ValidationReport(tuple(faults), tuple(remarks), example, ran)


def refusal_error(report: ValidationReport) -> ValidationError:
    """Returns the error for an invalid skill."""
    return ValidationError.of("code", "; ".join(report.faults), hint="Correct it, then try again.")


def _check_page(tree: SkillTree, name: str, faults: list[str], remarks: list[str]) -> SkillMarkdown | None:
    if PAGE not in tree:
        faults.append(f"it has no {PAGE}")
        return None
    try:
        page = parse_page(tree[PAGE].data.decode())
    except UnicodeDecodeError:
        faults.append(f"{PAGE} is not UTF-8 text")
        return None
    except ValidationError as error:
        faults.append(error.message)
        return None
    remarks += page.faults
    if module_name(page.name) != name.lower().replace("__", "_").strip("_"):
        remarks.append(f"{PAGE} calls it {page.name}, its folder {name}")
    return page


def _parse_module(path: str, file: SkillFile, faults: list[str]) -> ast.Module | None:
    try:
        return parse_python(file.data.decode())
    except UnicodeDecodeError:
        faults.append(f"{path} is not UTF-8 text")
    except ValidationError as error:
        faults.append(f"{path} {error.fields[0].error}")
    return None


def _find_example(
    name: str, owner: str, module: ast.Module | None, page: SkillMarkdown | None
) -> SkillExample | None:
    code = "" if page is None else _example_section_code(page.body)
    if code:
        return SkillExample(code, PAGE)
    if module is None:
        return None
    shown = [source for text in _docstrings(module) for source in _doctest_sources(text)]
    if not shown:
        return None
    package = module_of(owner, name)
    if any(_AWAIT.search(source) for source in shown):
        # doctest cannot await: the lines run in order, and their output is not compared.
        return SkillExample(f"from {package} import *\n" + "".join(shown), MODULE)
    return SkillExample(_DOCTEST_CODE.format(package=package), MODULE)


def _example_section_code(body: str) -> str:
    """Returns the first code block of the section Example."""
    is_inside, fence, code = False, "", ""
    for line in body.splitlines():
        if fence:
            if line.strip() == fence:
                return code
            code += line + "\n"
        elif heading := _HEADING.match(line):
            is_inside = _TITLE.match(heading[1]) is not None
        elif is_inside and (opened := _FENCE.fullmatch(line)):
            fence = opened[1]
    return ""


_DOCTEST_CODE = """\
import doctest, importlib
module = importlib.import_module({package!r})
result = doctest.testmod(module)
if result.failed or not result.attempted:
    raise AssertionError(f"{{result.failed}} of {{result.attempted}} lines of its example failed")
"""


def _docstrings(module: ast.Module) -> list[str]:
    kinds = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    texts = [ast.get_docstring(node) for node in ast.walk(module) if isinstance(node, kinds)]
    return [text for text in texts if text]


def _doctest_sources(text: str) -> list[str]:
    """Returns the source lines after the prompts of a docstring."""
    if ">>>" not in text:
        return []
    import doctest  # imports a debugger, which is slow

    try:
        return [example.source for example in doctest.DocTestParser().get_examples(text)]
    except ValueError:  # a prompt without a space after it, or uneven indentation
        return []
