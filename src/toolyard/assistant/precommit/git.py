"""Runs git on an untrusted repository.

The sandbox is the main protection (`assistant.sandboxed_commands`). In addition, everything that lets a repository's
configuration run programs is disabled: hooks, fsmonitor, external diffs, text conversions, filters, lazy fetching.
Repository and work tree are passed explicitly instead of being discovered, so that `core.worktree` and surrounding
repositories have no effect.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace

from toolyard.assistant.precommit.deadline import Deadline
from toolyard.assistant.precommit.repository import Repository
from toolyard.assistant.sandboxed_commands import OUTPUT_BYTES, ProgramResult, run_program
from toolyard.core.errors import ToolError
from toolyard.core.paths import relative_to
from toolyard.dispatch.call_context import CallContext

_NOT_FOUND = 127
_MOST_FILTERS = 200
# How a hunk's enclosing function starts, for files without a language in .gitattributes.
_FUNCTIONS = r"""^[ \t]*((async[ \t]+)?(def|class)[ \t].*)$
^[ \t]*((export[ \t]+)?(default[ \t]+)?(async[ \t]+)?(function|class|interface|enum|namespace)[ \t*].*)$
^[ \t]*((pub(\([^)]*\))?[ \t]+)?(unsafe[ \t]+|async[ \t]+|const[ \t]+)*(fn|impl|trait|struct|mod)[ \t<].*)$
^[ \t]*(func[ \t].*)$
^[ \t]*((public|private|protected|internal|static|final|abstract|override)[ \t].*[({])[ \t]*$
^([A-Za-z_$].*)$"""
_SETTINGS = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "core.quotePath=true"),
    *("core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "safe.directory=*", "protocol.allow=never"),
    *("diff.orderFile=/dev/null", "submodule.recurse=false", "status.branch=false", "core.bigFileThreshold=512m"),
    f"diff.default.xfuncname={_FUNCTIONS}",
    *("log.showSignature=false", "color.ui=false", "advice.detachedHead=false", "core.warnAmbiguousRefs=false"),
)
_FIXED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}
_COMMAND = ("git", "--no-pager", *(word for setting in _SETTINGS for word in ("-c", setting)))


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git on one repository, within a deadline."""

    deadline: Deadline
    repository: Repository
    filters: tuple[str, ...] = ()
    """Filters in the repository's configuration. All of them are disabled."""
    visible_pathspecs: tuple[str, ...] = ()
    """Pathspecs for commands that read the work tree: they exclude hidden files, which git cannot read."""

    @classmethod
    def for_repository(cls, deadline: Deadline, repository: Repository) -> Git:
        """Reads the repository's configuration and prepares git. Raises ToolError if it has too many filters."""
        git, ctx = cls(deadline, repository), deadline.ctx
        ran = git.run("config", "--list", "--name-only", "-z", "--includes")
        keys = [os.fsdecode(key) for key in ran.out.split(b"\0") if key.startswith(b"filter.")]
        names = dict.fromkeys(key.removeprefix("filter.").rpartition(".")[0] for key in keys)
        if not ran.is_complete or len(names) > _MOST_FILTERS:  # a filter that is not disabled would be run
            raise ToolError(
                "The repository's configuration is too large to be made safe.",
                hint=f"Leave no more than {_MOST_FILTERS} filters in its .git/config and the files that it includes.",
            )
        hidden = ctx.sandboxes.get_read_only_sandbox(repository.extra_mounts).spec.hidden
        inside = (relative_to(path, repository.root) for path in hidden)
        covered = [f":(exclude,literal,top){path}" for path in inside if path is not None and path != "."]
        uncovered = ("--", ".", *covered) if covered else ()
        return replace(git, filters=tuple(names), visible_pathspecs=uncovered)

    @property
    def ctx(self) -> CallContext:
        return self.deadline.ctx

    def run(
        self, *arguments: str, output_bytes: int = OUTPUT_BYTES, allowed_codes: tuple[int, ...] = ()
    ) -> ProgramResult:
        """Runs git. Raises ToolError for an exit code other than 0 and `allowed_codes`, and OutOfTime."""
        return self._run_checked((*_COMMAND, *arguments), output_bytes, allowed_codes)

    def run_script(self, text: str, *arguments: str, output_bytes: int = OUTPUT_BYTES) -> ProgramResult:
        """Runs a shell script of ours, in which `git` is this git."""
        function = f'git() {{ command git {shlex.join(_COMMAND[1:])} "$@"; }}\n'
        return self._run_checked(("/bin/sh", "-c", f"{function}{text}", "sh", *arguments), output_bytes)

    def _run_checked(
        self, argv: tuple[str, ...], output_bytes: int, allowed_codes: tuple[int, ...] = ()
    ) -> ProgramResult:
        ran = run_program(
            self.ctx,
            argv,
            folder=self.repository.root,
            seconds=self.deadline.seconds_left(),
            output_bytes=output_bytes,
            extra_mounts=self.repository.extra_mounts,
            variables=self._variables(),
        )
        if ran.is_complete and ran.exit_code == _NOT_FOUND:
            raise ToolError("git was not found in the sandbox.", hint="Install git where the sandbox can see it.")
        if ran.is_complete and ran.exit_code and ran.exit_code not in allowed_codes:
            # git's message may quote the repository's configuration, and so any file that it includes.
            raise ToolError(
                f"git could not read the repository (exit code {ran.exit_code}).",
                hint="Run `git status` there to see what it says.",
            )
        return ran

    def _variables(self) -> dict[str, str]:
        off = [
            (f"filter.{name}.{key}", value)
            for name in self.filters
            for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        ]
        settings = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(off)}
        settings |= {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(off)}
        return {
            **_FIXED,
            "GIT_DIR": self.repository.git_dir,
            "GIT_WORK_TREE": self.repository.root,
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.ctx.mounts.workspace.path),
            "GIT_CONFIG_COUNT": str(len(off)),
            **settings,
        }
