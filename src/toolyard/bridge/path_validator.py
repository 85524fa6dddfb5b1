"""Whether a path of the client may be touched, told from its spelling before anybody is asked for it.

A path is resolved (`..` by name, as the server cannot see the client's links), compared with the policy, and handed
on in its one normal spelling. Links that the client reports are followed among each other, as its system would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from toolyard.bridge.errors import PathRefusedError, Violation, spelled
from toolyard.bridge.path_syntax import Form, Place, check_length, climbed, lies_in
from toolyard.bridge.policy import SecurityPolicy
from toolyard.core.errors import ValidationError

MOST_NAMES: Final = 100
"""Folders within each other, and the file: no project has more, and each costs time."""
MOST_LINKS: Final = 40
"""How many links may lie on one way. Linux follows as many."""

_MOST_SHOWN: Final = 10
_UP: Final = ".."
_HOME: Final = "~"
_NO_ROOT: Final = "The project's root is not known here: give the path relative to it, such as src/main.py."
_ALLOWING: Final = "Whoever runs the server can add it to filesystem.allowed_paths."
_INSIDE: Final = "Give a path inside the project, without `..`."
_LINKS: Final = "Ask for what it leads to, where that is allowed."


class PathValidator:
    """Holds paths against a policy. Every method raises PathRefusedError, and ValidationError for what is no path."""

    def __init__(self, policy: SecurityPolicy) -> None:
        self.policy: Final = policy

    def validate(self, path: str) -> str:
        """The normal spelling: absolute where the root is known, otherwise relative to the project, with `/`."""
        return self._spelled(path, self._judged(path, self.policy.form.parse(path)))

    def is_allowed(self, path: str) -> bool:
        try:
            self.validate(path)
        except (PathRefusedError, ValidationError):
            return False
        return True

    def lies_in(self, path: str, folder: str) -> bool:
        """Whether a validated path is that folder, validated too, or lies beneath it."""
        form = self.policy.form
        return lies_in(form.folded(form.parse(path)), form.folded(form.parse(folder)))

    def is_the_same(self, path: str, validated: str) -> bool:
        """Whether a path is another spelling of one that is validated."""
        try:
            return self.validate(path) == validated
        except (PathRefusedError, ValidationError):
            return False

    def validate_child(self, folder: str, name: str) -> str:
        """The path of an entry that a client reports: `name` is one ordinary name, nothing that leads elsewhere."""
        form = self.policy.form
        child = form.parse(name)
        if child != Place("", (name,)) or name == _UP:
            raise PathRefusedError(
                name, Violation.FORM, "is not a single name.", hint="An entry of a folder has a name without a path."
            )
        place = form.parse(folder)
        whole = Place(place.anchor, (*place.names, name))
        return self._spelled(name, self._judged(form.spell(whole), whole))

    def validate_link(self, link: str, target: str) -> str:
        """Where a link leads, by its spelling: `target` starts in the link's folder unless it is absolute."""
        return self.validate_links({link: target})[link]

    def validate_links(self, links: Mapping[str, str]) -> dict[str, str]:
        """Where each link of a listing leads in the end, over the others and through folders that are links.

        Refused are those that end outside (LINK), and those that lead to themselves, to a folder they lie in, or to
        one from which other links lead back to them (CIRCULAR).
        """
        ways = _Ways(self.policy)
        for path, target in links.items():
            ways.add(path, self._judged(path, self.policy.form.parse(path)), self.policy.form.parse(target))
        ends = {path: self._spelled(path, place) for path, place in ways.ends()}
        ways.refuse_circles()
        return ends

    def _judged(self, path: str, place: Place) -> Place:
        """Where a path leads, as the policy spells it."""
        policy = self.policy
        root = policy.root
        if place.anchor and not root.anchor:
            raise PathRefusedError(path, Violation.OUTSIDE, "is absolute.", hint=_NO_ROOT)
        has_climbed = _UP in place.names
        names = climbed(() if place.anchor else root.names, place.names)
        if names is None:
            raise self._refused(path, Violation.TRAVERSAL)
        if len(names) > MOST_NAMES:
            raise ValidationError.of(
                "path", f"has more than {MOST_NAMES} folders in it", hint="Ask for a folder that is less deep."
            )
        end = Place(place.anchor or root.anchor, names)
        allowed = policy.allowed(end)
        if allowed is None:
            has_left = has_climbed and policy.inside(end) is None
            raise self._refused(path, Violation.TRAVERSAL if has_left else Violation.OUTSIDE)
        return allowed

    def _refused(self, path: str, violation: Violation) -> PathRefusedError:
        climbs = violation is Violation.TRAVERSAL
        why = f"{'climbs out of the project' if climbs else 'is not allowed'}. {_telling(self.policy)}"
        return PathRefusedError(path, violation, why, hint=_INSIDE if climbs else _ALLOWING)

    def _spelled(self, path: str, place: Place) -> str:
        """What a path is answered with, once that means the same to everybody."""
        text = self.policy.form.spell(place)
        check_length(text)
        if text.startswith(_HOME):
            raise PathRefusedError(path, Violation.FORM, "starts at a home folder for some programs.", hint=_NO_ROOT)
        return text


def _telling(policy: SecurityPolicy) -> str:
    shown = [spelled(policy.relative(path)) for path in policy.allowed_paths[:_MOST_SHOWN]]
    if not shown:
        return "Nothing is."
    more = len(policy.allowed_paths) - len(shown)
    return f"Allowed: {', '.join(shown)}{f' and {more} more' if more else ''}."


class _Step(NamedTuple):
    """A place that a way has reached; the first one is an anchor."""

    above: _Step | None
    name: str
    node: _Node | None

    def place(self) -> Place:
        names: list[str] = []
        step = self
        while step.above is not None:
            names.append(step.name)
            step = step.above
        return Place(step.name, tuple(reversed(names)))


class _Link:
    __slots__ = ("count", "end", "path", "place", "target")

    def __init__(self, path: str, place: Place, target: Place) -> None:
        self.path: Final = path
        self.place: Final = place
        self.target: Final = target
        self.end: _Step | None = None
        self.count = 1
        """How many links are followed, this one included."""

    def refused(self, violation: Violation, why: str) -> PathRefusedError:
        return PathRefusedError(self.path, violation, f"is a link that leads {why}.", hint=_LINKS)


class _Node:
    """A name on the way to links, in the tree of all of them."""

    __slots__ = ("below", "link")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.link: _Link | None = None

    def ways(self) -> Iterator[tuple[_Node, _Link | None]]:
        """What can be reached from here in one step, and over which link."""
        for node in self.below.values():
            yield node, None
        if self.link is not None and self.link.end is not None and self.link.end.node is not None:
            yield self.link.end.node, self.link


class _Ways:
    """The links of a listing. Each is followed once, so that links upon links cost no more than their number."""

    def __init__(self, policy: SecurityPolicy) -> None:
        self._policy = policy
        self._form: Form = policy.form
        self._top = _Node()
        self._links: list[tuple[str, _Link]] = []
        self._open: list[_Link] = []

    def add(self, path: str, place: Place, target: Place) -> None:
        node = self._top
        folded = self._form.folded(place)
        for name in (folded.anchor, *folded.names):
            node = node.below.setdefault(name, _Node())
        if node.link is not None and node.link.target != target:
            raise ValidationError.of("path", "is one link with two targets", hint="Name each link once.")
        node.link = node.link or _Link(path, place, target)
        self._links.append((path, node.link))

    def ends(self) -> Iterator[tuple[str, Place]]:
        for path, link in self._links:
            allowed = self._policy.allowed(self._end(link).place())
            if allowed is None:
                raise link.refused(Violation.LINK, "outside of what is allowed")
            yield path, allowed

    def refuse_circles(self) -> None:
        """Refuses links by which somebody who walks through all folders would come back to where they were."""
        on_way, done = {id(self._top)}, set[int]()
        way: list[tuple[_Node, _Link | None, Iterator[tuple[_Node, _Link | None]]]]
        way = [(self._top, None, self._top.ways())]
        while way:
            node, _, ahead = way[-1]
            following, over = next(ahead, (None, None))
            if following is None:
                way.pop()
                on_way.discard(id(node))
                done.add(id(node))
            elif id(following) in on_way:
                # Names alone only lead down: the last link on the way is what closes the circle.
                last = over or next(link for _, link, _ in reversed(way) if link is not None)
                raise last.refused(Violation.CIRCULAR, "back to a folder on the way to it")
            elif id(following) not in done:
                on_way.add(id(following))
                way.append((following, over, following.ways()))

    def _end(self, link: _Link) -> _Step:
        if link.end is not None:
            return link.end
        if link in self._open:
            raise link.refused(Violation.CIRCULAR, "to itself")
        self._open.append(link)
        self._refuse_many(link, len(self._open))
        link.end = self._followed(link)
        self._open.pop()
        return link.end

    def _followed(self, link: _Link) -> _Step:
        start, target = link.place, link.target
        if (target.anchor or not start.names) and not self._policy.root.anchor:
            raise link.refused(Violation.LINK, "to where the project's root would have to be known")
        anchor = target.anchor or start.anchor
        names = target.names if target.anchor else start.names[:-1] + target.names
        folded = self._form.folded(Place(anchor, names))
        step = _Step(None, anchor, self._top.below.get(folded.anchor))
        for name, key in zip(names, folded.names, strict=True):
            if name == _UP:
                if step.above is None:
                    raise link.refused(Violation.LINK, "out of the project")
                step = step.above
                continue
            node = step.node.below.get(key) if step.node is not None else None
            step = _Step(step, name, node)
            if node is not None and node.link is not None:
                step = self._end(node.link)
                link.count += node.link.count
                self._refuse_many(link, link.count)
        return step

    def _refuse_many(self, link: _Link, count: int) -> None:
        if count > MOST_LINKS:
            raise link.refused(Violation.CIRCULAR, f"over more than {MOST_LINKS} others")
