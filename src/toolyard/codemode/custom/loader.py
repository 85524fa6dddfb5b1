"""Loads the Python functions that the configuration names. Importing a user's module runs it in this process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Final

from toolyard.codemode.custom.signature import Function
from toolyard.config.custom_tools import CustomToolSource
from toolyard.config.suggestions import did_you_mean
from toolyard.core.errors import ConfigError

BUILTIN_TOOLS: Final = {
    "web.playwright_navigate": ("toolyard.codemode.custom.web", "playwright_navigate"),
    "web.screenshot": ("toolyard.codemode.custom.web", "screenshot"),
    "multimodal.vision_understanding": ("toolyard.codemode.custom.multimodal", "vision_understanding"),
}
_MODULE_PREFIX: Final = "toolyard_custom_"


def load_builtin_tools(pattern: str) -> Iterator[tuple[str, Function]]:
    """Yields the built-in tools that match a name or glob."""
    names = [name for name in BUILTIN_TOOLS if fnmatchcase(name, pattern)]
    if not names:
        hint = did_you_mean(pattern, BUILTIN_TOOLS)
        raise ConfigError(
            f"there is no built-in tool {pattern!r}.",
            hint=f"{hint} Write your own functions as `package.module:function`.",
        )
    for name in names:
        module, function = BUILTIN_TOOLS[name]
        yield name, getattr(importlib.import_module(module), function)


def load_named_function(text: str, folder: str) -> tuple[str, Function]:
    """Returns the function of `package.module:function` or `file.py:function`. Its group is
    the module's last name.
    """
    place, _, name = text.rpartition(":")
    module = _import_file(place, folder) if place.endswith(".py") else _import_module(place)
    group = os.path.basename(place).removesuffix(".py").rpartition(".")[2]
    return f"{group}.{name}", _find_function(module, name, place)


def load_source_functions(source: CustomToolSource, folder: str) -> Iterator[tuple[str, Function]]:
    """Yields the functions of a group."""
    place = source.path or source.module or ""
    module = _import_file(place, folder) if source.path is not None else _import_module(place)
    names = source.tools or tuple(_public_names(module))
    if not names:
        raise ConfigError(f"{place} has no public functions of its own.", hint="Define one with typed parameters.")
    for name in names:
        yield f"{source.group}.{name}", _find_function(module, name, place)


def _public_names(module: ModuleType) -> Iterator[str]:
    listed = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        if not inspect.isfunction(value):
            continue
        if name in listed if listed is not None else value.__module__ == module.__name__ and name[0] != "_":
            yield name


def _find_function(module: ModuleType, name: str, place: str) -> Function:
    found = getattr(module, name, None)
    if inspect.isfunction(found) or inspect.ismethod(found) or inspect.isbuiltin(found):
        return found
    functions = [each for each, value in vars(module).items() if inspect.isfunction(value)]
    hint = did_you_mean(name, functions) if functions else "It has no functions."
    raise ConfigError(f"{place} has no function {name!r}.", hint=hint)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a user's module may raise anything while it is imported
        raise ConfigError(
            f"the module {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint="It has to be importable by the Python that runs Toolyard; a file is named with its path.",
        ) from None


def _import_file(path: str, folder: str) -> ModuleType:
    full = os.path.abspath(os.path.join(folder, os.path.expanduser(path)))
    # Two files may have the same name, and neither may shadow an installed module.
    name = _MODULE_PREFIX + hashlib.blake2b(full.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None or not os.path.isfile(full):
        raise ConfigError(f"there is no Python file {full}.", hint="Paths start at the configuration's folder.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and type hints look up their module by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - a user's file may raise anything while it is run
        del sys.modules[name]
        raise ConfigError(
            f"{full} cannot be loaded: {type(error).__name__}: {error}", hint="Run it with Python to see where."
        ) from None
    return module
