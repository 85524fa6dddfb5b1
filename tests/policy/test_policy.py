from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.actions import Action, Decision, Effect, Kind
from toolyard.core.errors import ConfigError
from toolyard.core.paths import is_beneath
from toolyard.core.permission_modes import Access, PermissionMode
from toolyard.policy.modes import SEVERITY
from toolyard.policy.policy import ContextPath, Policy
from toolyard.policy.rules import parse_rule

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY
WS = "/home/ada/ws"
CONTEXT = (
    ContextPath("/data/read", Access.READ),
    ContextPath("/data/write", Access.WRITE, ("keep/**", "*.lock")),
    ContextPath(f"{WS}/vendor", Access.READ),
)
EXTRA = ("/home/ada/Documents", "/tmp")


def policy(mode: str = "strict", *, allow=(), ask=(), deny=(), **kwargs) -> Policy:
    rules = [parse_rule(t, e, home="/home/ada") for e, ts in ((ALLOW, allow), (ASK, ask), (DENY, deny)) for t in ts]
    fields = {"context": CONTEXT, "extra_roots": EXTRA, **kwargs}
    return Policy(PermissionMode(mode), WS, rules=tuple(rules), home="/home/ada", **fields)


def effect(judge: Policy, kind: Kind, path: str, real_path: str | None = None) -> Effect:
    tool = "Read" if kind is Kind.READ else "Write"
    return judge.decide(Action(kind, tool, path, real_path or path)).effect


def command(judge: Policy, text: str | None, path: str | None = None) -> Effect:
    return judge.decide(Action(Kind.EXECUTE, "Bash", path, path, text)).effect


ZONES = {
    "inside": f"{WS}/src/a.py",
    "root": WS,
    "read context": "/data/read/a",
    "write context": "/data/write/a",
    "nested read context": f"{WS}/vendor/a",
    "documents": "/home/ada/Documents/a",
    "temp": "/tmp/a",
    "outside": "/etc/passwd",
    "sibling": f"{WS}-evil/a",
    "parent": "/home/ada",
    "protected": f"{WS}/.git/hooks/pre-commit",
    "protected in write context": "/data/write/keep/a",
}
# (read, write) by zone; read beside the table of the documentation.
OUT = ("documents", "temp", "outside", "sibling", "parent")
EXPECTED = {
    "strict": {"inside": (ALLOW, ALLOW), "out": (DENY, DENY)},
    "plan": {"inside": (ALLOW, DENY), "out": (DENY, DENY)},
    "acceptEdits": {"inside": (ALLOW, ALLOW), "out": (ASK, ASK)},
    "moderate": {"inside": (ALLOW, ALLOW), "out": (DENY, DENY), "documents": (ALLOW, ALLOW), "temp": (ALLOW, ALLOW)},
    "default": {"inside": (ALLOW, ASK), "out": (ASK, ASK)},
    "bypassPermissions": {"inside": (ALLOW, ALLOW), "out": (ALLOW, ALLOW)},
}
READ_ONLY_ZONES = ("read context", "nested read context", "protected", "protected in write context")


def expected(mode: str, zone: str, kind: Kind) -> Effect:
    row = EXPECTED[mode]
    if zone in READ_ONLY_ZONES:
        pair = (ALLOW, ALLOW if mode == "bypassPermissions" else DENY)
    else:
        pair = row.get(zone) or row["out" if zone in OUT else "inside"]
    return pair[0 if kind is Kind.READ else 1]


@pytest.mark.parametrize(("mode", "zone", "kind"), list(itertools.product(EXPECTED, ZONES, (Kind.READ, Kind.WRITE))))
def test_every_mode_in_every_zone(mode, zone, kind):
    assert effect(policy(mode), kind, ZONES[zone]) is expected(mode, zone, kind)


@pytest.mark.parametrize(
    ("mode", "reading", "other"),
    [
        ("strict", ALLOW, ALLOW),
        ("plan", ALLOW, DENY),
        ("acceptEdits", ALLOW, ASK),
        ("moderate", ALLOW, ALLOW),
        ("default", ASK, ASK),
        ("bypassPermissions", ALLOW, ALLOW),
    ],
)
def test_commands_in_every_mode(mode, reading, other):
    judge = policy(mode)
    found = [command(judge, text) for text in ("git status", "make", "git status; make", None)]
    assert found == [reading, other, other, other]


@pytest.mark.parametrize(
    ("mode", "outside"), [("strict", DENY), ("acceptEdits", ASK), ("plan", DENY), ("bypassPermissions", ALLOW)]
)
def test_a_command_starting_outside_is_judged_by_its_folder(mode, outside):
    assert command(policy(mode), "git status", "/etc") is outside
    assert command(policy(mode), "git status", WS) is ALLOW


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git", "sub/.git/hooks/x", "sub/.git/config"),
        *("sub/.git", ".git/modules/lib/hooks/x", ".git/commondir", "toolyard.yaml", "docs/final.md", "docs"),
    ],
)
def test_protected_paths_and_the_folders_they_lie_in_are_not_written(path):
    for mode in PermissionMode:
        judge = policy(mode, allow=["Write", f"Write(//{WS}/**)", "*"], protected=("docs/*.md",))
        assert effect(judge, Kind.WRITE, f"{WS}/{path}") is (ALLOW if mode is PermissionMode.BYPASS else DENY)
        assert effect(judge, Kind.READ, f"{WS}/{path}") is ALLOW


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".git/HEAD", ".github/hooks/x", "git/hooks/x", ".GIT/config", "sub/toolyard.yaml", "docs/x.py"],
)
def test_what_only_looks_protected_is_written(path):
    assert effect(policy(protected=("docs/*.md",)), Kind.WRITE, f"{WS}/{path}") is ALLOW


def test_defaults_protect_repositories_in_writable_context_paths_too():
    assert effect(policy(), Kind.WRITE, "/data/write/lib/.git/hooks/x") is DENY
    assert effect(policy(), Kind.WRITE, "/data/write/lib/a.lock") is DENY
    assert effect(policy(), Kind.WRITE, f"{WS}/a.lock") is ALLOW


@pytest.mark.parametrize("mode", PermissionMode)
def test_a_link_cannot_carry_an_action_past_its_zone(mode):
    judge = policy(mode)
    for kind, (here, there) in itertools.product((Kind.READ, Kind.WRITE), itertools.permutations(ZONES.values(), 2)):
        alone = [effect(judge, kind, here), effect(judge, kind, there)]
        assert effect(judge, kind, here, there) is max(alone, key=SEVERITY.__getitem__)


@pytest.mark.parametrize(
    ("judge", "kind", "path", "found"),
    [
        (policy(deny=["Read(*.env)"]), Kind.READ, f"{WS}/a.env", DENY),
        (policy(deny=["Read(*.env)"]), Kind.WRITE, f"{WS}/a.env", ALLOW),
        (policy(deny=["Read(*.env)"], allow=["Read(*.env)"]), Kind.READ, f"{WS}/a.env", DENY),
        (policy("bypassPermissions", deny=["Read(*.env)"]), Kind.READ, "/elsewhere/a.env", DENY),
        (policy("bypassPermissions", ask=["Read(*.env)"]), Kind.READ, f"{WS}/a.env", ALLOW),
        (policy(ask=["Write(*.md)"]), Kind.WRITE, f"{WS}/a.md", ASK),
        (policy(ask=["Write(*.md)"], allow=["Write(*.md)"]), Kind.WRITE, f"{WS}/a.md", ASK),
        (policy("default", allow=["Edit(src/**)"]), Kind.WRITE, f"{WS}/src/a", ALLOW),
        (policy("default", allow=["Edit(src/**)"]), Kind.WRITE, f"{WS}/lib/a", ASK),
        (policy("default", allow=["Read(//etc/hosts)"]), Kind.READ, "/etc/hosts", ALLOW),
        (policy(allow=["Read(//etc/hosts)"]), Kind.READ, "/etc/hosts", ALLOW),
        (policy(allow=["Read(//etc/hosts)"]), Kind.WRITE, "/etc/hosts", DENY),
        (policy(allow=["Read(//etc/hosts)"]), Kind.READ, "/etc/passwd", DENY),
        (policy(allow=["Read(~/notes/**)"]), Kind.READ, "/home/ada/notes/a", ALLOW),
        (policy(allow=["Read", "*", "Read(**)", "Read(/etc/**)"]), Kind.READ, "/etc/hosts", DENY),
        (policy("plan", allow=["Write(//etc/**)"]), Kind.WRITE, "/etc/x", DENY),
        (policy("plan", allow=["Write"]), Kind.WRITE, f"{WS}/a", DENY),
        (policy(allow=["Write(//data/**)"]), Kind.WRITE, "/data/read/a", DENY),
        (policy(allow=["Write(//data/**)"], ask=["Write(//data/**)"]), Kind.WRITE, "/data/x", ASK),
    ],
)
def test_rules_go_deny_then_ask_then_allow_then_the_mode(judge, kind, path, found):
    assert effect(judge, kind, path) is found


def test_an_allow_rule_must_cover_both_ends_of_a_link():
    judge = policy(allow=["Read(//etc/hosts)"])
    assert effect(judge, Kind.READ, f"{WS}/link", "/etc/hosts") is ALLOW
    assert effect(judge, Kind.READ, f"{WS}/link", "/etc/passwd") is DENY


@pytest.mark.parametrize(
    ("judge", "text", "found"),
    [
        (policy("default", allow=["Bash(make test)"]), "make test", ALLOW),
        (policy("default", allow=["Bash(make:*)"]), "make; rm -rf x", ASK),
        (policy("default", allow=["Bash(make:*)"], ask=["Bash(make deploy:*)"]), "make deploy", ASK),
        (policy("default", allow=["Bash(make:*)"]), "cd src && make test 2>&1 | tail -n 5", ALLOW),
        (policy("default", allow=["Bash(make:*)", "Bash(npm run *)"]), "make && npm run build", ALLOW),
        (policy("default", allow=["Bash(make:*)"]), "make && npm run build", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make > log", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make | tee log", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make &", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make $(curl x)", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make() { rm x; }; make", ASK),
        (policy("default", allow=["Bash(make:*)"]), "PATH=.; make", ASK),
        (policy("default", allow=["Bash(make:*)"]), "timeout 5 rm x; make", ASK),
        (policy("default", allow=["Bash(make:*)"]), "make; ls (", ASK),
        (policy("default", allow=["Bash(make:*)"], ask=["Bash(ls:*)"]), "make && ls", ASK),
        (policy("default", allow=["Bash(make:*)"], deny=["Bash(ls:*)"]), "make && ls", DENY),
        (policy("default"), "ls && cat a", ASK),
        (policy("acceptEdits"), "ls && cat a | head", ALLOW),
        (policy("plan"), "ls && cat a | head", ALLOW),
        (policy("plan"), "ls && cat a > b", DENY),
        (policy("plan", allow=["Bash"]), "make", DENY),
        (policy("plan", deny=["Bash(git:*)"]), "git status", DENY),
        (policy(deny=["Bash(rm:*)"]), "ls && rm x", DENY),
        (policy("bypassPermissions", deny=["Bash(rm:*)"]), "rm x", DENY),
        (policy(ask=["Bash"]), "ls", ASK),
    ],
)
def test_command_rules_take_the_same_order(judge, text, found):
    assert command(judge, text) is found


@pytest.mark.parametrize(
    ("judge", "action", "decision"),
    [
        (
            policy(),
            Action(Kind.WRITE, "Write", "/etc/x", "/etc/x"),
            Decision(
                DENY,
                f"Writing /etc/x is outside the workspace {WS}; strict mode allows only paths inside it "
                f"and inside /data/read, /data/write. Use a path under {WS}.",
                "mode strict",
            ),
        ),
        (
            policy(),
            Action(Kind.READ, "Read", f"{WS}/l", "/etc/x"),
            Decision(
                DENY,
                f"Reading {WS}/l (which leads to /etc/x) is outside the workspace {WS}; strict mode allows only "
                f"paths inside it and inside /data/read, /data/write. Use a path under {WS}.",
                "mode strict",
            ),
        ),
        (
            policy("plan"),
            Action(Kind.WRITE, "Edit", f"{WS}/a"),
            Decision(
                DENY,
                f"Writing {WS}/a is refused: plan mode changes nothing. "
                "Read, search and describe the change instead.",
                "mode plan",
            ),
        ),
        (
            policy(deny=["Read(.env)"]),
            Action(Kind.READ, "Grep", f"{WS}/.env"),
            Decision(
                DENY,
                f"Reading {WS}/.env is refused by the rule deny Read(.env). "
                "Do the task without it, or ask the user to change the rule.",
                "rule deny Read(.env)",
            ),
        ),
        (
            policy("default"),
            Action(Kind.EXECUTE, "Bash", command="make"),
            Decision(ASK, 'Running "make" runs other code (make): default mode asks before that.', "mode default"),
        ),
        (
            policy("acceptEdits"),
            Action(Kind.EXECUTE, "Bash", command="cd x && rm -rf build"),
            Decision(
                ASK,
                'Running "cd x && rm -rf build" deletes files (rm -rf build): acceptEdits mode asks before that.',
                "mode acceptEdits",
            ),
        ),
        (
            policy("default"),
            Action(Kind.EXECUTE, "Bash", command="ls 'x"),
            Decision(
                ASK,
                'Running "ls \'x" may do anything (its text cannot be parsed: it is not complete shell syntax): '
                "default mode asks before that.",
                "mode default",
            ),
        ),
        (
            policy("default"),
            Action(Kind.EXECUTE, "execute_python"),
            Decision(ASK, "Running execute_python: default mode asks before that.", "mode default"),
        ),
        (
            policy(ask=["Bash(rm:*)"]),
            Action(Kind.EXECUTE, "Bash", command="rm x"),
            Decision(
                ASK,
                'Running "rm x" deletes files (rm x): the rule ask Bash(rm:*) asks before that.',
                "rule ask Bash(rm:*)",
            ),
        ),
        (
            policy("plan"),
            Action(Kind.EXECUTE, "Bash", command="rm x"),
            Decision(
                DENY,
                'Running "rm x" is refused: plan mode runs only commands known to just read '
                "(ls, cat, rg, find, git diff ...), alone or joined, and this one deletes files (rm x). "
                "Describe the command instead.",
                "mode plan",
            ),
        ),
        (
            policy("default", allow=["Bash(make)"]),
            Action(Kind.EXECUTE, "Bash", command="make"),
            Decision(ALLOW, 'Running "make" is allowed by the rule allow Bash(make).', "rule allow Bash(make)"),
        ),
        (
            policy(),
            Action(Kind.WRITE, "Write", "/data/read/a"),
            Decision(
                DENY,
                "Writing /data/read/a is refused: /data/read is declared read-only. "
                f"Write the result under {WS} instead.",
                "context /data/read",
            ),
        ),
        (
            policy(context=()),
            Action(Kind.WRITE, "Write", "/etc/x"),
            Decision(
                DENY,
                f"Writing /etc/x is outside the workspace {WS}; strict mode allows only paths inside it. "
                f"Use a path under {WS}.",
                "mode strict",
            ),
        ),
        (policy(), Action(Kind.READ, "LS"), Decision(ALLOW, "strict mode allows it.", "mode strict")),
    ],
)
def test_a_decision_says_what_and_why_and_what_instead(judge, action, decision):
    assert judge.decide(action) == decision


@pytest.mark.parametrize("root", ["ws", "/ws/../x", "/ws/", "//ws"])
def test_a_root_that_is_not_clean_is_refused(root):
    with pytest.raises(ConfigError):
        Policy(PermissionMode.STRICT, root)


def test_the_filesystem_root_may_be_the_workspace():
    judge = Policy(PermissionMode.STRICT, "/")
    assert judge.decide(Action(Kind.WRITE, "Write", "/a")).effect is ALLOW
    assert judge.is_visible("/a/b")


PATHS = st.one_of(
    st.sampled_from(list(ZONES.values())),
    st.lists(
        st.sampled_from(["home", "ada", "ws", "ws-evil", "data", "write", ".git", "hooks", "a.md", ".env"]),
        max_size=6,
    ).map(lambda names: "/" + "/".join(names)),
)
RULES = st.sampled_from(
    ["Read", "Write", "*", "Read(.env)", "Read(src/**)", "Write(*.md)", "Read(//data/**)", "Write(//home/ada/**)"]
)
ACTIONS = st.builds(
    Action,
    st.sampled_from([Kind.READ, Kind.WRITE]),
    st.sampled_from(["Read", "Write", "Grep"]),
    PATHS,
    PATHS,
)
MODES = st.sampled_from(list(EXPECTED))
RULE_LISTS = st.lists(RULES, max_size=3)


@given(ACTIONS, RULE_LISTS, RULE_LISTS)
def test_strict_never_allows_outside_unless_a_rule_names_the_absolute_path(action, ask, deny):
    judge = policy("strict", ask=ask, deny=deny, allow=["*", "Read", "Write(**)", "Read(/etc/**)"])
    roots = [WS, *(entry.path for entry in CONTEXT)]
    if judge.decide(action).effect is not DENY:
        assert all(any(is_beneath(path, root) for root in roots) for path in (action.path, action.real_path))


@given(MODES, ACTIONS, RULE_LISTS, RULE_LISTS, RULE_LISTS, RULES)
@settings(max_examples=200)
def test_one_more_deny_rule_never_permits_more(mode, action, allow, ask, deny, more):
    before = policy(mode, allow=allow, ask=ask, deny=deny).decide(action).effect
    after = policy(mode, allow=allow, ask=ask, deny=[*deny, more]).decide(action).effect
    assert SEVERITY[after] >= SEVERITY[before]


@given(MODES, PATHS, PATHS, RULE_LISTS, RULE_LISTS, RULE_LISTS, st.sampled_from(["Read", "Grep"]))
@settings(max_examples=200)
def test_visible_is_the_same_answer_as_deciding_a_read(mode, path, real, allow, ask, deny, tool):
    judge = policy(mode, allow=allow, ask=ask, deny=deny)
    for _cold_then_cached in range(2):
        decided = judge.decide(Action(Kind.READ, tool, path, real)).effect is ALLOW
        assert judge.is_visible(path, real, tool=tool) is decided
