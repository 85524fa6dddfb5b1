"""Snowball's English stemmer (Porter2), version 3.1.

A word has two regions: the first begins after the first consonant that follows a vowel, the second is found the same
way within the first. An ending is removed only in the region that its rule names; so `nation` stays unchanged, and
`national` becomes `nation`. Of several matching endings, only the longest is tried.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_CACHED_STEMS = 20_000
_SHORTEST = 3
"""Shorter words have no endings."""

_VOWELS = "aeiouy"
"""A consonant `y` is written `Y` while a word is processed."""
_NOT_AFTER_SHORT = "aeiouywxY"
_VOWEL = re.compile("[aeiouy]")
_SPOKEN_Y = re.compile("([aeiouy])y")
_REGION = re.compile("[^aeiouy]*[aeiouy]+[^aeiouy]")
_WHOLE_BEGINNINGS = re.compile("arsen|commun|emerg|gener|inter|later|organ|past|univers")
"""The first region starts after one of these beginnings: `general` and `generous` are different words."""

_SPECIAL = {
    **{word: word for word in ("andes", "atlas", "bias", "cosmos", "howe", "news", "sky")},
    "early": "earli",
    "gently": "gentl",
    "idly": "idl",
    "only": "onli",
    "singly": "singl",
    "skies": "sky",
    "skis": "ski",
    "ugly": "ugli",
}
_NO_PARTICIPLES = frozenset({"cann", "earr", "even", "herr", "inn", "out"})
"""`evening` is not a form of `even`."""
_NO_PAST = frozenset({"exc", "proc", "succ"})
"""`proceed` is not a past form of `proc`."""
_DOUBLES = frozenset({"bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt"})
_LOST_E = ("at", "bl", "iz")
_BEFORE_LI = "cdeghkmnrt"


class _Endings(NamedTuple):
    longest_first: tuple[str, ...]
    replacements: dict[str, str]
    """The replacement of each ending."""

    def longest_match(self, word: str) -> str:
        """Returns the longest ending that the word has."""
        if not word.endswith(self.longest_first):  # the usual case, checked in one step
            return ""
        return next(ending for ending in self.longest_first if word.endswith(ending))


def _parse_endings(rules: str) -> _Endings:
    pairs = (rule.partition(":") for rule in rules.split(";"))
    instead = {ending: put.strip() for endings, _, put in pairs for ending in endings.split()}
    return _Endings(tuple(sorted(instead, key=len, reverse=True)), instead)


_POSSESSIVES = _parse_endings("' 's 's'")
_PLURALS = _parse_endings("sses: ss; ied ies s us ss")
_VERBS = _parse_endings("eed eedly ed edly ing ingly")
_LONG = _parse_endings(
    "tional: tion; enci: ence; anci: ance; abli: able; entli: ent; izer ization: ize; ational ation ator: ate;"
    "alism aliti alli: al; fulness fulli: ful; ousli ousness: ous; iveness iviti: ive; biliti bli: ble;"
    "ogi ogist: og; lessli: less; li"
)
_MIDDLE = _parse_endings("tional: tion; ational: ate; alize: al; icate iciti ical: ic; ful ness ative")
_LAST = _parse_endings("al ance ence er ic able ible ant ement ment ent ism ate iti ous ive ize ion")


@lru_cache(maxsize=_CACHED_STEMS)
def stem(word: str) -> str:
    """Returns the stem of a lowercase word: `creates`, `created` and `creating` have the same."""
    if len(word) < _SHORTEST:
        return word
    special = _SPECIAL.get(word)
    if special is not None:
        return special
    word = word.removeprefix("'")
    if "y" in word:
        word = _SPOKEN_Y.sub(r"\1Y", f"Y{word[1:]}" if word[0] == "y" else word)
    first, second = _regions(word)
    word = _without_plural(word)
    word = _without_verb_ending(word, first)
    if word[-1:] in ("y", "Y") and len(word) >= _SHORTEST and word[-2] not in _VOWELS:
        word = f"{word[:-1]}i"
    word = _without_long_ending(word, first)
    word = _without_middle_ending(word, first, second)
    word = _without_last_ending(word, second)
    word = _without_final_letter(word, first, second)
    return word.replace("Y", "y")


def _regions(word: str) -> tuple[int, int]:
    """Returns where the two regions begin; the length of the word if there are none."""
    found = _WHOLE_BEGINNINGS.match(word) or _REGION.match(word)
    if found is None:
        return len(word), len(word)
    first = found.end()
    found = _REGION.match(word, first)
    return first, len(word) if found is None else found.end()


def _ends_short(word: str) -> bool:
    """Whether the word ends in a short syllable, such as `hop` and `at`."""
    if len(word) == 2:
        return word[0] in _VOWELS and word[1] not in _VOWELS
    is_short = len(word) > 2 and word[-3] not in _VOWELS and word[-2] in _VOWELS and word[-1] not in _NOT_AFTER_SHORT
    return is_short or word.endswith("past")


def _without_plural(word: str) -> str:
    possessive = _POSSESSIVES.longest_match(word)
    word = word.removesuffix(possessive)
    ending = _PLURALS.longest_match(word)
    begun = word.removesuffix(ending)
    if ending == "sses":
        return f"{begun}ss"
    if ending in ("ied", "ies"):
        return f"{begun}i" if len(begun) > 1 else f"{begun}ie"
    return begun if ending == "s" and _VOWEL.search(begun[:-1]) else word


def _without_verb_ending(word: str, first: int) -> str:
    ending = _VERBS.longest_match(word)
    begun = word.removesuffix(ending)
    if ending in ("eed", "eedly"):
        return f"{begun}ee" if len(begun) >= first and begun not in _NO_PAST else word
    if ending == "ing":
        if begun in _NO_PARTICIPLES:
            return word
        if len(begun) == 2 and begun[1] == "y" and begun[0] not in _VOWELS:
            return f"{begun[0]}ie"
    return _as_infinitive(begun, first) if ending and _VOWEL.search(begun) else word


def _as_infinitive(begun: str, first: int) -> str:
    if begun.endswith(_LOST_E):
        return f"{begun}e"
    if begun[-2:] in _DOUBLES:
        return begun if len(begun) == 3 and begun[0] in "aeo" else begun[:-1]
    return f"{begun}e" if len(begun) == first and _ends_short(begun) else begun


def _without_long_ending(word: str, first: int) -> str:
    ending = _LONG.longest_match(word)
    begun = word.removesuffix(ending)
    if not ending or len(begun) < first:
        return word
    if (ending == "ogi" and not begun.endswith("l")) or (ending == "li" and begun[-1:] not in _BEFORE_LI):
        return word
    return begun + _LONG.replacements[ending]


def _without_middle_ending(word: str, first: int, second: int) -> str:
    ending = _MIDDLE.longest_match(word)
    begun = word.removesuffix(ending)
    if not ending or len(begun) < (second if ending == "ative" else first):
        return word
    return begun + _MIDDLE.replacements[ending]


def _without_last_ending(word: str, second: int) -> str:
    ending = _LAST.longest_match(word)
    begun = word.removesuffix(ending)
    if not ending or len(begun) < second or (ending == "ion" and not begun.endswith(("s", "t"))):
        return word
    return begun


def _without_final_letter(word: str, first: int, second: int) -> str:
    begun = word[:-1]
    if word.endswith("e"):
        is_silent = len(begun) >= second or (len(begun) >= first and not _ends_short(begun))
        return begun if is_silent else word
    return begun if word.endswith("ll") and len(begun) >= second else word
