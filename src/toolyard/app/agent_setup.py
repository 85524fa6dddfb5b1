"""Prepares an agent's folders: creates them, links them beside the agent's files, and adds them to its policy.

The policy enforces access: the real folders are context paths, which the policy checks and every sandbox mounts. The
links are a convenience only. A missing link is created at the next start, an existing file is never replaced, and a
link that an agent changes gives it no further access.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from toolyard.app.git_exclude import exclude_links
from toolyard.codemode.generated_folder import SERVERS, TOOLS, generated_path
from toolyard.config.memory_access import MemoryAccess, may_access
from toolyard.core.agent_folder_names import AGENTS, WORKSPACE, agent_folder
from toolyard.core.errors import ConfigError
from toolyard.core.paths import is_beneath, relative_to
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.files.roots import Root
from toolyard.files.temp_names import temporary_name
from toolyard.policy.builder import with_hidden_folder
from toolyard.policy.policy import ContextPath
from toolyard.storage.state_folder import PRIVATE_FOLDER
from toolyard.workspace.agent_paths import AgentPaths
from toolyard.workspace.agent_view import AgentView, build_agent_view
from toolyard.workspace.layout import MEMORY, SKILLS, TASKS, create_layout, previous_trees_folder
from toolyard.workspace.layout_registry import layout_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toolyard.policy.policy import Policy

_GENERATED_FOLDERS = (SERVERS, TOOLS)


def make_folders(home: AgentPaths) -> None:
    """Creates the missing folders of a layout; safe to call from several processes at once."""
    if not home.has_layout:
        return
    with contextlib.closing(Root(home.root)) as root:
        create_layout(root, home.agents)
    try:
        # Private: shared files may come from folders that other users cannot enter.
        os.makedirs(home.shared_folder, mode=PRIVATE_FOLDER, exist_ok=True)
        with contextlib.suppress(OSError):  # what is there can be closed to an agent that works around it
            os.mkdir(previous_trees_folder(home.shared_folder), PRIVATE_FOLDER)
    except OSError as error:
        raise ConfigError(
            f"the folder {home.shared_folder}, where agents share their work, cannot be created: {error.strerror}.",
            hint="Choose another `orchestrator.agent_temporary_workspace`.",
        ) from error


def view_of(home: AgentPaths) -> AgentView:
    """Returns the folders that the agent sees beside its files; empty unless it belongs to a layout."""
    if not home.is_member:
        return AgentView((), {})
    generated = {name: generated_path(home.root, name, home.state) for name in _GENERATED_FOLDERS}
    return build_agent_view(
        home.root,
        home.agent,
        home.memory_rules,
        generated=generated,
        shared=home.shared_folder,
        attached=home.attached_skills,
    )


def make_links(home: AgentPaths, links: Mapping[str, str]) -> None:
    """Creates a link for each free name. A failure is ignored: the folders are still reachable at their own paths."""
    with contextlib.suppress(OSError):
        folder = os.open(home.workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name, target in links.items():
                try:
                    os.symlink(target, name, dir_fd=folder)
                except FileExistsError:
                    if _is_stale_link(home, folder, name, target):
                        _replace_link(folder, name, target)
            exclude_links(folder, [name for name, target in links.items() if _leads_to(folder, name, target)])
        finally:
            os.close(folder)


def _leads_to(folder: int, name: str, target: str) -> bool:
    try:
        return os.readlink(name, dir_fd=folder) == target
    except OSError:
        return False


def _is_stale_link(home: AgentPaths, folder: int, name: str, target: str) -> bool:
    """Whether the link is ours and points to the root's former place, which no longer exists."""
    if not home.is_own_folder:
        return False
    try:
        leads_to = os.readlink(name, dir_fd=folder)
    except OSError:
        return False
    below = os.path.relpath(target, home.root)
    is_ours = leads_to != target and leads_to.endswith(f"/{below}") and not below.startswith("..")
    return is_ours and not os.path.lexists(leads_to)


def _replace_link(folder: int, name: str, target: str) -> None:
    temporary = temporary_name()
    os.symlink(target, temporary, dir_fd=folder)
    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def valid_links(workspace: str, links: Mapping[str, str]) -> dict[str, str]:
    """Returns, by path, the links that exist and point to their targets; these are ours, not the agent's work."""
    found: dict[str, str] = {}
    for name, target in links.items():
        path = os.path.join(workspace, name)
        with contextlib.suppress(OSError):
            if os.readlink(path) == target:
                found[path] = target
    return found


def excluded_from_snapshots(home: AgentPaths) -> list[str]:
    """Returns what lies in the agent's folder but is not its work: our links, and a root inside it.

    The paths are relative to the folder and escaped for gitignore: a special character becomes `?`, which matches any
    one character.
    """
    links = (os.path.basename(path) for path in valid_links(home.workspace, view_of(home).links))
    # Links into a layout belong to its agent even if this run did not load its configuration.
    found = list(dict.fromkeys([*links, *layout_links(home.workspace)]))
    if home.has_layout:
        held = (relative_to(path, home.workspace) for path in _root_folders(home))
        found += [relative for relative in held if relative]
    return ["".join("?" if char in "*?[]\\! " else char for char in relative) for relative in found]


def _root_folders(home: AgentPaths) -> Iterator[str]:
    if home.has_separate_root:
        yield home.root
    else:
        yield from (
            os.path.join(home.root, generated_path(home.root, name, home.state)) for name in _GENERATED_FOLDERS
        )
        yield from (home.skills, os.path.join(home.root, AGENTS))
    yield from (home.shared_folder, previous_trees_folder(home.shared_folder))


def with_layout_rules(home: AgentPaths, policy: Policy, *, code_mode: bool) -> Policy:
    """Returns the policy with the agent's folders: shared ones readable, those of other agents hidden.

    Without a layout only code mode needs them.
    """
    attached = tuple(ContextPath(path) for path in home.attached_skills)
    if home.is_member:
        policy = replace(policy, context=(*policy.context, *view_of(home).context))
        if not home.has_separate_root:
            policy = _with_generated_protected(home, policy)
    elif not code_mode:
        policy = replace(policy, context=(*policy.context, *attached))
    elif not home.has_separate_root:
        policy = _with_generated_protected(home, replace(policy, context=(*policy.context, *attached)))
    else:
        policy = replace(policy, context=(*policy.context, *_external_folders(home), *attached))
    for folder in _folders_to_hide(home, policy):
        policy = with_hidden_folder(policy, folder)
    return policy


def _with_generated_protected(home: AgentPaths, policy: Policy) -> Policy:
    generated = (f"/{generated_path(home.root, name, home.state)}" for name in _GENERATED_FOLDERS)
    return replace(policy, protected=(*policy.protected, *generated))


def _external_folders(home: AgentPaths) -> Iterator[ContextPath]:
    """Yields the tool files and skills of a root outside the workspace as context paths."""
    if not home.has_layout:
        # Created now, so that skills and tool files that are saved later appear in mounts that already exist.
        for folder in (home.skills, os.path.join(home.root, generated_path(home.root, SERVERS, home.state))):
            with contextlib.suppress(OSError):
                os.mkdir(folder)
    access = {SERVERS: Access.READ, TOOLS: Access.READ, SKILLS: Access.READ if home.has_layout else Access.WRITE}
    for name, right in access.items():
        path = os.path.join(home.root, name if name == SKILLS else generated_path(home.root, name, home.state))
        if os.path.isdir(path) and os.path.realpath(path) == path:
            yield ContextPath(path, right)


def _folders_to_hide(home: AgentPaths, policy: Policy) -> Iterator[str]:
    """Yields folders inside the agent's reach that it must not read: those of its peers, and the root's state."""
    if not home.has_layout or policy.mode is PermissionMode.BYPASS:
        return
    opened = [policy.workspace, *(entry.path for entry in policy.context)]
    if policy.mode is PermissionMode.MODERATE:
        opened += policy.extra_roots
    for folder in _folders_of_others(home):
        held = any(is_beneath(folder, root) and folder != root for root in opened)
        if held and not is_beneath(home.workspace, folder):
            yield folder


def _folders_of_others(home: AgentPaths) -> Iterator[str]:
    for peer in home.peers:
        if not may_access(home.agent, peer, MemoryAccess.READ, home.memory_rules):
            # The whole folder: hidden parts could otherwise be moved out of their hidden path.
            yield os.path.dirname(os.path.join(home.root, agent_folder(peer, MEMORY)))
            continue
        for part in (WORKSPACE, TASKS):
            yield os.path.join(home.root, agent_folder(peer, part))
    yield previous_trees_folder(home.shared_folder)
    yield os.path.realpath(home.state)
    if home.snapshots_override:
        yield home.snapshots_override
