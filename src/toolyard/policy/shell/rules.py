"""Rules that derive a command's effects. The rules themselves are data, in the `rules_*` modules.

Each rule has example commands that it matches and that it misses, checked when the rules are loaded: a rule that
silently matches nothing is worse than none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from toolyard.core.errors import SystemFault
from toolyard.policy.shell.ast import ParseFailure
from toolyard.policy.shell.expansion import expand_script
from toolyard.policy.shell.parser import parse_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toolyard.policy.shell.ast import SimpleCommand, Word
    from toolyard.policy.shell.effects import CommandEffect

_VALUE_OPTIONS: Final = {
    "git": frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"}),
    "npm": frozenset({"--prefix", "-C"}),
    "docker": frozenset({"--context", "-H"}),
    "kubectl": frozenset({"-n", "--namespace", "--context"}),
}
"""Options before the subcommand whose value is the next word."""


@dataclass(frozen=True, slots=True)
class EffectRule:
    """A command has the effect if all conditions that are set hold."""

    effect: CommandEffect
    programs: tuple[str, ...]
    matches: tuple[str, ...]
    misses: tuple[str, ...]
    subcommands: tuple[str, ...] = ()
    """The first words that are not options: `push`, `remote add`."""
    options: tuple[str, ...] = ()
    """One of these must be present; `-i` also in a bundle (`-ni`), `--output` also with its value, `+` for `+cmd`."""
    leading: tuple[str, ...] = ()
    """One of these must be present before the subcommand."""
    unless: tuple[str, ...] = ()
    """None of these may be present."""
    operands: int = 0
    """Minimum number of words that are not options."""
    bare: bool = False
    """The command must have no arguments and no input."""
    refusal: str = ""
    """What to do instead; set if the command is certain to fail in a sandbox."""

    def fits(self, simple: SimpleCommand) -> bool:
        """Whether the conditions hold for a command of one of the programs."""
        if self.bare and (simple.arguments or simple.position.fed or simple.open_ended):
            return False
        if self.options and not has_option(simple, self.options):
            return False
        if self.leading and not has_option(replace(simple, arguments=_before_subcommand(simple)), self.leading):
            return False
        if self.unless and has_option(simple, self.unless):
            return False
        if not self.subcommands and not self.operands:
            return True
        words = operands(simple)
        if len(words) < self.operands and not simple.open_ended:
            return False
        return not self.subcommands or any(_starts_with(words, subcommand.split()) for subcommand in self.subcommands)


class EffectRules:
    """Effect rules that passed their own examples, indexed by program."""

    def __init__(self, rules: Iterable[EffectRule]) -> None:
        found: dict[str, list[EffectRule]] = {}
        for rule in rules:
            _check_examples(rule)
            for program in rule.programs:
                found.setdefault(program, []).append(rule)
        self._by_program: Mapping[str, tuple[EffectRule, ...]] = {name: tuple(some) for name, some in found.items()}

    def matching_rules(self, simple: SimpleCommand) -> tuple[EffectRule, ...]:
        """Returns the rules that match a command, in the order they are written."""
        return tuple(rule for rule in self._by_program.get(unversioned_program(simple), ()) if rule.fits(simple))


def unversioned_program(simple: SimpleCommand) -> str:
    """Returns the program's name without a version: `python` for `python3.11`."""
    name = simple.name
    stem = name.rstrip("0123456789.")
    return stem if stem in _VERSIONED else name


_VERSIONED: Final = frozenset({"python", "pypy", "pip", "ruby", "perl", "lua", "php", "node", "gcc", "clang"})


def operands(simple: SimpleCommand) -> list[str]:
    """Returns the words that are neither options nor values of options before the subcommand."""
    values = _VALUE_OPTIONS.get(unversioned_program(simple), frozenset[str]())
    found: list[str] = []
    skip = False
    for word in simple.arguments:
        if skip:
            skip = False
        elif word.literal and word.text.startswith("-") and word.text != "-":
            skip = not found and word.text in values
        else:
            found.append(word.text)
    return found


def _before_subcommand(simple: SimpleCommand) -> tuple[Word, ...]:
    values = _VALUE_OPTIONS.get(unversioned_program(simple), frozenset[str]())
    found: list[Word] = []
    for word in simple.arguments:
        if not word.may_be_option and not (found and found[-1].text in values):
            break
        found.append(word)
    return tuple(found)


def has_option(simple: SimpleCommand, options: tuple[str, ...]) -> bool:
    """Whether one of the options is among the arguments, as far as the text shows."""
    texts = [word.text for word in simple.arguments if word.literal or word.head.startswith(("-", "+"))]
    return any(_is_option(text, option) for text in texts for option in options)


def _is_option(text: str, option: str) -> bool:
    if text == option or text.startswith(option + "="):
        return True
    if option == "+":
        return text.startswith("+")
    bundled = len(option) == 2 and option[0] == "-" and option[1] != "-"
    return bundled and text.startswith("-") and not text.startswith("--") and option[1] in text[1:]


def _starts_with(words: list[str], wanted: list[str]) -> bool:
    return words[: len(wanted)] == wanted


def _check_examples(rule: EffectRule) -> None:
    for text, wanted in [(text, True) for text in rule.matches] + [(text, False) for text in rule.misses]:
        if _example_matches(rule, text) is not wanted:
            raise SystemFault(
                f'the rule "{rule.effect}" for {", ".join(rule.programs[:3])} fails its own example "{text}".',
                hint="Report this as a bug in Toolyard.",
            )
    if not rule.matches or not rule.misses:
        raise SystemFault(
            f'the rule "{rule.effect}" for {", ".join(rule.programs[:3])} has no examples.',
            hint="Report this as a bug in Toolyard.",
        )


def _example_matches(rule: EffectRule, text: str) -> bool:
    try:
        found = expand_script(parse_script(text))
    except ParseFailure:
        return False
    return any(unversioned_program(part.simple) in rule.programs and rule.fits(part.simple) for part in found.parts)
