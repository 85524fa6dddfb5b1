"""What the project's image holds, and that it works the way the sandbox starts it."""

import os

import pytest

# As the sandbox starts it: no network, nothing writable but /tmp, no capabilities.
AS_A_SANDBOX = (
    *("run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp:size=64m,mode=1777"),
)


@pytest.fixture
def inside(engine, image):
    def run(script, *options):
        return engine.docker(*AS_A_SANDBOX, *options, "--entrypoint", "bash", image, "-c", script)

    return run


@pytest.mark.parametrize("program", ["bash", "git", "rg", "ast-grep", "python3", "sha256sum"])
def test_it_has_the_program(inside, program):
    assert inside(f"{program} --version | head -1").strip()


def test_ast_grep_and_ripgrep_find_code(inside):
    script = "cd /tmp && echo 'print(1)' > a.py && rg --files-with-matches print && ast-grep run -p 'print($A)' -l py"

    assert inside(script).split("\n")[:2] == ["a.py", "a.py:1:print(1)"]


def test_it_runs_as_nobody_and_only_tmp_takes_files(inside):
    script = "id -u; for at in / /run/toolyard /usr/local/bin /tmp; do touch $at/x 2>/dev/null && echo $at; done"

    assert inside(script).split() == ["65534", "/tmp"]


def test_any_user_can_be_named(inside):
    assert inside("id -u; python3 -c 'print(1 + 1)'; git --version", "--user", "4321:4321").split()[:2] == [
        "4321",
        "2",
    ]


def test_git_takes_a_workspace_that_belongs_to_someone_else(inside, tmp_path):
    os.chmod(tmp_path, 0o777)
    mount = ("--volume", f"{tmp_path}:{tmp_path}", "--workdir", str(tmp_path))

    inside("git init -q . && touch a", *mount, "--user", "1234:1234")

    assert inside("git status --short", *mount, "--user", "4321:4321").split() == ["??", "a"]


def test_an_agent_can_make_an_environment_of_its_own(inside):
    assert "pip" in inside("python3 -m venv /tmp/own && /tmp/own/bin/python -m pip --version")


def test_it_holds_the_runtime_and_nothing_else_of_the_project(inside):
    held = inside("find / -xdev -name '*toolyard*' 2>/dev/null; true").split()

    assert held == ["/run/toolyard", "/run/toolyard/toolyard_runtime"]
    assert "/run/toolyard/toolyard_runtime/supervisor.py" in inside("ls /run/toolyard/toolyard_runtime/*.py").split()


def test_it_starts_quickly_because_the_runtime_is_compiled(inside):
    assert "supervisor.cpython" in inside("ls /run/toolyard/toolyard_runtime/__pycache__")


def test_nothing_in_it_gains_privileges(inside):
    assert inside("find / -xdev -type f -perm /6000 2>/dev/null; true") == ""
