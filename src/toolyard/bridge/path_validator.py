"""Validates a client's path against the policy by its spelling, before the client is asked for it.

A path is resolved (`..` lexically, because the server cannot see the client's links), compared with the policy, and
returned in its normal spelling. Links that the client reports are resolved as its system would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from toolyard.bridge.errors import PathRefusedError, Violation, printable_text
from toolyard.bridge.path_syntax import ParsedPath, PathSyntax, check_length, lies_in, resolve_parents
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import ValidationError

MAX_NAMES: Final = 100
"""Maximum depth of a path: no project is deeper, and each level costs time."""
MAX_LINKS: Final = 40
"""Maximum number of links on one path, as on Linux."""

_MAX_SHOWN: Final = 10
_PARENT: Final = ".."
_HOME: Final = "~"
_NO_ROOT_HINT: Final = (
    "The server does not know the project's root: give the path relative to it, such as src/main.py."
)
_ALLOW_HINT: Final = "The server's operator can add it to filesystem.allowed_paths."
_INSIDE_HINT: Final = "Give a path inside the project, without `..`."
_LINK_HINT: Final = "Request the link's target instead, if that is allowed."


class PathValidator:
    """Checks paths against a policy.

    Args:
        policy: The client's project and the allowed paths in it.

    Raises:
        PathRefusedError: From every method, for a forbidden path.
        ValidationError: From every method, for an invalid path.

    Example:
        ```python
        validator = PathValidator(SecurityPolicy("/home/me/project", ["src"]))
        assert validator.validate("src/main.py") == "/home/me/project/src/main.py"
        ```

    """

    def __init__(self, policy: SecurityPolicy) -> None:
        self.policy: Final = policy

    def validate(self, path: str) -> str:
        """Returns the normal spelling: absolute if the root is known, otherwise relative to the project, with `/`."""
        return self._normal_spelling(path, self._resolve_allowed(path, self.policy.form.parse(path)))

    def is_allowed(self, path: str) -> bool:
        try:
            self.validate(path)
        except (PathRefusedError, ValidationError):
            return False
        return True

    def lies_in(self, path: str, folder: str) -> bool:
        """Whether a validated path equals a validated folder or is beneath it."""
        form = self.policy.form
        return lies_in(form.fold_case(form.parse(path)), form.fold_case(form.parse(folder)))

    def is_the_same(self, path: str, validated: str) -> bool:
        """Whether a path is a spelling of a validated one."""
        try:
            return self.validate(path) == validated
        except (PathRefusedError, ValidationError):
            return False

    def validate_child(self, folder: str, name: str) -> str:
        """Returns the path of an entry that a client reports; `name` must be a single ordinary name."""
        form = self.policy.form
        child = form.parse(name)
        if child != ParsedPath("", (name,)) or name == _PARENT:
            raise PathRefusedError(
                name,
                Violation.FORM,
                "is not a single name.",
                hint="The entry of a folder must be a name, not a path.",
            )
        place = form.parse(folder)
        whole = ParsedPath(place.anchor, (*place.names, name))
        return self._normal_spelling(name, self._resolve_allowed(form.spell(whole), whole))

    def validate_link(self, link: str, target: str) -> str:
        """Returns the target of a link; a relative `target` starts in the link's folder."""
        return self.validate_links({link: target})[link]

    def validate_links(self, links: Mapping[str, str]) -> dict[str, str]:
        """Returns the final target of each link of a listing, resolved through other links and linked folders.

        Refuses links that end outside (LINK), and links that lead to themselves, to a parent folder, or to a folder
        from which other links lead back to them (CIRCULAR).
        """
        ways = _LinkGraph(self.policy)
        for path, target in links.items():
            ways.add(path, self._resolve_allowed(path, self.policy.form.parse(path)), self.policy.form.parse(target))
        ends = {path: self._normal_spelling(path, place) for path, place in ways.resolve_all()}
        ways.refuse_cycles()
        return ends

    def _resolve_allowed(self, path: str, place: ParsedPath) -> ParsedPath:
        """Returns the resolved path in the policy's spelling if it is allowed."""
        policy = self.policy
        root = policy.root
        if place.anchor and not root.anchor:
            raise PathRefusedError(path, Violation.OUTSIDE, "is absolute.", hint=_NO_ROOT_HINT)
        has_climbed = _PARENT in place.names
        names = resolve_parents(() if place.anchor else root.names, place.names)
        if names is None:
            raise self._refusal(path, Violation.TRAVERSAL)
        if len(names) > MAX_NAMES:
            raise ValidationError.of(
                "path", f"is more than {MAX_NAMES} levels deep", hint="Request a folder that is less deep."
            )
        end = ParsedPath(place.anchor or root.anchor, names)
        allowed = policy.allowed_place(end)
        if allowed is None:
            has_left = has_climbed and policy.names_inside_root(end) is None
            raise self._refusal(path, Violation.TRAVERSAL if has_left else Violation.OUTSIDE)
        return allowed

    def _refusal(self, path: str, violation: Violation) -> PathRefusedError:
        climbs = violation is Violation.TRAVERSAL
        why = f"{'climbs out of the project' if climbs else 'is not allowed'}. {_allowed_paths_text(self.policy)}"
        return PathRefusedError(path, violation, why, hint=_INSIDE_HINT if climbs else _ALLOW_HINT)

    def _normal_spelling(self, path: str, place: ParsedPath) -> str:
        """Returns the normal spelling of a path, unless other programs would read it differently."""
        text = self.policy.form.spell(place)
        check_length(text)
        if text.startswith(_HOME):
            raise PathRefusedError(path, Violation.FORM, "means a home folder to some programs.", hint=_NO_ROOT_HINT)
        return text


def _allowed_paths_text(policy: SecurityPolicy) -> str:
    shown = [printable_text(policy.relative(path)) for path in policy.allowed_paths[:_MAX_SHOWN]]
    if not shown:
        return "No paths are allowed."
    more = len(policy.allowed_paths) - len(shown)
    return f"Allowed: {', '.join(shown)}{f' and {more} more' if more else ''}."


class _Step(NamedTuple):
    """A step of a resolved path; the first one is an anchor."""

    above: _Step | None
    name: str
    node: _Node | None

    def place(self) -> ParsedPath:
        names: list[str] = []
        step = self
        while step.above is not None:
            names.append(step.name)
            step = step.above
        return ParsedPath(step.name, tuple(reversed(names)))


class _Link:
    __slots__ = ("count", "end", "path", "place", "target")

    def __init__(self, path: str, place: ParsedPath, target: ParsedPath) -> None:
        self.path: Final = path
        self.place: Final = place
        self.target: Final = target
        self.end: _Step | None = None
        self.count = 1
        """Number of links followed, including this one."""

    def refusal(self, violation: Violation, why: str) -> PathRefusedError:
        return PathRefusedError(self.path, violation, f"is a link that leads {why}.", hint=_LINK_HINT)


class _Node:
    """A node in the tree of names that lead to links."""

    __slots__ = ("below", "link")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.link: _Link | None = None

    def reachable_nodes(self) -> Iterator[tuple[_Node, _Link | None]]:
        """Yields the nodes reachable in one step, with the link that leads to them."""
        for node in self.below.values():
            yield node, None
        if self.link is not None and self.link.end is not None and self.link.end.node is not None:
            yield self.link.end.node, self.link


class _LinkGraph:
    """The links of a listing. Each is resolved once, so that the cost of chained links is linear in their number."""

    def __init__(self, policy: SecurityPolicy) -> None:
        self._policy = policy
        self._form: PathSyntax = policy.form
        self._top = _Node()
        self._links: list[tuple[str, _Link]] = []
        self._links_in_progress: list[_Link] = []

    def add(self, path: str, place: ParsedPath, target: ParsedPath) -> None:
        node = self._top
        folded = self._form.fold_case(place)
        for name in (folded.anchor, *folded.names):
            node = node.below.setdefault(name, _Node())
        if node.link is not None and node.link.target != target:
            raise ValidationError.of("path", "is one link with two targets", hint="Name each link once.")
        node.link = node.link or _Link(path, place, target)
        self._links.append((path, node.link))

    def resolve_all(self) -> Iterator[tuple[str, ParsedPath]]:
        for path, link in self._links:
            allowed = self._policy.allowed_place(self._resolve_link(link).place())
            if allowed is None:
                raise link.refusal(Violation.LINK, "outside the allowed paths")
            yield path, allowed

    def refuse_cycles(self) -> None:
        """Refuses links through which a recursive walk of all folders would not terminate."""
        on_way, done = {id(self._top)}, set[int]()
        way: list[tuple[_Node, _Link | None, Iterator[tuple[_Node, _Link | None]]]]
        way = [(self._top, None, self._top.reachable_nodes())]
        while way:
            node, _, ahead = way[-1]
            following, over = next(ahead, (None, None))
            if following is None:
                way.pop()
                on_way.discard(id(node))
                done.add(id(node))
            elif id(following) in on_way:
                # Names alone only lead down, so the last link on the path closes the cycle.
                last = over or next(link for _, link, _ in reversed(way) if link is not None)
                raise last.refusal(Violation.CIRCULAR, "back to a folder on the way to it")
            elif id(following) not in done:
                on_way.add(id(following))
                way.append((following, over, following.reachable_nodes()))

    def _resolve_link(self, link: _Link) -> _Step:
        if link.end is not None:
            return link.end
        if link in self._links_in_progress:
            raise link.refusal(Violation.CIRCULAR, "to itself")
        self._links_in_progress.append(link)
        self._check_link_count(link, len(self._links_in_progress))
        link.end = self._follow_link(link)
        self._links_in_progress.pop()
        return link.end

    def _follow_link(self, link: _Link) -> _Step:
        start, target = link.place, link.target
        if (target.anchor or not start.names) and not self._policy.root.anchor:
            raise link.refusal(Violation.LINK, "to an absolute path, but the project's root is not known")
        anchor = target.anchor or start.anchor
        names = target.names if target.anchor else start.names[:-1] + target.names
        folded = self._form.fold_case(ParsedPath(anchor, names))
        step = _Step(None, anchor, self._top.below.get(folded.anchor))
        for name, key in zip(names, folded.names, strict=True):
            if name == _PARENT:
                if step.above is None:
                    raise link.refusal(Violation.LINK, "out of the project")
                step = step.above
                continue
            node = step.node.below.get(key) if step.node is not None else None
            step = _Step(step, name, node)
            if node is not None and node.link is not None:
                step = self._resolve_link(node.link)
                link.count += node.link.count
                self._check_link_count(link, link.count)
        return step

    def _check_link_count(self, link: _Link, count: int) -> None:
        if count > MAX_LINKS:
            raise link.refusal(Violation.CIRCULAR, f"over more than {MAX_LINKS} others")
