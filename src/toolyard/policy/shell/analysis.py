"""The answer about one command: what it will do, whether it only reads, whether it can work at all."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.effects import CommandEffect, Seen, shortened, summary
from toolyard.policy.shell.expansion import Expanded, Part, expand
from toolyard.policy.shell.parser import parse
from toolyard.policy.shell.read_only_commands import SILENT, is_quiet, may_read, moves, only_reads
from toolyard.policy.shell.rules import operands
from toolyard.policy.shell.rules_all import all_rules

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Script, Simple
    from toolyard.policy.shell.rules import EffectRule

ANALYSES_KEPT: Final = 32
"""One decision asks about the same text for every rule; a long text's analysis may take a few megabytes."""
_CONNECTIONS: Final = ("/dev/tcp/", "/dev/udp/")
_LOOKUPS: Final = frozenset({"[", "[[", "test", "command", "which", "type", "hash", "grep", "id", "whereis", "read"})
"""What stands before `&&` to find out whether the rest should run."""

_MISSING: Final = {CommandEffect.PRIVILEGES: ", and has none", CommandEffect.TERMINAL: ", and there is none"}


@dataclass(frozen=True, slots=True)
class Piece:
    """One command of a compound one, as a permission may be about it."""

    text: str
    read_only: bool
    plain: bool
    """Whether `text` is all there is to it: no expansion, assignment or file written, nothing in the background."""


@dataclass(frozen=True, slots=True)
class Analysis:
    effects: tuple[Seen, ...] = ()
    understood: bool = True
    """Whether the text shows which programs it runs."""
    read_only: bool = False
    summary: str = ""
    """What it will do, to follow a subject: `deletes files (rm -rf build)`."""
    refusal: str | None = None
    """Why it cannot work in a sandbox without terminal and privileges."""
    hint: str | None = None
    """What to do instead; set with `refusal`."""
    commands: tuple[str, ...] = ()
    """Every simple command in it, in each spelling a rule may name it by."""
    shows_all: bool = False
    """Whether `commands` is surely everything: nothing evaluates text, sources a file or feeds a shell."""
    pieces: tuple[Piece, ...] = ()
    """The commands as written, when each can be judged by itself; else empty."""
    plain: bool = False
    """Whether it is one plain simple command, `commands[0]`."""

    def has(self, effect: CommandEffect) -> bool:
        return any(seen.effect is effect for seen in self.effects)

    @property
    def uses_network(self) -> bool:
        return self.has(CommandEffect.NETWORK)


@functools.lru_cache(maxsize=ANALYSES_KEPT)
def analyse(command: str) -> Analysis:
    """Never raises: a text that is not understood is an analysis that says so."""
    try:
        script = parse(command)
        found = expand(script)
    except ParseFailure as failure:
        return Analysis(understood=False, summary=f"may do anything (its text is not understood: {failure})")
    seen: list[Seen] = []
    refused: tuple[Part, EffectRule] | None = None
    for part in found.parts:
        rules = all_rules().of(part.simple)
        seen.extend(_effects(part, rules, found.functions))
        refusing = next((rule for rule in rules if rule.refusal), None)
        if refused is None and refusing is not None and _surely_runs(part, found):
            refused = (part, refusing)
    effects = tuple(dict.fromkeys(seen))
    dynamic = any(part.simple.program is not None and not part.simple.name for part in found.parts)
    understood = not dynamic and not found.obscure
    pieces = _pieces(script, found) if understood and not found.functions else ()
    return Analysis(
        effects=effects,
        understood=understood,
        read_only=bool(pieces) and all(piece.read_only for piece in pieces),
        summary=_summary(effects, found),
        refusal=None if refused is None else _refusal(*refused),
        hint=None if refused is None else refused[1].refusal,
        commands=tuple(dict.fromkeys(text for part in found.parts for text in _spellings(part.simple))),
        shows_all=understood and not any(one.effect is CommandEffect.RUNS_CODE for one in effects),
        pieces=pieces,
        plain=len(pieces) == 1 and pieces[0].plain and _is_spelled_plainly(command, script),
    )


def _effects(part: Part, rules: tuple[EffectRule, ...], functions: set[str]) -> list[Seen]:
    simple = part.simple
    shown = simple.shown
    found = [Seen(rule.effect, shown) for rule in rules]
    for redirection in simple.redirections:
        target = redirection.target.text if redirection.target else ""
        if target.startswith(_CONNECTIONS):
            found.append(Seen(CommandEffect.NETWORK, redirection.shown))
        elif redirection.writes and not is_quiet(redirection):
            found.append(Seen(CommandEffect.WRITES, f"{shown} {redirection.shown}".strip()))
    if simple.place.background:
        found.append(Seen(CommandEffect.BACKGROUND, f"{shown} &".strip()))
    if simple.program is None:
        return found
    if part.opaque or not simple.name:
        found.append(Seen(CommandEffect.RUNS_CODE, shown))
    elif not rules and not part.wraps and simple.name not in functions and simple.name not in SILENT:
        found.append(Seen(CommandEffect.READS if may_read(simple) else CommandEffect.RUNS_PROGRAM, shown))
    return found


def _summary(effects: tuple[Seen, ...], found: Expanded) -> str:
    told = summary(effects)
    if found.obscure:
        more = f"may run more than it shows ({shortened(found.obscure[0])})"
        return f"{told}, {more}" if told else more
    return told or "changes nothing outside the shell"


def _surely_runs(part: Part, found: Expanded) -> bool:
    """Whether the command will be reached. One that is tried and has a substitute is not refused."""
    place = part.simple.place
    if place.conditional or place.function or found.functions:
        return False
    if any(other.simple.place.joined == "||" for other in found.parts):
        return False
    before = found.parts[: found.parts.index(part)]
    return place.joined != "&&" or not any(other.simple.name in _LOOKUPS for other in before)


def _refusal(part: Part, rule: EffectRule) -> str:
    missing = _MISSING.get(rule.effect, "")
    return f'"{shortened(part.simple.shown)}" cannot work here: it {rule.effect}{missing}.'


def _spellings(simple: Simple) -> list[str]:
    """As typed, by the bare name, and for git without the options before its subcommand."""
    if not simple.name:
        return [simple.shown] if simple.program is not None else []
    rest = " ".join(word.shown for word in simple.arguments)
    found = [simple.shown, f"{simple.name} {rest}".rstrip()]
    if simple.name == "git" and simple.arguments and simple.arguments[0].may_be_option:
        words = operands(simple)
        texts = [word.text for word in simple.arguments]
        if words:
            after = simple.arguments[texts.index(words[0]) :]
            found.append(" ".join(["git", *(word.shown for word in after)]))
    return found


def _pieces(script: Script, found: Expanded) -> tuple[Piece, ...]:
    moved = any(moves(part.simple) for part in found.parts)
    reading = [True] * len(script.commands)
    for part in found.parts:
        reading[part.top] = reading[part.top] and not part.opaque and only_reads(part.simple, moved=moved)
    return tuple(
        Piece(simple.shown, read_only, _is_plain(simple))
        for simple, read_only in zip(script.commands, reading, strict=True)
    )


def _is_spelled_plainly(command: str, script: Script) -> bool:
    """Whether there is nothing beside the words, and the program's name stands there as it is."""
    simple = script.commands[0]
    spelled = command.split(maxsplit=1)[0]
    return not script.comments and not simple.redirections and spelled == (simple.program and simple.program.text)


def _is_plain(simple: Simple) -> bool:
    return (
        simple.program is not None
        and simple.program.literal
        and all(word.literal or word.globs for word in simple.arguments)
        and not simple.assignments
        and not simple.place.background
        and all(is_quiet(redirection) for redirection in simple.redirections)
    )
