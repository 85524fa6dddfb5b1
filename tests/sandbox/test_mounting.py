"""The view that a warden builds itself: what each mount is like, and that nothing of the host's own is left in it."""

import errno
import os

import pytest

from tests.support.sandbox_suite.kit import Kit, Subject, refusal, tight
from toolyard.core.limits import MIB
from toolyard.sandbox.backends.namespaces import find_unshare, namespaces_sandbox
from toolyard.sandbox.spec import Mount
from toolyard_runtime import mounts as runtime_mounts

PROGRAM = find_unshare()
TEMPORARY = 32 * MIB
BLOCK = 4096

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no unshare")


@pytest.fixture
def kit(tmp_path):
    with Kit(Subject(lambda: namespaces_sandbox(PROGRAM), ""), str(tmp_path)) as kit:
        yield kit


@pytest.fixture
def box(kit):
    folder, file = os.path.dirname(kit.file("workspace/private/key", "")), kit.file("workspace/.env", "")
    return kit.open(hidden=(folder, file), limits=tight(temporary_bytes=TEMPORARY))


def mounts(box):
    """Each mount point with its options and its kind of file system."""
    lines = box.command("cat /proc/self/mountinfo").text.splitlines()
    return {line.split()[4]: (set(line.split()[5].split(",")), line.split(" - ")[1].split()[0]) for line in lines}


def test_every_mount_has_the_rights_it_needs_and_no_more(box, kit):
    found = mounts(box)
    rights = {path: options & {"ro", "nosuid", "nodev", "noexec"} for path, (options, _) in found.items()}
    assert {path: "nosuid" in having for path, having in rights.items()} == dict.fromkeys(rights, True)
    assert {path for path, having in rights.items() if "nodev" not in having} == {
        *(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")),
        "/dev/pts",
    }
    assert rights["/proc"] == {"nosuid", "nodev", "noexec"}
    assert "noexec" in rights["/dev/pts"]
    writable = {path for path, having in rights.items() if "ro" not in having and found[path][1] != "devpts"}
    kept = {"/dev/shm", "/tmp", "/home/agent", "/proc", "/proc/sys/kernel/pid_max", "/proc/tty/driver"}
    devices = {path for path in writable if path.startswith("/dev/")} - kept
    assert writable - kept - devices == {kit.workspace, f"{kit.workspace}/private"}


def test_what_is_in_memory_has_its_size_and_mode(box, kit):
    tell = "import os\n[(os.stat(p).st_mode & 0o7777, os.statvfs(p).f_blocks * os.statvfs(p).f_frsize) for p in {}]"
    places = ["/tmp", "/home/agent", "/dev/shm", f"{kit.workspace}/private"]
    shown = eval(str(box.python(tell.format(places)).value))
    assert shown == [(0o1777, TEMPORARY), (0o700, 256 * MIB), (0o1777, 256 * MIB), (0, BLOCK)]
    assert box.command("stat -c %a / /dev /etc/passwd").text.split() == ["755", "755", "444"]


def test_nothing_of_the_old_root_is_left(box):
    found = mounts(box)
    assert not any(path.startswith(("/old", "/new")) for path in found)
    lines = [line.split() for line in box.command("cat /proc/self/mountinfo").text.splitlines()]
    assert [(line[3], line[4]) for line in lines if line[4] == "/"] == [("/", "/")], "one root, the whole of its own"
    assert found["/"][1] == "tmpfs"
    assert box.command("ls / | grep -xE 'old|new'; readlink /proc/self/root /proc/self/cwd").text.split()[0] == "/"


def test_terminals_are_its_own(box):
    assert box.command("ls /dev/pts").text.split() == ["ptmx"]
    assert box.command("stat -Lc %a /dev/ptmx").text == "666\n"
    assert box.python("import os, pty\na, b = pty.openpty()\nos.ttyname(b)").value == "'/dev/pts/0'"


def test_its_name_and_its_loopback_are_its_own(box):
    assert box.command("uname -n").text == "toolyard\n"
    code = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname(), 5)\n1"
    )
    assert box.python(code).value == "1"


def test_what_is_mounted_within_a_shown_folder_has_the_folders_rights(kit):
    """Bound with all below it: what is mounted there on the host is neither missing nor more than the rest."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        there = {f"/shown{line.split()[4][len('/dev') :]}" for line in file if line.split()[4].startswith("/dev/")}
    if not there:
        pytest.skip("nothing is mounted below /dev here")
    found = {
        path: options & {"ro", "nosuid", "nodev"}
        for path, (options, _) in mounts(kit.open(mounts=(Mount("/dev", target="/shown"),))).items()
        if path.startswith("/shown/")
    }
    assert found == {path: {"ro", "nosuid", "nodev"} for path in there}


def test_a_link_that_is_put_in_the_way_of_a_mount_while_it_starts_is_refused(kit):
    """After the host has looked: the warden looks again, at the handle it mounts."""
    real, elsewhere = os.path.dirname(kit.file("workspace/real/tools/kept", "")), kit.file("elsewhere/tools/kept", "")
    above = os.path.dirname(real)

    def swapped():
        os.rename(above, f"{above}-gone")
        os.symlink(os.path.dirname(os.path.dirname(elsewhere)), above)

    launch = namespaces_sandbox(PROGRAM)._launch

    def late(spec):
        launched = launch(spec)
        swapped()
        return launched

    kit.subject = Subject(lambda: _with_launch(late), "")
    assert real in refusal(lambda: kit.open(mounts=(Mount(real),)))


def _with_launch(launch):
    sandbox = namespaces_sandbox(PROGRAM)
    sandbox._launch = launch
    return sandbox


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_place_that_a_link_leads_to_is_no_place_for_a_mount(tmp_path, kind):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    place = {"link": tmp_path / "link", "folder": tmp_path / "link" / "below"}[kind]
    with pytest.raises(OSError) as raised:
        runtime_mounts._ensure_folder(str(place))
    assert raised.value.errno == errno.ELOOP
    assert os.listdir(tmp_path / "real") == []  # which might be a folder of the host's


def test_a_file_of_the_view_is_not_made_where_a_link_leads(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError) as raised:
        runtime_mounts._write(str(tmp_path / "link" / "file"), "text")
    assert raised.value.errno == errno.ELOOP
    assert os.listdir(tmp_path / "real") == []


def test_a_file_of_the_view_is_never_written_into_another(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "link").symlink_to("target")
    for name in ("target", "link"):
        with pytest.raises(FileExistsError):
            runtime_mounts._write(str(tmp_path / name), "lost")
    assert (tmp_path / "target").read_text() == "kept"


def test_links_to_a_source_are_followed_before_anything_is_covered_unless_it_has_to_be_plain(tmp_path):
    (tmp_path / "link").symlink_to("real")
    step = ("bind", "/shown", f"{tmp_path}/link", False, 0, 0)
    assert runtime_mounts._resolve_source((*step, True)) == f"{tmp_path}/link"
    assert runtime_mounts._resolve_source((*step, False)) == os.path.realpath(tmp_path / "real")


@pytest.fixture
def bound(monkeypatch):
    """What `_bind` would have mounted."""
    places = []
    monkeypatch.setattr(runtime_mounts, "_OLD", "")
    monkeypatch.setattr(runtime_mounts, "_mount", lambda source, place, *rest: places.append(place))
    monkeypatch.setattr(runtime_mounts, "_set_attributes", lambda *given, recursive: None)
    return places


@pytest.mark.parametrize("source", ["link", "link/below", "file-link"])
def test_a_plain_source_is_reached_without_links(tmp_path, bound, source):
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file-link").symlink_to("file")
    with pytest.raises(OSError) as raised:
        runtime_mounts._bind(str(tmp_path / source), str(tmp_path / "place"), 0, plain=True)
    assert (raised.value.errno, bound) == (errno.ELOOP, [])
    runtime_mounts._bind(str(tmp_path / "real"), str(tmp_path / "place"), 0, plain=True)
    assert bound == [str(tmp_path / "place")]


@pytest.mark.parametrize("place", ["link", "link/below", "file-link"])
def test_nothing_is_mounted_where_a_link_leads(tmp_path, bound, place):
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file-link").symlink_to("file")
    source = tmp_path / ("file" if place == "file-link" else "real")
    with pytest.raises(OSError) as raised:
        runtime_mounts._bind(str(source), str(tmp_path / place), 0, plain=True)
    assert (raised.value.errno, bound) == (errno.ELOOP, [])


@pytest.mark.parametrize(
    "call",
    [
        lambda place: runtime_mounts._mount("tmpfs", place, "tmpfs", 0),
        lambda place: runtime_mounts._set_attributes(place, 1, recursive=False),
        lambda place: runtime_mounts._pivot(place, place),
    ],
    ids=["mount", "attributes", "root"],
)
def test_what_the_kernel_refuses_is_raised(tmp_path, call):
    with pytest.raises(OSError):
        call(str(tmp_path / "not there"))


def test_code_finds_the_runtime_where_it_lies_inside(box):
    assert box.python("import sys\n'/run/toolyard' in sys.path").value == "True"


def test_a_step_that_fails_is_told(kit):
    said = refusal(lambda: _open_without(kit, f"{kit.workspace}/gone"))
    assert f"{kit.workspace}/gone" in said


def _open_without(kit, path):
    """Gone after the host has looked."""
    os.mkdir(path)
    launch = namespaces_sandbox(PROGRAM)._launch

    def late(spec):
        launched = launch(spec)
        os.rmdir(path)
        return launched

    kit.subject = Subject(lambda: _with_launch(late), "")
    kit.open(mounts=(Mount(path),))
