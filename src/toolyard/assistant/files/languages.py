"""Classifies files by name: their language, and their priority among the files of a folder."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

_BY_SUFFIX: Final[Mapping[str, str]] = {
    suffix: language
    for language, suffixes in {
        "python": "py pyi pyw",
        "javascript": "js jsx mjs cjs",
        "typescript": "ts mts cts",
        "tsx": "tsx",
        "java": "java",
        "go": "go",
        "rust": "rs",
        "c": "c h",
        "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp inl",
        "csharp": "cs",
        "ruby": "rb rake gemspec",
        "php": "php phtml",
        "bash": "sh bash zsh",
        "kotlin": "kt kts",
        "swift": "swift",
        "scala": "scala sc",
        "objective-c": "m mm",
        "lua": "lua",
        "perl": "pl pm",
        "r": "r",
        "dart": "dart",
        "elixir": "ex exs",
        "erlang": "erl hrl",
        "haskell": "hs",
        "clojure": "clj cljs cljc",
        "julia": "jl",
        "zig": "zig",
        "groovy": "groovy gradle",
        "powershell": "ps1 psm1",
        "vue": "vue",
        "svelte": "svelte",
        "sql": "sql",
        "graphql": "graphql gql",
        "protobuf": "proto",
        "terraform": "tf",
        "html": "html htm",
        "css": "css scss sass less",
        "json": "json jsonc json5",
        "yaml": "yaml yml",
        "toml": "toml",
        "ini": "ini cfg conf properties editorconfig",
        "xml": "xml xsd xsl csproj props",
        "markdown": "md mdx markdown",
        "rst": "rst",
        "text": "txt adoc org",
        "tex": "tex",
        "csv": "csv tsv",
        "log": "log out",
    }.items()
    for suffix in suffixes.split()
}
_BY_NAME: Final = {
    "makefile": "make",
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "rakefile": "ruby",
    "gemfile": "ruby",
    "jenkinsfile": "groovy",
    "cmakelists.txt": "cmake",
    "go.mod": "go.mod",
    "license": "text",
    "copying": "text",
    "readme": "text",
    "changelog": "text",
}
_BY_SHEBANG: Final = re.compile(r"#![^\n]{0,100}?\b(python|node|bash|zsh|sh|ruby|php|perl)[\d.]*\b")
_SHEBANGS: Final = {"node": "javascript", "zsh": "bash", "sh": "bash"}
_SETTINGS: Final = frozenset({"json", "yaml", "toml", "ini", "xml", "make", "dockerfile", "cmake", "go.mod"})
_DOCS: Final = frozenset({"markdown", "rst", "text", "tex", "html"})
_LOW_PRIORITY: Final = frozenset({"csv", "log"})
_GENERATED: Final = re.compile(
    r"(?:\.min\.(?:js|css)|\.lock|-lock\.(?:json|yaml)|\.lockb|go\.sum|\.map|\.snap|\.svg|_pb2\.pyi?|\.log\.\d+)\Z"
)
"""Names of generated files."""
_TESTS: Final = re.compile(
    r"(?:^|/)(?:tests?|spec|__tests__)/|(?:^|/)test_[^/]*\Z|[._](?:test|spec)\.[a-z]+\Z|_test\."
)


class FileRank(IntEnum):
    """Priority among the files of a folder."""

    SOURCE = 0
    TESTS = 1
    SETTINGS = 2
    DOCS = 3
    OTHER = 4


def language_of(path: str, text: str = "") -> str:
    """Returns the language by the file's name or shebang line; empty if neither is known."""
    name = posixpath.basename(path).lower()
    known = _BY_NAME.get(name) or _BY_SUFFIX.get(name.rpartition(".")[2] if "." in name else "")
    if known is None and (found := _BY_SHEBANG.match(text)):
        return _SHEBANGS.get(found[1], found[1])
    return known or ""


def file_rank(path: str) -> FileRank:
    language = language_of(path)
    if not language or language in _LOW_PRIORITY or _GENERATED.search(path.lower()):
        return FileRank.OTHER
    if language in _DOCS:
        return FileRank.DOCS
    if language in _SETTINGS:
        return FileRank.SETTINGS
    return FileRank.TESTS if _TESTS.search(path) else FileRank.SOURCE
