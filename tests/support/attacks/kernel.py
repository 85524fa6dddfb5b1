"""Python code that asks the kernel for what no sandboxed program may have. The control shows that it would be given.

None of it changes anything: it asks in a way that is permitted and does nothing, or fails for another reason than
a lack of rights (`also`).
"""

from __future__ import annotations

from typing import Final

from tests.support.attacks.runs import Control, Fact, RunAttack, python


def _permitted(name: str, code: str, control: Control = Control.OFF, *, as_root: bool = False) -> RunAttack:
    return python(name, code, Fact.PERMITTED, control, as_root=as_root)


KERNEL: Final = (
    # Other processes.
    _permitted("ptrace", "attempt(#ptrace#, 0x4206, @victim@, 0, 0)"),
    _permitted("ptrace of oneself", "attempt(#ptrace#, 0, 0, 0, 0)"),
    python(
        "reading another's memory",
        "b = ctypes.create_string_buffer(64)\n"
        "class V(ctypes.Structure): _fields_ = [('a', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
        "call(#process_vm_readv#, @victim@, ctypes.byref(V(ctypes.addressof(b), @marker_length@)), 1, "
        "ctypes.byref(V(@address@, @marker_length@)), 1, 0)\n"
        "print(b.value)",
    ),
    python(
        "another's descriptor", "f = call(#pidfd_getfd#, os.pidfd_open(@victim@), 9, 0); print(os.pread(f, 99, 0))"
    ),
    _permitted("comparing with another", "attempt(#kcmp#, os.getpid(), @victim@, 1, 0, 0)"),
    _permitted("moving another's pages", "attempt(#move_pages#, @victim@, 0, 0, 0, 0, 0)"),
    # Namespaces, mounts and roots.
    _permitted("a new user namespace", "attempt(#unshare#, 0x10000000)", Control.BARE),
    _permitted("a new mount namespace", "attempt(#unshare#, 0x20000)", as_root=True),
    _permitted(
        "a child in a new user namespace",
        "p = call(#clone#, 0x10000000 | 17, 0, 0, 0, 0)\nif p == 0: os._exit(0)\nif p > 0: say()",
        Control.BARE,
    ),
    _permitted(
        "a child in a new user namespace by clone3",
        "a = struct.pack('<8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0); p = call(435, a, len(a))\n"
        "if p == 0: os._exit(0)\nif p > 0: say()",
        Control.BARE,
    ),
    _permitted(
        "another's namespace",
        "for n in ('uts', 'ipc', 'net'):\n for p in ('1', '@victim@'):\n  "
        "try: attempt(#setns#, os.open(f'/proc/{p}/ns/{n}', 0), 0)\n  except OSError as e: print(e)",
        as_root=True,
    ),
    _permitted("chroot", "attempt(#chroot#, b'.')", as_root=True),
    _permitted("pivot_root", "attempt(#pivot_root#, b'.', b'.', also=(errno.EBUSY, errno.EINVAL))", as_root=True),
    _permitted("mount", "os.mkdir('m'); attempt(#mount#, b'none', b'm', b'tmpfs', 0, 0)", Control.PRIVATE),
    _permitted(
        "mount again with other rights",
        "attempt(#mount#, b'none', b'/', 0, 0x1020, 0, also=(errno.EINVAL,))",
        Control.PRIVATE,
    ),
    _permitted("umount", "attempt(#umount2#, b'/proc', 2)", Control.PRIVATE),
    _permitted("fsopen", "attempt(#fsopen#, b'tmpfs', 0)", as_root=True),
    _permitted("open_tree", "attempt(#open_tree#, -100, b'/', 1)", as_root=True),
    _permitted(
        "a file handle",
        "h = ctypes.create_string_buffer(struct.pack('<Ii', 120, 0) + bytes(120)); m = ctypes.c_int(); "
        "attempt(#name_to_handle_at#, -100, b'.', h, ctypes.byref(m), 0)",
    ),
    _permitted(
        "a file by its handle",
        "h = ctypes.create_string_buffer(struct.pack('<Ii', 8, 1) + bytes(8)); "
        "attempt(#open_by_handle_at#, os.open('.', 0), h, 0, also=(errno.ESTALE, errno.EINVAL))",
        as_root=True,
    ),
    # Parts of the kernel that were often the way to root.
    _permitted("io_uring", "p = ctypes.create_string_buffer(120); attempt(#io_uring_setup#, 1, p)"),
    _permitted(
        "bpf", "a = struct.pack('<IIII', 2, 4, 4, 1) + bytes(112); attempt(#bpf#, 0, a, len(a))", as_root=True
    ),
    _permitted(
        "perf_event_open",
        "a = struct.pack('<IIQ', 1, 112, 0) + bytes(24) + struct.pack('<Q', 0x60) + bytes(64); "
        "attempt(#perf_event_open#, a, 0, -1, -1, 0)",
    ),
    _permitted("userfaultfd", "attempt(#userfaultfd#, 1)"),
    _permitted("memfd_secret", "attempt(#memfd_secret#, 0, also=(errno.ENOSYS,))"),
    _permitted(
        "AF_ALG",
        "try: socket.socket(38, socket.SOCK_SEQPACKET)\nexcept OSError as e:\n "
        "if e.errno == errno.EAFNOSUPPORT: say()\nelse: say()",
    ),
    _permitted(
        "SCTP",
        "try: socket.socket(2, socket.SOCK_SEQPACKET, 132)\nexcept OSError as e:\n "
        "if e.errno in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT): say()\nelse: say()",
    ),
    # Keys.
    _permitted("add_key", "attempt(#add_key#, b'user', b'toolyard-escape', b'x', 1, -2)"),
    _permitted("keyctl", "attempt(#keyctl#, 0, -3, 0)", Control.BARE),
    _permitted("request_key", "attempt(#request_key#, b'user', b'toolyard-not-there', 0, 0, also=(errno.ENOKEY,))"),
    # The machine.
    _permitted("reboot", "attempt(#reboot#, 0, 0, 0, 0, also=(errno.EINVAL,))", as_root=True),
    _permitted("the kernel's log", "attempt(#syslog#, 10, 0, 0)", as_root=True),
    _permitted("the clock", "t = ctypes.create_string_buffer(256); attempt(#adjtimex#, t)"),
    _permitted("the host's name", "attempt(#sethostname#, b'x', 1)", Control.PRIVATE),
    _permitted("swap", "attempt(#swapon#, b'not-there', 0, also=(errno.ENOENT,))", as_root=True),
    _permitted("address layout", "attempt(#personality#, 0x0040000)"),
    _permitted(
        "typing into a terminal",
        "import pty, fcntl\na, b = pty.openpty(); fcntl.ioctl(b, 0x5412, b'x'); say()",
        as_root=True,
    ),
    _permitted(
        "rights that programs may hold",
        "if int(open('/proc/self/status').read().split('CapBnd:')[1].split()[0], 16): say()",
        as_root=True,
    ),
    _permitted(
        "rights that programs may gain",
        "if 'NoNewPrivs:\\t0' in open('/proc/self/status').read(): say()",
        Control.BARE,
        as_root=True,
    ),
    _permitted("no filter", "if 'Seccomp:\\t0' in open('/proc/self/status').read(): say()"),
    *(
        _permitted(f"the kernel's own {name}", f"if open('/proc/{name}', 'rb').read(8): say()", as_root=True)
        for name in ("kpagecount", "kpageflags", "slabinfo", "vmallocinfo", "timer_list", "kallsyms", "keys")
    ),
    _permitted(
        "the folder of private keys",
        "for d in ('/etc/ssl', '/etc/pki/tls'):\n if os.path.exists(d) and 'private' in os.listdir(d): say()",
        as_root=True,
    ),
    _permitted("root inside", "os.setuid(0); say()", as_root=True),
)
