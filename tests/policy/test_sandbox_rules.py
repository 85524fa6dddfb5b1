"""What a sandbox hides, seals and pins, told from the policy alone."""

import pytest

from toolyard.core.actions import Effect
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.policy import ContextPath, Policy
from toolyard.policy.rules import parse_rule
from toolyard.policy.sandbox_rules import SandboxRules

WORKSPACE = "/ws"


def seals(*rules: tuple[Effect, str], mode: PermissionMode = PermissionMode.STRICT, **options) -> SandboxRules:
    parsed = tuple(parse_rule(text, effect) for effect, text in rules)
    return SandboxRules(Policy(mode, WORKSPACE, rules=parsed, **options))


@pytest.mark.parametrize(
    "path",
    [
        "/ws/.git/config",
        "/ws/.git/hooks",
        "/ws/.git/hooks/pre-commit",
        "/ws/.git/modules/sub",
        "/ws/deep/er/.git/config",
        "/ws/.git/commondir",
        "/ws/toolyard.yaml",
    ],
)
def test_what_git_and_toolyard_obey_is_sealed(path):
    assert seals().is_write_protected(path)


@pytest.mark.parametrize(
    "path", ["/ws/a.txt", "/ws/.git", "/ws/.git/HEAD", "/ws/.git/objects", "/ws/config", "/ws/deep/toolyard.yaml"]
)
def test_the_rest_is_not_sealed(path):
    assert not seals().is_write_protected(path)


@pytest.mark.parametrize(("path", "pinned"), [("/ws/.git", True), ("/ws/deep/.git", True), ("/ws/deep", False)])
def test_the_folder_around_something_sealed_is_pinned(path, pinned):
    assert seals().is_move_protected(path) is pinned


def test_protected_paths_of_the_configuration_are_sealed_and_pinned():
    made = seals(protected=("locked/inner/**",))
    assert made.is_write_protected("/ws/locked/inner/a")
    assert not made.is_write_protected("/ws/locked/a")
    assert made.is_move_protected("/ws/locked")


def test_protected_paths_of_a_context_path_count_there_alone():
    made = seals(context=(ContextPath("/other", Access.WRITE, ("kept.txt",)),))
    assert made.is_write_protected("/other/kept.txt")
    assert not made.is_write_protected("/ws/kept.txt")


@pytest.mark.parametrize("effect", [Effect.DENY, Effect.ASK])
def test_what_may_not_be_written_unasked_is_sealed(effect):
    made = seals((effect, "Write(locked/**)"))
    assert made.is_write_protected("/ws/locked/a")
    assert not made.is_write_protected("/ws/free/a")
    assert not made.has_hiding_rules


def test_permission_seals_nothing():
    assert not seals((Effect.ALLOW, "Write(locked/**)")).is_write_protected("/ws/locked/a")


@pytest.mark.parametrize("effect", [Effect.DENY, Effect.ASK])
def test_what_may_not_be_read_unasked_is_hidden(effect):
    made = seals((effect, "Read(.env)"))
    assert made.has_hiding_rules
    assert made.is_hidden("/ws/.env")
    assert made.is_hidden("/ws/deep/.env")
    assert not made.is_hidden("/ws/.env.example")


@pytest.mark.parametrize(
    ("effect", "rule", "hides"),
    [
        (Effect.DENY, "Read", True),
        (Effect.DENY, "*", True),
        (Effect.DENY, "Write(a)", False),
        (Effect.DENY, "Bash(rm:*)", False),
        (Effect.DENY, "Grep(a)", False),
        (Effect.ALLOW, "Read(a)", False),
    ],
)
def test_only_rules_that_refuse_reading_make_somebody_look(effect, rule, hides):
    assert seals((effect, rule)).has_hiding_rules is hides


def test_without_such_a_rule_nothing_is_hidden():
    assert not seals().is_hidden("/ws/.env")
    assert not seals().has_hiding_rules


@pytest.mark.parametrize(
    ("rules", "options", "writable"),
    [
        ([], {}, True),
        ([(Effect.DENY, "Write")], {}, False),
        ([(Effect.DENY, "Edit")], {}, False),
        ([(Effect.DENY, "*")], {}, False),
        ([(Effect.ASK, "Write")], {}, True),
        ([(Effect.DENY, "Write(docs/**)")], {}, True),
        ([], {"mode": PermissionMode.PLAN}, False),
        ([], {"mode": PermissionMode.DEFAULT}, True),
        ([], {"context": (ContextPath(WORKSPACE, Access.READ),)}, False),
    ],
)
def test_a_root_is_writable_where_some_file_of_it_may_be_written(rules, options, writable):
    assert seals(*rules, **options).is_writable(WORKSPACE) is writable
