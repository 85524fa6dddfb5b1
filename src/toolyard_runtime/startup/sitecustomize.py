"""Runs in every Python that a command starts in a sandbox with tools, so that scripts can import the tools."""

# ruff: noqa: INP001 - a folder that is on the path, not a package
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location

_HERE = os.path.dirname(os.path.abspath(__file__))
_RUNTIME = "toolyard_runtime"


def _start() -> None:
    try:
        from toolyard_runtime import importer
    except ImportError:  # another Python, or an unreadable parent folder
        folder = os.path.dirname(_HERE)
        _run(spec_from_file_location(_RUNTIME, f"{folder}/__init__.py", submodule_search_locations=[folder]))
        from toolyard_runtime import importer
    importer.install()


def _run_shadowed_module() -> None:
    """Runs another `sitecustomize`, if there is one, which this file shadows."""
    others = [folder for folder in sys.path if os.path.abspath(folder) != _HERE]
    _run(PathFinder.find_spec(__name__, others))


def _run(spec: ModuleSpec | None) -> None:
    if spec is not None and spec.loader is not None:
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)


_start()
_run_shadowed_module()
