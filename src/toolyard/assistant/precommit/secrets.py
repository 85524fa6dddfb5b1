"""Checks what a commit adds for secrets, and masks all secrets in the changes.

Only additions fail a commit: a secret that was there before is not caused by this commit. Removed and unchanged lines
are masked too, because the diff is sent to a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from toolyard.assistant.precommit.findings import LINE_CUT, NEW_PATH_STATUSES, Check, CheckDetail, FileChange
from toolyard.assistant.precommit.patches import MOST_LINE_CHARS
from toolyard.assistant.secrets.private_keys import KeyPart, is_base64_line
from toolyard.assistant.secrets.redaction import ScannedLine, scan_lines
from toolyard.assistant.secrets.scanner import MASK, SecretHit, SecretScanner, mask_hits, shared_scanner

NAME = "secrets"
_SECRET_FILE = re.compile(
    r"(?:^|/)(?:\.env(?:\.(?!(?:example|sample|template|dist|defaults?|schema)(?:\.|$))[\w.-]+)?|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|\.netrc|\.pgpass|\.htpasswd|\.git-credentials|\.aws/credentials|[\w.-]+\.ppk)$"
)
_KEY_STORE = re.compile(r"\.(?:p12|pfx|jks|keystore|kdbx)$", re.IGNORECASE)
_HEADING = re.compile(r"^(?P<hunk>@@+ [-+, \d]+ @@+) (?P<text>.*)$")
_SHOWN_CHARS = 2_000


@dataclass(slots=True)
class SecretScan:
    """Scans changes one after the other, and returns them masked."""

    check_time: Callable[[], None]
    failed: list[CheckDetail] = field(default_factory=list[CheckDetail])
    warned: list[CheckDetail] = field(default_factory=list[CheckDetail])
    _scanner: SecretScanner = field(default_factory=shared_scanner)
    _known: dict[str, list[SecretHit]] = field(default_factory=dict[str, list[SecretHit]])
    """Hits by line of the current change: each added line occurs again in the diff."""

    def mask_change(self, change: FileChange) -> FileChange:
        """Records the secrets of a change and returns it masked."""
        self._known.clear()
        self._check_name(change)
        added = tuple(self._scan_added(change))
        if _SECRET_FILE.search(change.path) and not change.withheld:
            change = replace(change, withheld="it is a file for secrets")
        if change.withheld:
            return replace(change, added=(), removed=(), diff="")
        return replace(change, added=added, removed=(), diff=self._masked_diff(change))

    def to_check(self) -> Check:
        return Check.from_details(NAME, failed=tuple(self.failed), warned=tuple(self.warned))

    def _check_name(self, change: FileChange) -> None:
        if change.status not in NEW_PATH_STATUSES:
            return
        for kind in dict.fromkeys(hit.kind for hit in self._scanner.find_secrets("", change.path) if hit.is_definite):
            self.failed.append(CheckDetail(change.path, 0, f"{kind} in its name"))
        if _SECRET_FILE.search(change.path):
            self.failed.append(
                CheckDetail(change.path, 0, "is a file for secrets: do not commit it, and add it to .gitignore")
            )
        elif _KEY_STORE.search(change.path):
            self.warned.append(CheckDetail(change.path, 0, "is a key store"))

    def _scan_added(self, change: FileChange) -> Iterator[tuple[int, str]]:
        numbers = [number for number, _ in change.added]
        begun: list[CheckDetail] = []
        for at, found in enumerate(self._scan_lines(change.path, (text for _, text in change.added), numbers)):
            for kind in dict.fromkeys(hit.kind for hit in found.hits):
                is_definite = any(hit.is_definite for hit in found.hits if hit.kind == kind)
                details = self.failed if is_definite else self.warned
                details.append(
                    CheckDetail(change.path, numbers[at], kind if is_definite else f"perhaps a secret ({kind})")
                )
            if found.part is KeyPart.BEGIN and not found.hits:
                begun.append(CheckDetail(change.path, numbers[at], "is the beginning of a private key"))
            elif found.part is KeyPart.FIRST and begun:  # the key itself is reported
                begun.pop()
            yield numbers[at], _mask_line(found)
        self.warned += begun

    def _masked_diff(self, change: FileChange) -> str:
        # git repeats an earlier line after the numbers of a hunk, which may be part of a key.
        lines = [_HEADING.sub(_mask_heading, line) for line in change.diff.split("\n")] if change.diff else []
        found = self._scan_lines(change.path, (line[1:] for line in lines), range(len(lines)))
        return "\n".join(
            _truncate_line(line, line[:1] + _mask_line(each)) for line, each in zip(lines, found, strict=True)
        )

    def _scan_lines(self, path: str, lines: Iterable[str], numbers: Iterable[int]) -> Iterator[ScannedLine]:
        """Scans each line for secrets.

        Allowlist comments are ignored: the author of the change could have written them, too.
        """
        numbered = zip(numbers, lines, strict=True)
        return scan_lines(numbered, lambda _, text, __: self._hits(path, text), self.check_time)

    def _hits(self, path: str, text: str) -> list[SecretHit]:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._scanner.find_secrets(path, text, self.check_time)
        return known


def mask_text(text: str) -> str:
    """Masks secrets in a text that is shown beside the changes, such as a name."""
    return mask_hits(text, shared_scanner().find_secrets("", text))


def _mask_heading(match: re.Match[str]) -> str:
    return match["hunk"] if is_base64_line(match["text"]) else match[0]


def _truncate_line(line: str, masked_line: str) -> str:
    """Cuts a line after masking, so that no part of a secret remains."""
    is_whole = len(masked_line) <= _SHOWN_CHARS and len(line) < MOST_LINE_CHARS
    return masked_line if is_whole else f"{masked_line[:_SHOWN_CHARS]}{LINE_CUT}"


def _mask_line(line: ScannedLine) -> str:
    # A line of base64 may belong to a key whose first line is not in the diff.
    return MASK if line.is_key_line or is_base64_line(line.text) else mask_hits(line.text, line.hits)
