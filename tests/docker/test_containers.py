"""What is particular to the sandbox in a container, seen from inside and from the engine."""

import http.server
import json
import os
import threading

import pytest

from tests.support.sandbox_suite.kit import within
from toolyard.core.errors import SystemFault
from toolyard.core.limits import MIB, RunLimits
from toolyard.sandbox import guest_layout
from toolyard.sandbox.backends.docker import docker_sandbox
from toolyard.sandbox.spec import Mount, RunEnding, RunKind, RunRequest, SandboxSpec

GONE_SECONDS = 1.0
REMOVED_SECONDS = 10.0
RUN_SECONDS = 30.0


def only_container(engine):
    (name,) = engine.names()
    (found,) = json.loads(engine.docker("inspect", name))
    return found


def test_the_engine_was_told_of_every_wall_and_limit(engine, image, kit):
    kit.open(limits=RunLimits(memory_bytes=512 * MIB, processes=200))

    found = only_container(engine)

    host = found["HostConfig"]
    assert {
        name: host[name] for name in ("NetworkMode", "IpcMode", "Privileged", "ReadonlyRootfs", "AutoRemove")
    } == {
        "NetworkMode": "none",
        "IpcMode": "private",
        "Privileged": False,
        "ReadonlyRootfs": True,
        "AutoRemove": True,
    }
    assert (host["CapAdd"], host["CapDrop"], host["LogConfig"]["Type"]) == (None, ["ALL"], "none")
    assert host["SecurityOpt"][0] == "no-new-privileges"
    assert (host["Memory"], host["MemorySwap"]) == (512 * MIB, 512 * MIB)
    assert 200 <= host["PidsLimit"] < 210
    assert (found["Config"]["User"], found["Config"]["Image"]) == (f"{os.geteuid()}:{os.getegid()}", image)
    assert not [text for text in found["Config"]["Env"] if kit.mark in text]
    assert f"-{os.getpid()}-" in found["Name"]


def test_every_wall_stands_inside(kit):
    ran = kit.open().command(
        "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp_filters):' /proc/self/status | cut -f 2; id -u; "
        "tail -n +3 /proc/net/dev | cut -d : -f 1; ls /sys/class/net; echo x > /proc/self/comm"
    )

    nothing = "0" * 16
    assert ran.text.split() == [nothing, nothing, "1", "2", str(os.geteuid()), "lo", "lo"]
    assert b"Permission denied" in ran.err  # Landlock's work: a process may otherwise always rename itself


def test_nothing_of_the_engines_host_is_mounted_but_what_was_named(kit):
    box = kit.open()

    targets = set(box.command("cut -d ' ' -f 5 /proc/self/mountinfo").text.split())

    own = {kit.workspace, "/", guest_layout.TEMPORARY, guest_layout.HOME, f"{guest_layout.RUNTIME}/toolyard_runtime"}
    given = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
    assert {path for path in targets - own - given if not path.startswith(("/proc", "/sys", "/dev"))} == set()


def test_programs_can_be_started_from_temporary_folders(kit):
    script = 'printf "#!/bin/sh\\necho ran" > {0}/x; chmod +x {0}/x; {0}/x'

    ran = kit.open().command(script.format(guest_layout.TEMPORARY) + ";" + script.format(guest_layout.HOME))

    assert ran.text == "ran\nran\n"


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a:b", "a b", "a=b", "é\n"])
def test_a_folder_may_have_any_name(kit, name):
    source = os.path.dirname(kit.file(f"given {name}/{name}/file", "text\n"))
    hidden = os.path.dirname(kit.file(f"workspace/{name}/file", "SECRET\n"))
    box = kit.open(mounts=(Mount(source),), hidden=(hidden,))

    ran = box.python(f"import os\n[os.listdir({source!r}), os.listdir({hidden!r})]")

    assert ran.value == "[['file'], []]"


def test_a_later_mount_covers_earlier_ones(kit):
    kit.file("given/deep/file", "text\n")
    given, deep = f"{kit.folder}/given", f"{kit.folder}/given/deep"
    box = kit.open(mounts=(Mount(deep), Mount(given), Mount(given, writable=True)))

    box.command(f"echo new > {deep}/file")

    with open(f"{deep}/file", encoding="utf-8") as file:
        assert file.read() == "new\n"


def test_what_lies_in_a_hidden_folder_is_not_mounted_either(kit):
    secret = kit.file("workspace/private/deep/file", "SECRET\n")
    private, deep = f"{kit.workspace}/private", f"{kit.workspace}/private/deep"
    box = kit.open(mounts=(Mount(deep, writable=True),), hidden=(private, secret))

    ran = box.command(f"cat {secret}; ls -A {private}; touch {private}/x; chmod 777 {private}; mkdir {private}/y")

    assert (ran.text, os.listdir(private)) == ("", ["deep"])


def test_the_allowed_hosts_can_be_reached_and_no_others(engine, image, tmp_path):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"a page")

        def log_message(self, *_):
            pass

    code = (
        "import urllib.request, urllib.error\n"
        "for port in ({allowed}, {other}):\n"
        " try: print(urllib.request.urlopen(f'http://localhost:{{port}}/', timeout=9).read().decode())\n"
        " except urllib.error.HTTPError as error: print(error.code)"
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        allowed = server.server_port
        kept = bytearray()
        with docker_sandbox("docker", image, client_environment=engine.environment) as sandbox:
            sandbox.start(SandboxSpec(str(tmp_path), allowed_hosts=(f"localhost:{allowed}",)))
            request = RunRequest(RunKind.PYTHON, code.format(allowed=allowed, other=allowed + 1), RUN_SECONDS)
            sandbox.run(request, lambda _, data: kept.extend(data), threading.Event())
        server.shutdown()
        serving.join()

    assert kept.decode() == "a page\n403\n"


def test_a_closed_sandbox_leaves_no_container(engine, kit):
    box = kit.open()
    (name,) = engine.names()
    processes = engine.processes_of(name)

    box.sandbox.close()

    assert within(GONE_SECONDS, lambda: not [pid for pid in processes if os.path.exists(f"/proc/{pid}")])
    assert within(REMOVED_SECONDS, lambda: not engine.names())


def test_a_container_that_cannot_end_by_itself_is_removed(engine, kit):
    box = kit.open()
    (name,) = engine.names()
    engine.docker("pause", name)

    box.sandbox.close()

    assert within(REMOVED_SECONDS, lambda: not engine.names())


def test_a_container_that_somebody_removed_is_replaced(engine, kit):
    box = kit.open()
    engine.docker("rm", "--force", *engine.names())

    again = box.command("echo again")
    if again.outcome.ending is RunEnding.LOST:  # the removal was not noticed before the run was sent
        again = box.command("echo again")

    assert (again.text, again.outcome.sandbox_is_new) == ("again\n", True)


def test_an_image_that_is_not_there_is_told_with_the_way_to_build_it(engine, tmp_path):
    with pytest.raises(SystemFault) as raised:
        docker_sandbox("docker", "toolyard-sandbox", client_environment=engine.environment).start(
            SandboxSpec(str(tmp_path))
        )

    assert raised.value.message == "The sandbox image toolyard-sandbox does not exist."
    assert raised.value.hint.startswith("Build it: docker build --tag toolyard-sandbox --file ")


def test_an_image_without_python_is_told(engine, tmp_path):
    engine.docker("import", "-", "without-python:tests", given=b"\0" * 10240)

    with pytest.raises(SystemFault, match="The image without-python:tests has no python3"):
        docker_sandbox("docker", "without-python:tests", client_environment=engine.environment).start(
            SandboxSpec(str(tmp_path))
        )


def test_an_engine_that_does_not_run_is_told(engine, tmp_path):
    elsewhere = {**engine.environment, "DOCKER_HOST": f"unix://{tmp_path}/nothing"}

    with pytest.raises(SystemFault, match="The docker engine cannot be reached"):
        docker_sandbox("docker", "any", client_environment=elsewhere).start(SandboxSpec(str(tmp_path)))
