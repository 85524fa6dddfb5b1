"""Analyses one command: its effects, whether it only reads, and whether it can work in a sandbox at all."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.effects import CommandEffect, ObservedEffect, shorten_words, summarize_effects
from toolyard.policy.shell.expansion import ExpandedCommand, ExpandedScript, expand_script
from toolyard.policy.shell.parser import parse_script
from toolyard.policy.shell.read_only_commands import (
    UNREPORTED_PROGRAMS,
    changes_folder,
    is_harmless_redirection,
    is_known_reader,
    is_read_only_command,
)
from toolyard.policy.shell.rules import operands
from toolyard.policy.shell.rules_all import all_rules

if TYPE_CHECKING:
    from toolyard.policy.shell.ast import Script, SimpleCommand
    from toolyard.policy.shell.rules import EffectRule

MAX_CACHED_ANALYSES: Final = 32
"""Every rule of a decision analyses the same text; the analysis of a long text may take a few megabytes."""
_NETWORK_DEVICES: Final = ("/dev/tcp/", "/dev/udp/")
_LOOKUPS: Final = frozenset({"[", "[[", "test", "command", "which", "type", "hash", "grep", "id", "whereis", "read"})
"""Commands used before `&&` to test whether the rest should run."""

_MISSING: Final = {CommandEffect.PRIVILEGES: ", and has none", CommandEffect.TERMINAL: ", and there is none"}


@dataclass(frozen=True, slots=True)
class Piece:
    """One command of a compound command, as a rule may match it."""

    text: str
    read_only: bool
    plain: bool
    """Whether `text` is the whole command: no expansion, assignment, output file or background job."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the text of a command shows about its effects."""

    effects: tuple[ObservedEffect, ...] = ()
    understood: bool = True
    """Whether the text shows which programs it runs."""
    read_only: bool = False
    summary: str = ""
    """The effects as a predicate: `deletes files (rm -rf build)`."""
    refusal: str | None = None
    """Why it cannot work in a sandbox without a terminal and privileges."""
    hint: str | None = None
    """What to do instead; set with `refusal`."""
    commands: tuple[str, ...] = ()
    """Every simple command in it, in each spelling that a rule may use."""
    shows_all: bool = False
    """Whether `commands` is certainly complete: nothing evaluates text, sources a file or feeds a shell."""
    pieces: tuple[Piece, ...] = ()
    """The commands as written, if each can be decided separately; otherwise empty."""
    plain: bool = False
    """Whether it is one plain simple command, `commands[0]`."""

    def has_effect(self, effect: CommandEffect) -> bool:
        return any(seen.effect is effect for seen in self.effects)

    @property
    def uses_network(self) -> bool:
        return self.has_effect(CommandEffect.NETWORK)


@functools.lru_cache(maxsize=MAX_CACHED_ANALYSES)
def analyse(command: str) -> Analysis:
    """Returns the analysis of a command. Never raises: text that cannot be parsed has `understood=False`."""
    try:
        script = parse_script(command)
        found = expand_script(script)
    except ParseFailure as failure:
        return Analysis(understood=False, summary=f"may do anything (its text cannot be parsed: {failure})")
    seen: list[ObservedEffect] = []
    refused: tuple[ExpandedCommand, EffectRule] | None = None
    for part in found.parts:
        rules = all_rules().matching_rules(part.simple)
        seen.extend(_observed_effects(part, rules, found.functions))
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
        summary=_summarize(effects, found),
        refusal=None if refused is None else _refusal_message(*refused),
        hint=None if refused is None else refused[1].refusal,
        commands=tuple(dict.fromkeys(text for part in found.parts for text in _spellings(part.simple))),
        shows_all=understood and not any(one.effect is CommandEffect.RUNS_CODE for one in effects),
        pieces=pieces,
        plain=len(pieces) == 1 and pieces[0].plain and _is_spelled_plainly(command, script),
    )


def _observed_effects(
    part: ExpandedCommand, rules: tuple[EffectRule, ...], functions: set[str]
) -> list[ObservedEffect]:
    simple = part.simple
    shown = simple.display_text
    found = [ObservedEffect(rule.effect, shown) for rule in rules]
    for redirection in simple.redirections:
        target = redirection.target.text if redirection.target else ""
        if target.startswith(_NETWORK_DEVICES):
            found.append(ObservedEffect(CommandEffect.NETWORK, redirection.display_text))
        elif redirection.writes and not is_harmless_redirection(redirection):
            found.append(ObservedEffect(CommandEffect.WRITES, f"{shown} {redirection.display_text}".strip()))
    if simple.position.background:
        found.append(ObservedEffect(CommandEffect.BACKGROUND, f"{shown} &".strip()))
    if simple.program is None:
        return found
    if part.opaque or not simple.name:
        found.append(ObservedEffect(CommandEffect.RUNS_CODE, shown))
    elif not rules and not part.wraps and simple.name not in functions and simple.name not in UNREPORTED_PROGRAMS:
        found.append(
            ObservedEffect(CommandEffect.READS if is_known_reader(simple) else CommandEffect.RUNS_PROGRAM, shown)
        )
    return found


def _summarize(effects: tuple[ObservedEffect, ...], found: ExpandedScript) -> str:
    text = summarize_effects(effects)
    if found.obscure:
        more = f"may run more than it shows ({shorten_words(found.obscure[0])})"
        return f"{text}, {more}" if text else more
    return text or "changes nothing outside the shell"


def _surely_runs(part: ExpandedCommand, found: ExpandedScript) -> bool:
    """Whether the command is certain to run. A command with an `||` fallback is not refused."""
    position = part.simple.position
    if position.conditional or position.function or found.functions:
        return False
    if any(other.simple.position.joined == "||" for other in found.parts):
        return False
    before = found.parts[: found.parts.index(part)]
    return position.joined != "&&" or not any(other.simple.name in _LOOKUPS for other in before)


def _refusal_message(part: ExpandedCommand, rule: EffectRule) -> str:
    missing = _MISSING.get(rule.effect, "")
    return f'"{shorten_words(part.simple.display_text)}" cannot work here: it {rule.effect}{missing}.'


def _spellings(simple: SimpleCommand) -> list[str]:
    """Returns the command as typed, by the program's base name, and for git without options before the subcommand."""
    if not simple.name:
        return [simple.display_text] if simple.program is not None else []
    rest = " ".join(word.display_text for word in simple.arguments)
    found = [simple.display_text, f"{simple.name} {rest}".rstrip()]
    if simple.name == "git" and simple.arguments and simple.arguments[0].may_be_option:
        words = operands(simple)
        texts = [word.text for word in simple.arguments]
        if words:
            after = simple.arguments[texts.index(words[0]) :]
            found.append(" ".join(["git", *(word.display_text for word in after)]))
    return found


def _pieces(script: Script, found: ExpandedScript) -> tuple[Piece, ...]:
    moved = any(changes_folder(part.simple) for part in found.parts)
    reading = [True] * len(script.commands)
    for part in found.parts:
        reading[part.top] = (
            reading[part.top] and not part.opaque and is_read_only_command(part.simple, folder_changed=moved)
        )
    return tuple(
        Piece(simple.display_text, read_only, _is_plain(simple))
        for simple, read_only in zip(script.commands, reading, strict=True)
    )


def _is_spelled_plainly(command: str, script: Script) -> bool:
    """Whether the command consists of words only and the program's name is written literally."""
    simple = script.commands[0]
    spelled = command.split(maxsplit=1)[0]
    return not script.comments and not simple.redirections and spelled == (simple.program and simple.program.text)


def _is_plain(simple: SimpleCommand) -> bool:
    return (
        simple.program is not None
        and simple.program.literal
        and all(word.literal or word.globs for word in simple.arguments)
        and not simple.assignments
        and not simple.position.background
        and all(is_harmless_redirection(redirection) for redirection in simple.redirections)
    )
