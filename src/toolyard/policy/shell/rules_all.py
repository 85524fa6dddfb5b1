"""All effect rules, checked against their examples on first use."""

from __future__ import annotations

import functools
from typing import Final

from toolyard.policy.shell.rules import EffectRules
from toolyard.policy.shell.rules_files import FILE_RULES
from toolyard.policy.shell.rules_network_and_code import REACH_RULES
from toolyard.policy.shell.rules_privileged import REFUSED_RULES

ALL_RULES: Final = (*FILE_RULES, *REACH_RULES, *REFUSED_RULES)


@functools.cache
def all_rules() -> EffectRules:
    """Returns all effect rules, indexed and checked against their examples."""
    return EffectRules(ALL_RULES)
