"""The check for secrets in what a commit would add, and the changes with every secret masked.

Only what is added fails a commit: a secret that was there before is not this commit's doing. Masked is whatever looks
like one, in removed and unchanged lines too, for the diff goes to a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from toolyard.assistant.precommit.findings import LINE_CUT, NEW, Change, Check, Detail
from toolyard.assistant.precommit.patches import MOST_LINE_CHARS
from toolyard.assistant.secrets.private_keys import Part, is_encoded
from toolyard.assistant.secrets.redaction import ScannedLine, scan_lines
from toolyard.assistant.secrets.scanner import MASK, Hit, Scanner, masked, scanner

NAME = "secrets"
_SECRET_FILE = re.compile(
    r"(?:^|/)(?:\.env(?:\.(?!(?:example|sample|template|dist|defaults?|schema)(?:\.|$))[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|\.netrc|\.pgpass|\.htpasswd|\.git-credentials|\.aws/credentials|[\w.-]+\.ppk)$"
)
_KEY_STORE = re.compile(r"\.(?:p12|pfx|jks|keystore|kdbx)$", re.IGNORECASE)
_HEADING = re.compile(r"^(?P<hunk>@@+ [-+, \d]+ @@+) (?P<text>.*)$")
_SHOWN_CHARS = 2_000


@dataclass(slots=True)
class Scan:
    """Takes changes one after the other, and gives them back masked."""

    check_time: Callable[[], None]
    failed: list[Detail] = field(default_factory=list[Detail])
    warned: list[Detail] = field(default_factory=list[Detail])
    _scanner: Scanner = field(default_factory=scanner)
    _known: dict[str, list[Hit]] = field(default_factory=dict[str, list[Hit]])
    """What stands in the lines of this change: each is in what is added, and in the diff again."""

    def take(self, change: Change) -> Change:
        self._known.clear()
        self._name(change)
        added = tuple(self._added(change))
        if _SECRET_FILE.search(change.path) and not change.withheld:
            change = replace(change, withheld="it is a file for secrets")
        if change.withheld:
            return replace(change, added=(), removed=(), diff="")
        return replace(change, added=added, removed=(), diff=self._masked_diff(change))

    def result(self) -> Check:
        return Check.of(NAME, failed=tuple(self.failed), warned=tuple(self.warned))

    def _name(self, change: Change) -> None:
        if change.status not in NEW:
            return
        for kind in dict.fromkeys(hit.kind for hit in self._scanner.hits("", change.path) if hit.is_definite):
            self.failed.append(Detail(change.path, 0, f"{kind} in its name"))
        if _SECRET_FILE.search(change.path):
            self.failed.append(
                Detail(change.path, 0, "is a file for secrets: keep it out, and name it in .gitignore")
            )
        elif _KEY_STORE.search(change.path):
            self.warned.append(Detail(change.path, 0, "is a store of keys"))

    def _added(self, change: Change) -> Iterator[tuple[int, str]]:
        numbers = [number for number, _ in change.added]
        begun: list[Detail] = []
        for at, found in enumerate(self._found(change.path, (text for _, text in change.added), numbers)):
            for kind in dict.fromkeys(hit.kind for hit in found.hits):
                is_definite = any(hit.is_definite for hit in found.hits if hit.kind == kind)
                told = self.failed if is_definite else self.warned
                told.append(Detail(change.path, numbers[at], kind if is_definite else f"perhaps a secret ({kind})"))
            if found.part is Part.BEGIN and not found.hits:
                begun.append(Detail(change.path, numbers[at], "is how a private key begins"))
            elif found.part is Part.FIRST and begun:  # the key itself is told of
                begun.pop()
            yield numbers[at], _masked(found)
        self.warned += begun

    def _masked_diff(self, change: Change) -> str:
        # git repeats a line from further above behind the numbers of a hunk, and it may be one of a key.
        lines = [_HEADING.sub(_heading, line) for line in change.diff.split("\n")] if change.diff else []
        found = self._found(change.path, (line[1:] for line in lines), range(len(lines)))
        return "\n".join(_shortened(line, line[:1] + _masked(each)) for line, each in zip(lines, found, strict=True))

    def _found(self, path: str, lines: Iterable[str], numbers: Iterable[int]) -> Iterator[ScannedLine]:
        """Each line with what stands in it.

        No comment allows a secret: whoever writes the change could write that, too.
        """
        numbered = zip(numbers, lines, strict=True)
        return scan_lines(numbered, lambda _, text, __: self._hits(path, text), self.check_time)

    def _hits(self, path: str, text: str) -> list[Hit]:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._scanner.hits(path, text, self.check_time)
        return known


def without_secrets(text: str) -> str:
    """A text that is told beside the changes, such as a name."""
    return masked(text, scanner().hits("", text))


def _heading(match: re.Match[str]) -> str:
    return match["hunk"] if is_encoded(match["text"]) else match[0]


def _shortened(line: str, masked_line: str) -> str:
    """Cut after it was masked, so that no half of a secret is left."""
    is_whole = len(masked_line) <= _SHOWN_CHARS and len(line) < MOST_LINE_CHARS
    return masked_line if is_whole else f"{masked_line[:_SHOWN_CHARS]}{LINE_CUT}"


def _masked(line: ScannedLine) -> str:
    # A line of base64 is of a key perhaps, whose first line is elsewhere.
    return MASK if line.is_of_key or is_encoded(line.text) else masked(line.text, line.hits)
