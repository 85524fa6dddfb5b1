"""What every sandbox with namespaces and mounts of its own must do beside the rest."""

from __future__ import annotations

import os

from tests.support.sandbox_suite.kit import Kit
from toolyard.linux import landlock

_WRITE = "try: open('/proc/self/comm', 'w').write('x'); print('written')\nexcept PermissionError: print('refused')"
_LOOK = "for part in mem environ maps auxv; do ( : < /proc/1/$part ) && echo $part; done; readlink /proc/1/{cwd,fd/*}"


class OwnNamespaces:
    def test_landlock_stands_behind_the_mounts(self, kit: Kit) -> None:
        """Nothing else keeps a process from writing what the kernel says about itself."""
        if landlock.abi_version() == 0:
            return
        box = kit.open()
        assert box.python(_WRITE).text == "refused\n"  # in the worker that was there before the walls
        assert box.python(_WRITE, session="a").text == "refused\n"
        ran = box.command("( echo x > /proc/self/comm ) 2>/dev/null && echo written || echo refused")
        assert ran.text == "refused\n"

    def test_runs_that_the_warden_started_cannot_look_into_it(self, kit: Kit) -> None:
        """They share its Landlock domain, so that this wall does not stand between them."""
        box = kit.open()
        assert box.command(f"({_LOOK}) 2>/dev/null; true").out == b""
        box.python("1")  # takes the worker that was there before the walls
        ran = box.python(f"import subprocess\nsubprocess.run(['bash', '-c', {_LOOK!r}], capture_output=True).stdout")
        assert ran.value == "b''"

    def test_what_the_view_is_built_of_is_mounted_read_only(self, kit: Kit) -> None:
        """Landlock refuses most of these writes too; the mounts hold where a kernel has none."""
        shown = kit.open().command("""awk '{split($6, o, ","); print $5, o[1]}' /proc/self/mountinfo""").text
        rights = dict(line.rsplit(" ", 1) for line in shown.splitlines())
        of_the_kernel = [path for path in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq") if os.path.exists(path)]
        built = ["/", "/dev", "/usr", *of_the_kernel]
        assert {path: rights.get(path) for path in built} == dict.fromkeys(built, "ro")
        assert rights[kit.workspace] == "rw"

    def test_it_shares_no_namespace_with_the_host(self, kit: Kit) -> None:
        names = ("ipc", "mnt", "net", "pid", "user", "uts")
        seen = kit.open().command(f"readlink /proc/self/ns/{{{','.join(names)}}}").text.split()
        assert len(seen) == len(names)
        assert set(seen) & {os.readlink(f"/proc/self/ns/{name}") for name in names} == set()
