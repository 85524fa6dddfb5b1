from __future__ import annotations

import dataclasses

import pytest

from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.presets import PRESETS, may_hold_secrets, preset_rules


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_holds_to_its_own_examples_and_has_both_sorts(name):
    assert preset_rules(name)
    assert PRESETS[name].matches
    assert PRESETS[name].does_not_match


@pytest.mark.parametrize("swap", [{"matches": ("read .env.example",)}, {"does_not_match": ("read .env",)}])
def test_a_preset_that_fails_its_examples_is_not_loaded(swap):
    with pytest.raises(SystemFault, match="fails its own example"):
        dataclasses.replace(PRESETS["secrets"], **swap).parse_rules()


def test_an_unknown_preset_is_answered_with_a_guess():
    with pytest.raises(ConfigError) as caught:
        preset_rules("secret")
    assert str(caught.value) == 'there is no preset "secret". Did you mean "secrets"?'


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/ws/.env", False),
        ("/ws/a/.env.local", False),
        ("/ws/a/.env.example", True),
        ("/ws/.env.d/x", False),
        ("/ws/.env.example/x.pem", False),
        ("/ws/.ssh/id_ed25519", False),
        ("/ws/src/main.py", True),
    ],
)
def test_secrets_are_neither_seen_nor_moved(path, seen):
    judge = Policy(PermissionMode.STRICT, "/ws", rules=preset_rules("secrets"))
    expected = Effect.ALLOW if seen else Effect.DENY
    assert judge.is_visible(path) is seen
    assert [judge.decide(Action(kind, "x", path)).effect for kind in (Kind.READ, Kind.WRITE)] == [expected] * 2


@pytest.mark.parametrize(
    ("path", "may"),
    [("/ws/.env", True), ("/other/.ssh/config", True), ("/ws/.env.example", False), ("/other/a.py", False)],
)
def test_what_may_hold_secrets_can_be_asked_of_any_path(path, may):
    assert may_hold_secrets(path, "/ws") is may
