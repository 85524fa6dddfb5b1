"""What every sandbox must hold: files, network, the warden's safety. Each case says how the weak tiers differ."""

from __future__ import annotations

import os
import socket
import uuid

from tests.support.sandbox_suite.kit import Kit, refusal
from toolyard.sandbox.spec import Mount, RunEnding

_HOST_FILES = ("/etc/shadow", "/etc/machine-id", "/etc/hostname")
_CONNECT_SECONDS = 8.0
_RUNS_AFTER = 3  # two workers may have been made before
_PARTS = "('mem', 'environ', 'maps', 'auxv', 'cwd', 'root', 'fd', 'stack', 'syscall')"
_CONNECT = """
import socket
with socket.socket(socket.{family}) as there:
    there.settimeout(5)
    there.connect({address!r})
    print(there.recv(5).decode())
"""


class Files:
    def test_a_weak_tier_says_that_it_is_weak(self, kit: Kit) -> None:
        assert kit.tier.is_weak is not kit.strength.own_spaces

    def test_what_was_not_named_cannot_be_read(self, kit: Kit) -> None:
        box = kit.open()
        ran = box.command(f"cat {kit.secret}")
        assert (ran.out == b"", ran.code != 0) == (kit.strength.confines_files,) * 2
        assert ("Error" in box.python(f"print(open({kit.secret!r}).read())").raised) is kit.strength.confines_files

    def test_a_link_out_of_the_workspace_leads_nowhere(self, kit: Kit) -> None:
        ran = kit.open().command(f"ln -s {kit.outside} out && cat out/secret")
        assert (ran.out == b"") is kit.strength.confines_files

    def test_what_was_not_named_cannot_be_changed(self, kit: Kit) -> None:
        kit.open().command(f"echo x >> {kit.secret}; echo x > {kit.outside}/new")
        with open(kit.secret, encoding="utf-8") as file:
            changed = "x" in file.read()
        assert (changed, os.path.exists(f"{kit.outside}/new")) == (not kit.strength.confines_files,) * 2

    def test_nobody_outside_has_to_wait_for_leave_to_open_a_file(self, kit: Kit) -> None:
        given = kit.file("given/file", "")
        made = kit.file("workspace/file", "")
        box = kit.open(mounts=(Mount(os.path.dirname(given)),))
        for path in (given, made):
            ran = box.python(f"import fcntl, os\nfcntl.fcntl(os.open({path!r}, 0), fcntl.F_SETLEASE, fcntl.F_WRLCK)")
            assert ("PermissionError" in ran.raised) is kit.strength.confines_files

    def test_the_hosts_own_files_cannot_be_read(self, kit: Kit) -> None:
        """What stands there inside is not the host's."""
        hosts = {path: _read(path).strip() for path in _HOST_FILES if os.access(path, os.R_OK)}
        shown = kit.open().command(f"cat {' '.join(hosts)}").text
        seen = [path for path, text in hosts.items() if text and text in shown]
        assert bool(seen) is not (kit.strength.confines_files or not hosts)

    def test_the_system_cannot_be_changed(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # nothing would hold root back from really doing it
        name = f"toolyard-{uuid.uuid4().hex}"
        places = ("/", "/usr", "/etc", "/bin", "/usr/lib", "/proc/sys/kernel", "/dev", "/run")
        ran = kit.open().command("\n".join(f"echo x > {place}/{name} && echo {place}" for place in places))
        assert [place for place in places if os.path.exists(f"{place}/{name}")] == []
        assert ran.text in {"", "/dev\n"}  # a /dev of its own may take files; they are in nobody's way

    def test_the_kernels_settings_cannot_be_changed(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return
        settings = ("kernel/core_pattern", "kernel/randomize_va_space", "vm/overcommit_memory", "kernel/hostname")
        before = [_read(f"/proc/sys/{name}") for name in settings]
        tries = "; ".join(f"cat /proc/sys/{name} > /proc/sys/{name} && echo {name}" for name in settings)
        assert kit.open().command(f"({tries}); echo h > /proc/sysrq-trigger && echo sysrq").out == b""
        assert [_read(f"/proc/sys/{name}") for name in settings] == before

    def test_the_workspace_can_be_written(self, kit: Kit) -> None:
        ran = kit.open().command("echo text > file && mkdir folder && mv file folder/ && cat folder/file")
        assert ran.text == "text\n"
        assert _read(f"{kit.workspace}/folder/file") == "text\n"

    def test_a_workspace_that_may_only_be_read_cannot_be_written(self, kit: Kit) -> None:
        kept = kit.file("workspace/kept", "as it was\n")
        ran = kit.open(writable=False).command("cat kept; echo x > kept; touch new; rm -f kept")
        assert ran.text == "as it was\n"
        if kit.strength.confines_files:
            assert (_read(kept), os.listdir(kit.workspace)) == ("as it was\n", ["kept"])
        else:
            assert os.listdir(kit.workspace) == ["new"]

    def test_a_mount_is_seen_with_the_rights_it_was_given(self, kit: Kit) -> None:
        kept = kit.file("given/kept", "as it was\n")
        taken = kit.file("taken/file", "before\n")
        given, taken_in = os.path.dirname(kept), os.path.dirname(taken)
        box = kit.open(mounts=(Mount(given), Mount(taken_in, writable=True)))
        ran = box.command(f"cat {kept} {taken}; echo x > {given}/new; echo x >> {kept}; echo after > {taken}")
        assert ran.text == "as it was\nbefore\n"
        assert _read(taken) == "after\n"
        changed = os.path.exists(f"{given}/new") or _read(kept) != "as it was\n"
        assert changed is not kit.strength.confines_files

    def test_a_part_of_the_workspace_may_be_kept_from_changes(self, kit: Kit) -> None:
        kept = kit.file("workspace/tools/kept", "as it was\n")
        kit.file("workspace/src/file", "")
        box = kit.open(mounts=(Mount(f"{kit.workspace}/tools"),))
        ran = box.command("cat tools/kept; echo more > src/file; echo x > tools/kept; touch tools/new; mv tools t")
        assert ran.text == "as it was\n"
        assert _read(f"{kit.workspace}/src/file") == "more\n"
        is_whole = (
            os.path.exists(kept) and _read(kept) == "as it was\n" and os.listdir(os.path.dirname(kept)) == ["kept"]
        )
        assert is_whole is kit.strength.confines_files

    def test_a_part_of_the_workspace_may_be_opened_for_changes(self, kit: Kit) -> None:
        kit.file("workspace/out/file", "")
        box = kit.open(writable=False, mounts=(Mount(f"{kit.workspace}/out", writable=True),))
        box.command("echo x > out/new; echo x > new")
        assert os.path.exists(f"{kit.workspace}/out/new")
        assert os.path.exists(f"{kit.workspace}/new") is not kit.strength.confines_files

    def test_a_mount_may_lie_elsewhere_inside(self, kit: Kit) -> None:
        """Where files lie as on the host this cannot be had, and that is said."""
        source = os.path.dirname(kit.file("given/kept", "as it was\n"))
        mounts = (Mount(source, target="/srv/elsewhere"),)
        if kit.strength.own_spaces:
            assert kit.open(mounts=mounts).command("cat /srv/elsewhere/kept").text == "as it was\n"
            return
        assert "/srv/elsewhere" in refusal(lambda: kit.open(mounts=mounts))

    def test_hidden_files_and_folders_show_nothing(self, kit: Kit) -> None:
        hidden = (
            kit.file("workspace/.env", "SECRET=1\n"),
            os.path.dirname(kit.file("workspace/private/deep/key", "SECRET=2\n")),
        )
        kit.file("workspace/open", "")
        ran = kit.open(hidden=hidden).command("cat .env private/deep/key; cat private/deep/* | cat; echo x >> .env")
        assert ("SECRET" in ran.text) is not kit.strength.confines_files
        assert (_read(hidden[0]) == "SECRET=1\n") is kit.strength.confines_files

    def test_what_is_hidden_cannot_be_moved_into_sight(self, kit: Kit) -> None:
        hidden = os.path.dirname(kit.file("workspace/private/key", "SECRET=2\n"))
        box = kit.open(hidden=(hidden,))
        ran = box.command(
            "mv private seen; cat seen/key; ln private/key linked; cat linked; cp -r private copy; cat copy/key"
        )
        assert ("SECRET" in ran.text) is not kit.strength.confines_files

    def test_temporary_files_are_the_sandboxs_own(self, kit: Kit) -> None:
        name = f"toolyard-{uuid.uuid4().hex}"
        box = kit.open()
        assert box.command(f"echo kept > $TMPDIR/{name} && cat $TMPDIR/{name}").text == "kept\n"
        assert box.command(f"cat $TMPDIR/{name}").text == "kept\n"
        assert box.python("import tempfile\nwith tempfile.TemporaryFile() as file: file.write(b'1')").value is None
        box.command(f"echo x > /tmp/{name}-direct")
        assert (kit.open().command(f"cat $TMPDIR/{name}").out == b"") is kit.strength.confines_files
        seen = [path for path in (f"/tmp/{name}", f"/tmp/{name}-direct") if os.path.exists(path)]
        for path in seen:
            os.remove(path)
        assert (seen == []) is kit.strength.confines_files

    def test_the_home_folder_is_empty_and_its_own(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # there it is the user's
        ran = kit.open().command('ls -A "$HOME"; echo kept > "$HOME/file" && cat ~/file')
        assert ran.text == "kept\n"
        assert not os.path.exists(os.path.expanduser("~/file"))

    def test_the_usual_programs_are_there(self, kit: Kit) -> None:
        ran = kit.open().command(
            "git init -q . && echo a > a && git add a && git -c user.name=a -c user.email=a@a commit -qm a && "
            "git log --oneline | wc -l && ls | sort | grep -c a && python3 -c 'print(6 * 7)' && "
            "echo x > /dev/null && head -c 4 /dev/urandom | wc -c && diff <(echo a) <(echo a) && echo same"
        )
        assert (ran.text.split(), ran.code) == (["1", "1", "42", "4", "same"], 0), ran.err


class Network:
    def test_the_hosts_loopback_is_out_of_reach(self, kit: Kit) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            _expect(kit, server, "AF_INET", server.getsockname())

    def test_unix_sockets_of_the_host_are_out_of_reach(self, kit: Kit) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            path = f"{kit.outside}/s"
            here = os.open(kit.outside, os.O_PATH)
            server.bind(f"/proc/self/fd/{here}/s")  # the whole path may be too long for a socket's name
            os.close(here)
            _expect(kit, server, "AF_UNIX", os.path.relpath(path, kit.workspace))

    def test_abstract_sockets_of_the_host_are_out_of_reach(self, kit: Kit) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            name = f"\0toolyard-{uuid.uuid4().hex}"
            server.bind(name)
            _expect(kit, server, "AF_UNIX", name)

    def test_there_is_no_way_to_other_machines(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # whatever the machine's own network is
        tries = (
            "for family in (socket.AF_INET, socket.AF_INET6):\n for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):"
        )
        body = (
            "\n  try:\n   there = socket.socket(family, kind)\n   there.settimeout(3)\n"
            "   there.connect(('192.0.2.1' if family == socket.AF_INET else '2001:db8::1', 53))\n   print('out')\n"
            "  except OSError as error: pass"
        )
        assert kit.open().python(f"import socket\n{tries}{body}").out == b""

    def test_programs_may_talk_among_themselves(self, kit: Kit) -> None:
        """A test suite that starts a server works, where the network is the sandbox's own."""
        ran = kit.open().python(
            "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
            "there = socket.create_connection(server.getsockname())\nserver.accept()[0].send(b'x')\nthere.recv(1)"
        )
        if kit.strength.confines_files and not kit.strength.own_spaces:
            assert "PermissionError" in ran.raised
        else:
            assert ran.value == "b'x'"


class Warden:
    """The process inside that the host talks to. Runs must not be able to reach it."""

    def test_it_cannot_be_killed(self, kit: Kit) -> None:
        box = kit.open()
        box.python("x = 20", session="a")
        signals = "for s in (9, 19, 15, 11, 2, 1):\n try: os.kill(os.getppid(), s)\n except OSError: pass"
        ran = box.python(f"import os\n{signals}")
        after = box.command("echo still here")
        if kit.strength.confines_files:
            assert (ran.outcome.ending, ran.code) == (RunEnding.FINISHED, 0)
            assert (after.text, after.outcome.sandbox_is_new) == ("still here\n", False)
            assert box.python("x", session="a").value == "20"
        else:
            assert ran.outcome.ending is RunEnding.LOST
            assert (after.text, after.outcome.sandbox_is_new) == ("still here\n", True)

    def test_its_limits_cannot_be_taken_away(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # whoever may do that ends it as well as by a signal
        for name in ("RLIMIT_NOFILE", "RLIMIT_DATA", "RLIMIT_STACK"):
            box = kit.open()
            ran = box.python(f"import os, resource\nresource.prlimit(os.getppid(), resource.{name}, (1, 1))")
            assert "PermissionError" in ran.raised
            after = [box.command("echo still here") for _ in range(_RUNS_AFTER)]
            assert [(each.text, each.outcome.sandbox_is_new) for each in after] == [
                ("still here\n", False)
            ] * _RUNS_AFTER

    def test_it_cannot_be_looked_into(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return  # root may look into any process
        code = (
            f"import os\nread = []\nfor name in {_PARTS}:\n path = f'/proc/{{os.getppid()}}/{{name}}'\n"
            " try:\n  if name in ('cwd', 'root'): read.append(os.readlink(path))\n"
            "  elif name == 'fd': read += [os.readlink(f'{path}/{fd}') for fd in os.listdir(path)]\n"
            "  else: read.append(open(path, 'rb').read(1))\n"
            " except OSError: pass\nread"
        )
        assert kit.open().python(code).value == "[]"

    def test_its_memory_cannot_be_written(self, kit: Kit) -> None:
        if not kit.strength.confines_files:
            return
        code = (
            "import ctypes, os\npid = os.getppid()\nlibc = ctypes.CDLL(None)\n"
            "try: open(f'/proc/{pid}/mem', 'r+b').close(); print('opened')\nexcept OSError: pass\n"
            "if libc.ptrace(16, pid, 0, 0) == 0: print('attached')\n"
            "if libc.ptrace(0x4206, pid, 0, 0) == 0: print('seized')"
        )
        assert kit.open().python(code).out == b""

    def test_its_descriptors_are_not_inherited(self, kit: Kit) -> None:
        box = kit.open()
        held = box.python(
            "import os, stat\nheld = set()\nfor fd in range(4096):\n"
            " try: held.add(stat.S_IFMT(os.fstat(fd).st_mode))\n except OSError: pass\n"
            "held == {stat.S_IFIFO, stat.S_IFCHR}"
        )
        assert held.value == "True"  # its own pipes and /dev/null; the line to the host is a socket
        closing = "for fd in 3 4 5 6 7 8 9; do ( : >&$fd ) 2>/dev/null && echo $fd; done; true"
        assert box.command(closing).text == "3\n"
        box.python("1", session="kept")  # while something runs, shells are started in another way
        assert [box.command(closing).text for _ in range(3)] == ["3\n"] * 3

    def test_no_process_of_the_host_is_seen(self, kit: Kit) -> None:
        box = kit.open()
        seen = box.command(f"kill -0 {os.getpid()} && echo seen; ls /proc | grep -x {os.getpid()}")
        assert (seen.out == b"") is kit.strength.confines_files

    def test_one_may_not_pretend_to_be_it(self, kit: Kit) -> None:
        """What is written where answers go is taken for an answer at most."""
        box = kit.open()
        ran = box.python("import os\nos.write(3, b'\\xff' * 64)\nos._exit(0)")
        assert (ran.outcome.ending, ran.outcome.value) == (RunEnding.FINISHED, None)
        assert box.command("echo /etc >&3; head -c 100000 /dev/zero >&3").outcome.ending is RunEnding.FINISHED
        again = box.command("echo fine")
        assert (again.text, again.outcome.sandbox_is_new) == ("fine\n", False)


def _expect(kit: Kit, server: socket.socket, family: str, address: object) -> None:
    """Listening on the host: reached from inside only where nothing stands between."""
    server.listen()
    server.settimeout(0)
    ran = kit.open().python(_CONNECT.format(family=family, address=address), seconds=_CONNECT_SECONDS)
    reached = _accepted(server)
    assert reached is not kit.strength.confines_files, (ran.raised, ran.err)


def _accepted(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
