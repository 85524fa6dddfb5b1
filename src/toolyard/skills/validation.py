"""Whether a skill is fit to be kept.

Its page can be read, its Python parses, its imports lead somewhere, it says what it is for, and it brings an example
of its own. The example is found here and run by whoever has a sandbox.
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
    """Code that shows the skill at work. It runs where `skills` can be imported, and raises when it fails."""

    code: str
    where: str


@dataclass(frozen=True, slots=True)
class ExampleResult:
    ok: bool
    output: str


class ExampleRunner(Protocol):
    def __call__(self, code: str) -> ExampleResult:
        """Run Python in the sandbox of the agent whose skill it is, top-level `await` allowed."""
        ...


@dataclass(frozen=True, slots=True)
class ValidationReport:
    faults: tuple[str, ...]
    """Why it is not fit to be kept."""
    remarks: tuple[str, ...] = ()
    """What it lacks to be a good one."""
    example: SkillExample | None = None
    example_result: ExampleResult | None = None
    """How the example ended, where there was a runner."""

    @property
    def ok(self) -> bool:
        return not self.faults


@dataclass(frozen=True, slots=True)
class SkillChecks:
    resolver: ImportResolver
    runner: ExampleRunner | None = None
    needs_example: bool = False


def check_skill(
    checks: SkillChecks, name: str, tree: SkillTree, owner: str = "", prelude: str = ""
) -> ValidationReport:
    """Everything that can be told of a skill. `owner` is the folder it lies in; the example imports it from there.

    `prelude` is Python to run before the example.
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
        faults.append(f"{MODULE} has no docstring that says what it is for")
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
        # doctest cannot wait: the lines are run one after the other, and what they print is not compared.
        return SkillExample(f"from {package} import *\n" + "".join(shown), MODULE)
    return SkillExample(_DOCTEST_CODE.format(package=package), MODULE)


def _example_section_code(body: str) -> str:
    """The first piece of Python in the section Example."""
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
    """The lines behind the prompts of a docstring."""
    if ">>>" not in text:
        return []
    import doctest  # brings a debugger along

    try:
        return [example.source for example in doctest.DocTestParser().get_examples(text)]
    except ValueError:  # a prompt without a space after it, or uneven indentation
        return []
