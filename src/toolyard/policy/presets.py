"""Named groups of rules, each with examples of what it matches and what it does not, checked when it is loaded.

A preset that fails its own examples raises an error: a rule that silently matches nothing is worse than none.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from toolyard.config.suggestions import did_you_mean
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import ConfigError, SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.policy import Policy
from toolyard.policy.rules import Rule, parse_rule

_EXAMPLE_WORKSPACE: Final = "/workspace"


@dataclass(frozen=True, slots=True)
class Example:
    """An action in short form: `write a/b.lock` or `run git status`."""

    text: str

    def action(self) -> Action:
        verb, _, target = self.text.partition(" ")
        if verb == "run":
            return Action(Kind.EXECUTE, "Bash", command=target)
        return Action(Kind(verb), "example", f"{_EXAMPLE_WORKSPACE}/{target}")


@dataclass(frozen=True, slots=True)
class Preset:
    """A named group of rules with examples of what they match and do not match."""

    name: str
    summary: str
    effect: Effect
    rules: tuple[str, ...]
    matches: tuple[str, ...]
    does_not_match: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def parse_rules(self) -> tuple[Rule, ...]:
        """Returns the rules. Raises SystemFault if one of the examples fails."""
        rules = tuple(parse_rule(text, self.effect, unless=self.unless, source=self.name) for text in self.rules)
        # `default` mode asks for what no rule matches and allows plain reads, so every rule effect is visible in it.
        policy = Policy(PermissionMode.DEFAULT, _EXAMPLE_WORKSPACE, rules=rules)
        examples = [(text, True) for text in self.matches] + [(text, False) for text in self.does_not_match]
        for text, wanted in examples:
            if policy.decide(Example(text).action()).rule.startswith("rule ") is not wanted:
                raise SystemFault(
                    f'the preset "{self.name}" fails its own example "{text}".',
                    hint="Report this as a bug in Toolyard.",
                )
        return rules


_SECRET_FILES: Final = (
    *(".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc"),
    *(".git-credentials", ".htpasswd", "**/.aws/credentials", "**/.ssh/**", "**/.gnupg/**", "**/.kube/config"),
    *("**/.docker/config.json", "**/.config/gh/hosts.yml", "**/.config/gcloud/**"),
)
_LOCK_FILES: Final = (
    *(
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "deno.lock",
    ),
    *("poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock"),
    *("flake.lock", "mix.lock", "pubspec.lock", "Podfile.lock", "Package.resolved"),
)

PRESETS: Final = {
    preset.name: preset
    for preset in (
        Preset(
            "secrets",
            "Keys, tokens and passwords are neither read nor written.",
            Effect.DENY,
            # Writing too: moving a secret to another name is a write, and would make it readable.
            tuple(f"{verb}({pattern})" for pattern in _SECRET_FILES for verb in ("Read", "Write")),
            ("read .env", "read app/.env.production", "write deploy.pem", "read a/b/id_rsa", "read .aws/credentials"),
            ("read .env.example", "read app/.env.sample", "read src/env.py", "read docs/pem.md", "read id_rsa.pub"),
            unless=(".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub"),
        ),
        Preset(
            "git-internals",
            "Nothing inside .git is written.",
            Effect.DENY,
            ("Write(**/.git/**)",),
            ("write .git/HEAD", "write vendor/lib/.git/refs/heads/main"),
            ("read .git/HEAD", "write .gitignore", "write .github/dependabot.yml"),
        ),
        Preset(
            "lockfiles",
            "Asks before a lock file is written.",
            Effect.ASK,
            tuple(f"Write({name})" for name in _LOCK_FILES),
            ("write uv.lock", "write web/package-lock.json"),
            ("read uv.lock", "write package.json", "write src/lock.py"),
        ),
        Preset(
            "ci",
            "Asks before what a build machine runs is written.",
            Effect.ASK,
            tuple(
                f"Write({pattern})"
                for pattern in (
                    *("**/.github/workflows/**", "**/.github/actions/**", ".gitlab-ci.yml", "**/.ci/**"),
                    *("**/.circleci/**", "Jenkinsfile", "azure-pipelines.yml", "**/.buildkite/**"),
                )
            ),
            ("write .github/workflows/test.yml", "write .gitlab-ci.yml", "write .ci/run"),
            ("read .ci/run", "write .github/CODEOWNERS", "write ci/run"),
        ),
        Preset(
            "readonly-commands",
            "Commands known to only read run unasked.",
            Effect.ALLOW,
            ("Bash(@read-only)",),
            ("run git status", "run ls -la src", "run rg --files"),
            ("run git push", "run cat a; rm b", "run rg --pre=sh x", "run git diff --output=x", "write a.txt"),
        ),
    )
}


@functools.cache
def preset_rules(name: str) -> tuple[Rule, ...]:
    """Returns the checked rules of a preset. Raises ConfigError for an unknown name."""
    preset = PRESETS.get(name)
    if preset is None:
        raise ConfigError(f'there is no preset "{name}".', hint=did_you_mean(name, PRESETS))
    return preset.parse_rules()


def may_hold_secrets(path: str, workspace: str) -> bool:
    """Whether the preset `secrets` matches the clean, absolute `path`, whether or not the preset is enabled."""
    return not _secrets_policy(workspace).is_visible(path)


@functools.lru_cache(maxsize=8)
def _secrets_policy(workspace: str) -> Policy:
    # This mode allows everything that no rule denies, in every zone.
    return Policy(PermissionMode.BYPASS, workspace, rules=preset_rules("secrets"))
