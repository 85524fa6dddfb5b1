"""Which of the files, if any, is meant by what one of them says it uses; else which package of somebody else's.

No file is opened and nothing is run: names are matched against names. A file that was not among the sources cannot be
found, so what a project has of its own is not taken for a package where its name gives it away.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolyard.assistant.files.import_statements import Reference, declared
from toolyard.assistant.files.sources import Source

_SCRIPTS = (".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte", ".json")
_ALIASES = ("@/", "~/", "#/")
_RUST_OWN = frozenset({"std", "core", "alloc", "proc_macro", "crate", "self", "super", ""})
_MOST_OF_A_NAMESPACE = 20
_DEEPEST = 32
"""Folders, or packages in packages, that a name is followed through."""


@dataclass(frozen=True, slots=True)
class Meant:
    files: tuple[str, ...] = ()
    package: str = ""
    """Of somebody else's; empty for what comes with the language, and where nothing can be said."""


class Resolver:
    def __init__(self, sources: Sequence[Source], check_time: Callable[[], None] = lambda: None) -> None:
        self._paths = {source.path for source in sources}
        self._by_end: dict[str, list[str]] = {}
        self._in_namespace: dict[tuple[str, str], list[str]] = {}
        self._go_modules: list[tuple[str, str]] = []
        self._go_files: dict[str, list[str]] = {}
        for source in sources:
            check_time()
            parts = source.path.split("/")
            for at in range(len(parts)):
                self._by_end.setdefault("/".join(parts[at:]), []).append(source.path)
            if source.path.endswith(".go") and not source.path.endswith("_test.go"):
                self._go_files.setdefault(posixpath.dirname(source.path), []).append(source.path)
            if space := declared(source):
                if source.language == "go.mod":
                    self._go_modules.append((posixpath.dirname(source.path), space))
                else:
                    self._in_namespace.setdefault((source.language, space), []).append(source.path)
        self._meaning: dict[str, Callable[[str, Reference], Meant]] = {
            "python": self._python,
            **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), self._script),
            "java": self._java,
            "csharp": self._csharp,
            "go": self._go,
            "rust": self._rust,
            **dict.fromkeys(("c", "cpp", "objective-c"), self._included),
            "ruby": self._ruby,
            "php": self._php,
        }

    def meant(self, source: Source, reference: Reference) -> Meant:
        meaning = self._meaning.get(source.language)
        found = Meant() if meaning is None else meaning(source.path, reference)
        return Meant(tuple(path for path in found.files if path != source.path), found.package)

    def _first(self, candidates: Iterable[str]) -> tuple[str, ...]:
        return next(((path,) for path in candidates if path in self._paths), ())

    def _ending(self, end: str, importer: str) -> tuple[str, ...]:
        """The file whose path ends so; of several, the one nearest to who asks."""
        found = self._by_end.get(posixpath.normpath(end), ())
        return (min(found, key=lambda path: (-_shared(path, importer), len(path), path)),) if found else ()

    def _python(self, importer: str, reference: Reference) -> Meant:
        module = reference.target.lstrip(".")
        parts = module.split(".") if module else []
        if level := len(reference.target) - len(module):
            base = importer
            for _ in range(level):
                base = posixpath.dirname(base)
            within = [part for part in base.split("/") if part]
            return Meant(_with_names(reference, lambda more: self._first(_modules([*within, *parts, *more]))))

        def absolute(more: Sequence[str]) -> tuple[str, ...]:
            found = (path for end in _modules([*parts, *more]) for path in self._by_end.get(end, ()))
            usable = [path for path in found if self._is_importable(path, [*parts, *more], importer)]
            return (min(usable, key=lambda path: (-_shared(path, importer), len(path), path)),) if usable else ()

        files = _with_names(reference, absolute)
        is_ours = files or parts[0] in importer.split("/") or parts[0] in sys.stdlib_module_names
        return Meant(files, "" if is_ours else parts[0])

    def _python_names(
        self, reference: Reference, find: Callable[[Sequence[str]], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Modules among what is imported, and the module itself for the rest."""
        modules = [find((name,)) for name in reference.names]
        itself = find(()) if not modules or not all(modules) else ()
        return tuple(dict.fromkeys((*itself, *(path for found in modules for path in found))))

    def _is_importable(self, path: str, parts: Sequence[str], importer: str) -> bool:
        """Whether the folder that the module's name starts from can be a root of imports: no package itself."""
        root = posixpath.dirname(path)
        for _ in range(len(parts) - (not path.endswith("/__init__.py"))):
            root = posixpath.dirname(root)
        if posixpath.join(root, "__init__.py") in self._paths:
            return False
        return parts[0] not in sys.stdlib_module_names or root == posixpath.dirname(importer)

    def _script(self, importer: str, reference: Reference) -> Meant:
        target = reference.target
        if reference.is_path:
            return Meant(self._first(_scripts(posixpath.normpath(_beside(importer, target)))))
        alias = next((each for each in _ALIASES if target.startswith(each)), "")
        if alias or target.startswith("src/"):
            ends = _scripts(target.removeprefix(alias))
            return Meant(next((found for end in ends if (found := self._ending(end, importer))), ()))
        if target.startswith(("node:", "/", "http:", "https:")):
            return Meant()
        return Meant(package="/".join(target.split("/")[: 1 + target.startswith("@")]))

    def _java(self, _: str, reference: Reference) -> Meant:
        parts = reference.target.split(".")
        for count in range(
            min(len(parts) - 1, _DEEPEST), 0, -1
        ):  # a static import, or a class in a class, has more after the class
            space = self._in_namespace.get(("java", ".".join(parts[:count])), ())
            if space and parts[count] == "*":
                return Meant(tuple(space[:_MOST_OF_A_NAMESPACE]))
            if found := [path for path in space if posixpath.basename(path) == f"{parts[count]}.java"]:
                return Meant(tuple(found[:1]))
        return Meant(package="" if parts[0] in {"java", "javax"} else ".".join(parts[:2]))

    def _csharp(self, _: str, reference: Reference) -> Meant:
        parts = reference.target.split(".")
        space = self._in_namespace.get(("csharp", reference.target), ())
        package = "" if space or parts[0] == "System" else ".".join(parts[: 1 + (parts[0] == "Microsoft")])
        return Meant(tuple(space[:_MOST_OF_A_NAMESPACE]), package)

    def _php(self, importer: str, reference: Reference) -> Meant:
        if reference.is_path:
            return Meant(self._first((posixpath.normpath(_beside(importer, reference.target)),)))
        space, _, name = reference.target.strip("\\").rpartition("\\")
        found = [p for p in self._in_namespace.get(("php", space), ()) if posixpath.basename(p) == f"{name}.php"]
        return Meant(tuple(found[:1]), "" if found or not space else space.partition("\\")[0])

    def _go(self, _: str, reference: Reference) -> Meant:
        target = reference.target
        for folder, module in self._go_modules:
            if target == module or target.startswith(f"{module}/"):
                inside = posixpath.join(folder, target[len(module) + 1 :]).rstrip("/")
                return Meant(self._go_package(inside))
        parts = target.split("/")
        if "." not in parts[0]:
            return Meant()
        if not self._go_modules:
            for at in range(1, len(parts)):
                if found := self._go_package("/".join(parts[at:])):
                    return Meant(found)
        return Meant(package="/".join(parts[:3]))

    def _go_package(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(self._go_files.get(folder, ()))[:_MOST_OF_A_NAMESPACE])

    def _rust(self, importer: str, reference: Reference) -> Meant:
        first, *rest = reference.target.split("::")
        own = _rust_folder(importer)
        if first == "crate":
            base = _crate_folder(importer)
        elif first == "self":
            base = own
        elif first == "super":
            base = posixpath.dirname(own)
            while rest and rest[0] == "super":
                base, rest = posixpath.dirname(base), rest[1:]
        else:
            base, rest = own, [first, *rest]
        for count in range(min(len(rest), _DEEPEST), 0, -1):
            stem = posixpath.join(base, *rest[:count])
            if found := self._first((f"{stem}.rs", f"{stem}/mod.rs")):
                return Meant(found)
        return Meant(package="" if first in _RUST_OWN else first)

    def _included(self, importer: str, reference: Reference) -> Meant:
        target = reference.target
        near = self._first((posixpath.normpath(_beside(importer, target)),)) if reference.is_path else ()
        files = near or self._ending(target.lstrip("./"), importer)
        return Meant(files, "" if files or reference.is_path or "/" not in target else target.partition("/")[0])

    def _ruby(self, importer: str, reference: Reference) -> Meant:
        target = f"{reference.target.removesuffix('.rb')}.rb"
        if reference.is_path:
            return Meant(self._first((posixpath.normpath(_beside(importer, target)),)))
        files = self._ending(target, importer)
        return Meant(files, "" if files else reference.target.partition("/")[0])


def _with_names(reference: Reference, find: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[str, ...]:
    """Modules among what is imported, and the module itself for the rest."""
    modules = [find((name,)) for name in reference.names]
    itself = find(()) if not modules or not all(modules) else ()
    return tuple(dict.fromkeys((*itself, *(path for found in modules for path in found))))


def _beside(importer: str, target: str) -> str:
    return posixpath.join(posixpath.dirname(importer), target)


def _shared(one: str, other: str) -> int:
    """How many folders two paths have in common."""
    count = 0
    for mine, theirs in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _modules(parts: Sequence[str]) -> tuple[str, ...]:
    stem = "/".join(parts)
    return (f"{stem}.py", f"{stem}/__init__.py", f"{stem}.pyi") if parts else ("__init__.py",)


def _scripts(path: str) -> Iterator[str]:
    yield path
    stem, suffix = posixpath.splitext(path)
    if suffix in {".js", ".jsx", ".mjs", ".cjs"}:  # TypeScript names what it will have been compiled to
        yield from (f"{stem}{each}" for each in (".ts", ".tsx", ".mts", ".cts"))
    yield from (f"{path}{each}" for each in _SCRIPTS)
    yield from (f"{path}/index{each}" for each in _SCRIPTS)


def _rust_folder(path: str) -> str:
    """Where the modules of a file lie."""
    folder, name = posixpath.split(path)
    return folder if name in {"mod.rs", "lib.rs", "main.rs"} else posixpath.join(folder, name.removesuffix(".rs"))


def _crate_folder(path: str) -> str:
    before, found, _ = f"/{path}".rpartition("/src/")
    return f"{before}/src".lstrip("/") if found else posixpath.dirname(path)
