from __future__ import annotations

import pytest

from toolyard.config.loader import parse_config
from toolyard.config.models import Agent, Backend, Config, Orchestrator, Permissions
from toolyard.config.models import ContextPath as ContextEntry
from toolyard.config.settings import Settings
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import ConfigError
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.builder import policy_for
from toolyard.policy.policy import ContextPath, Policy
from toolyard.policy.presets import preset_rules
from toolyard.policy.rules import parse_rule

SETTINGS = Settings(home="/home/ada", state_home="/s", temp_dir="/tmp", documents="/home/ada/Documents")
LINKS = {"/conf/data": "/mnt/data", "/tmp": "/private/tmp"}


def resolve(path: str) -> str:
    return LINKS.get(path, path)


def build(config: Config, *args, **kwargs) -> Policy:
    return policy_for(config, SETTINGS, "/ws", *args, resolve=resolve, **kwargs)


def test_the_defaults_are_strict_with_the_users_folders_ready_for_moderate():
    assert build(Config()) == Policy(
        PermissionMode.STRICT,
        "/ws",
        extra_roots=("/home/ada/Documents", "/tmp", "/private/tmp"),
        home="/home/ada",
    )


@pytest.mark.parametrize("name", ["toolyard.yaml", "tools/shop.py"])
@pytest.mark.parametrize("folder", ["/ws", "/home/ada/Documents/project", "/shared"])
def test_the_configuration_and_what_it_includes_is_written_in_no_root(name, folder):
    text = (
        "toolyard: {available_custom_tools: [{group: shop, path: tools/shop.py}]}\n"
        "orchestrator: {context_paths: [{path: /shared, permission: write}]}\n"
    )
    judge = build(parse_config(text, f"{folder}/toolyard.yaml"), PermissionMode.MODERATE)
    assert judge.decide(Action(Kind.WRITE, "Write", f"{folder}/{name}")).effect is Effect.DENY
    assert judge.decide(Action(Kind.WRITE, "Write", f"{folder}/other.py")).effect is Effect.ALLOW


def test_everything_of_the_file_reaches_the_policy():
    config = Config(
        orchestrator=Orchestrator(
            context_paths=(
                ContextEntry(path="data", permission=Access.WRITE, protected_paths=("keep", "/conf/data/a")),
                ContextEntry(path="~/lib"),
            )
        ),
        permissions=Permissions(
            mode=PermissionMode.PLAN,
            allow=("Read(~/x)",),
            ask=("Bash",),
            deny=("Read(.env)",),
            presets=("lockfiles",),
            protected_paths=("docs",),
            moderate_roots=("/opt", "~/y"),
        ),
    ).model_copy(update={"source": "/conf/toolyard.yaml"})
    assert build(config) == Policy(
        PermissionMode.PLAN,
        "/ws",
        context=(
            ContextPath("/conf/data", Access.WRITE, ("keep", "/a")),
            ContextPath("/mnt/data", Access.WRITE, ("keep", "/a")),
            ContextPath("/home/ada/lib"),
        ),
        extra_roots=("/opt", "/home/ada/y"),
        protected=("docs", "//conf/toolyard.yaml"),
        rules=(
            parse_rule("Read(.env)", Effect.DENY),
            parse_rule("Bash", Effect.ASK),
            parse_rule("Read(~/x)", Effect.ALLOW, home="/home/ada"),
            *preset_rules("lockfiles"),
        ),
        home="/home/ada",
    )


ONE = Config(
    agents=(Agent(id="a", backend=Backend(permission_mode=PermissionMode.DEFAULT)),),
    permissions=Permissions(mode=PermissionMode.PLAN),
)
TWO = ONE.model_copy(update={"agents": (*ONE.agents, Agent(id="b"))})


@pytest.mark.parametrize(
    ("config", "mode", "agent", "found"),
    [
        (ONE, PermissionMode.MODERATE, "a", PermissionMode.MODERATE),
        (ONE, None, "a", PermissionMode.DEFAULT),
        (ONE, None, None, PermissionMode.DEFAULT),
        (TWO, None, None, PermissionMode.PLAN),
        (TWO, None, "b", PermissionMode.PLAN),
        (Config(), None, "anyone", PermissionMode.STRICT),
    ],
)
def test_the_nearest_mode_wins(config, mode, agent, found):
    assert build(config, mode, agent).mode is found


def test_an_unknown_agent_is_answered_with_a_guess():
    agents = (Agent(id="writer"), Agent(id="reader"))
    with pytest.raises(ConfigError, match='Did you mean "writer"'):
        build(Config(agents=agents), agent="wrter")


@pytest.mark.parametrize("name", ["team.yaml", "conf/odd [name] {1}.yaml"])
def test_the_configuration_in_use_is_protected_wherever_it_lies(name):
    judge = build(Config().model_copy(update={"source": f"/ws/{name}"}))
    assert judge.decide(Action(Kind.WRITE, "Write", f"/ws/{name}")).effect is Effect.DENY
    assert judge.decide(Action(Kind.WRITE, "Write", "/ws/other.yaml")).effect is Effect.ALLOW


def test_a_bad_rule_is_a_configuration_error():
    with pytest.raises(ConfigError, match="is not a rule"):
        build(Config(permissions=Permissions(deny=("Read(",))))


KEY = "super-secret-key-0123456789"
WITH_VARIABLES = """
permissions:
  deny: ["Read(${KEY}.txt)", "Bash(${KEY}:*)"]
  protected_paths: ["${KEY}/**"]
orchestrator:
  context_paths: [{path: /data, permission: write, protected_paths: ["/data/x-${KEY}"]}]
"""


def test_rules_and_protected_paths_are_shown_as_they_were_written():
    judge = build(parse_config(WITH_VARIABLES, "/conf/toolyard.yaml", env={"KEY": KEY}))
    shown = {
        Action(Kind.READ, "Read", f"/ws/{KEY}.txt"): "Read(${KEY}.txt)",
        Action(Kind.EXECUTE, "Bash", command=KEY): "Bash(${KEY}:*)",
        Action(Kind.WRITE, "Write", f"/ws/{KEY}/a"): "protected ${KEY}/**",
        Action(Kind.WRITE, "Write", f"/data/x-{KEY}"): "protected /data/x-${KEY}",
    }
    for action, rule in shown.items():
        decision = judge.decide(action)
        assert decision.effect is Effect.DENY
        assert rule in decision.rule
        said = decision.reason.replace(str(action.path), "").replace(str(action.command), "")
        assert KEY not in decision.rule + said
    assert KEY not in "".join(map(str, judge.rules))


@pytest.mark.parametrize(
    "text",
    [
        'deny: ["Bogus((${KEY}"]',
        'deny: ["${KEY}(x)"]',
        'deny: ["Read(../${KEY})"]',
        'presets: ["${KEY}"]',
        'protected_paths: ["../${KEY}"]',
    ],
)
def test_one_that_cannot_be_read_is_shown_as_it_was_written(text):
    config = parse_config(f"permissions: {{{text}}}", "/conf/toolyard.yaml", env={"KEY": KEY})
    with pytest.raises(ConfigError) as caught:
        build(config)
    assert "${KEY}" in caught.value.message
    assert KEY not in caught.value.message + caught.value.hint
    assert caught.value.where.startswith("/conf/toolyard.yaml")


def test_two_rules_that_were_written_alike_are_told_apart():
    one, other = (
        build(parse_config("permissions: {deny: ['Read(${KEY})']}", "/conf/a.yaml", env={"KEY": value})).rules[0]
        for value in ("one", "other")
    )
    assert one.label == other.label
    assert one.identity != other.identity
