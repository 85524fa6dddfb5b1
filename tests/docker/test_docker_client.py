"""What is made of a client's answers, with a client of the tests' own: no engine is needed."""

import os
import shlex
import shutil
import stat
import subprocess
import sys

import pytest

from toolyard.core.errors import SystemFault
from toolyard.sandbox.backends.docker import docker_sandbox
from toolyard.sandbox.backends.docker_engine import Engine, EngineCapabilities, build_command, probe_engine
from toolyard.sandbox.spec import SandboxSpec

WHOLE = "0 0 4294967295"


@pytest.fixture
def client(tmp_path):
    """Makes a program named `docker_sandbox` that prints what it is told and ends as it is told."""

    def make(out="", err="", code=0, name="docker"):
        program = tmp_path / name
        program.write_text(
            f"#!/bin/sh\nprintf %s {shlex.quote(out)}\nprintf %s {shlex.quote(err)} >&2\nexit {code}\n"
        )
        program.chmod(stat.S_IRWXU)
        return Engine.with_environment(str(program), {"PATH": os.defpath})

    return make


@pytest.mark.parametrize("level", ["-1", "0", "7"])
def test_landlock_is_used_where_the_engine_lets_it(client, level):
    offer = probe_engine(client(f"{level}\n{WHOLE}\n{WHOLE}\n"), "image")

    assert offer == EngineCapabilities(landlock=level == "7", user=f"{os.geteuid()}:{os.getegid()}")


def test_a_container_of_an_engine_without_root_runs_as_the_user_who_is_the_caller_outside(client):
    users = f"0 {os.geteuid()} 1 1 100000 65536"
    groups = f"0 200000 5 5 {os.getegid()} 1"

    assert probe_engine(client(f"7\n{users}\n{groups}\n"), "image").user == "0:5"


@pytest.mark.parametrize(("user", "inside"), [(1000, 0), (1001, 100), (1004, 103)])
def test_users_are_counted_from_where_their_range_begins(client, monkeypatch, user, inside):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "getegid", lambda: 2002)

    assert probe_engine(client("7\n0 1000 1 100 1001 4\n50 2000 10\n"), "image").user == f"{inside}:52"


def test_a_range_ends_before_the_next_user(client, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1005)

    with pytest.raises(SystemFault, match="do not map user or group 1005"):
        probe_engine(client(f"7\n0 1000 1 100 1001 4\n{WHOLE}\n"), "image")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare")
def test_a_container_is_asked_for_its_users_and_its_groups(tmp_path):
    """A client that runs what it is given in a user namespace, which has mappings as a container has."""
    program = tmp_path / "docker"
    given = 'while [ "$1" != -I ]; do shift; done; shift'
    program.write_text(
        f'#!/bin/sh\n{given}\nexec unshare --map-user=5 --map-group=7 {shlex.quote(sys.executable)} -I "$@"\n'
    )
    program.chmod(stat.S_IRWXU)

    assert probe_engine(Engine.with_environment(str(program), {"PATH": os.defpath}), "image").user == "5:7"


def test_the_advice_of_the_client_is_left_out_where_there_is_no_engine(client):
    said = "docker: Cannot connect to the Docker daemon at unix:///x.\n\nRun 'docker run --help' for more information"
    with pytest.raises(SystemFault) as raised:
        probe_engine(client(err=said, code=125), "i:1")

    assert raised.value.message.endswith("Cannot connect to the Docker daemon at unix:///x.")


@pytest.mark.parametrize("answer", ["7\n0 70000 10\n0 70000 10\n", "7\n", "", "what?\n1\n2\n", "7\n1 2\n1 2\n"])
def test_an_engine_whose_containers_cannot_be_ours_is_refused(client, answer):
    with pytest.raises(SystemFault, match="cannot be used on this engine"):
        probe_engine(client(answer), "image")


@pytest.mark.parametrize(
    ("name", "said", "message", "hint"),
    [
        ("docker", "docker: Error: No such image: i:1.", "The sandbox image i:1 does not exist", "docker pull i:1"),
        ("podman", "Error: i:1: image not known", "The sandbox image i:1 does not exist", "podman build --tag i:1"),
        (
            "docker",
            "Cannot connect to the Docker daemon at",
            "The docker engine cannot be reached",
            "Start the engine",
        ),
        (
            "docker",
            'exec: "python3": executable file not found in $PATH',
            "has no python3",
            "Build ours: docker build",
        ),
        ("docker", "something else", "docker could not start a container: something else", "toolyard doctor"),
    ],
)
def test_a_failure_says_what_to_do_next(client, name, said, message, hint):
    with pytest.raises(SystemFault) as raised:
        probe_engine(client(err=said, code=125, name=name), "i:1")

    assert message in raised.value.message
    assert hint in raised.value.hint


def test_a_failure_is_not_remembered(client):
    with pytest.raises(SystemFault):
        probe_engine(client(code=125), "image")

    assert probe_engine(client(f"7\n{WHOLE}\n{WHOLE}\n"), "image").landlock


def test_a_client_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SystemFault, match="could not be started"):
        docker_sandbox(str(tmp_path / "nothing"), "image").start(SandboxSpec(str(tmp_path)))


def test_a_client_gets_what_it_needs_of_the_environment_and_nothing_else():
    given = {"PATH": "/bin", "DOCKER_HOST": "unix:///x", "HOME": "/h", "SECRET": "1", "LD_PRELOAD": "x"}

    assert dict(Engine.with_environment("docker", given).variables) == {
        "PATH": "/bin",
        "DOCKER_HOST": "unix:///x",
        "HOME": "/h",
    }


def test_a_client_is_started_with_that_environment_alone(client):
    engine = client()
    with open(engine.program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec /usr/bin/env\n")
    seen = engine.run_to_end(("version",), 10).stdout.decode().split()

    assert [line for line in seen if not line.startswith(("PWD=", "OLDPWD=", "SHLVL=", "_="))] == [
        f"PATH={os.defpath}"
    ]


def test_the_build_command_names_files_that_are_there():
    command = shlex.split(build_command("docker", "toolyard-sandbox"))

    assert command[:4] == ["docker", "build", "--tag", "toolyard-sandbox"]
    assert os.path.basename(command[5]) == "Dockerfile"
    assert os.path.isfile(command[5])
    assert os.path.isfile(os.path.join(command[6], "supervisor.py"))


def test_a_client_that_hangs_is_ended(client, tmp_path, monkeypatch):
    hanging = client()
    with open(hanging.program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")

    with pytest.raises(SystemFault, match=r"docker did not answer within 0\.5 s"):
        hanging.run_to_end(("version",), 0.5)

    pid = (tmp_path / "pid").read_text().strip()
    assert subprocess.run(["kill", "-0", pid], capture_output=True, check=False).returncode != 0
