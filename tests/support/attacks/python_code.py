"""Python code that tries to get out, as data: files, the network, processes. The kernel's are in another table."""

from __future__ import annotations

from typing import Final

from tests.support.attacks.runs import Control, Fact, python

READS: Final = (
    python("open", "print(open('@secret@').read())"),
    python("open upwards", "print(open('../outside/secret.txt').read())"),
    python(
        "a descriptor of the parent folder",
        "d = os.open('..', 0); print(os.read(os.open('outside/secret.txt', 0, dir_fd=d), 99))",
    ),
    python("many parents", "print(open('../' * 40 + '@secret@'.lstrip('/')).read())"),
    python("a symbolic link", "os.symlink('@outside@', 'way'); print(open('way/secret.txt').read())"),
    python("a link that stood there before", "print(open('planted').read())"),
    python("a hard link", "os.link('@secret@', 'in'); print(open('in').read())"),
    python("a rename in", "os.rename('@secret@', 'in'); print(open('in').read())"),
    python(
        "a file mapped into memory",
        "import mmap\nwith open('@secret@') as f: print(mmap.mmap(f.fileno(), 0, prot=1)[:])",
    ),
    python(
        "sendfile",
        "f = open('@secret@'); os.sendfile(os.open('copy', os.O_CREAT | os.O_RDWR), f.fileno(), 0, 99); "
        "print(open('copy').read())",
    ),
    python("the shape of a folder", "print(os.listdir('@outside@'))"),
    python("a walk", "print(*(name for _, _, names in os.walk('@base@') for name in names))"),
    python("a program", "print(subprocess.run(['cat', '@secret@'], capture_output=True).stdout)"),
    python("lines as a traceback quotes them", "print(__import__('linecache').getlines('@secret@'))"),
    python(
        "roots of processes",
        "for p in ('self', '1', '@server@', '@victim@'):\n "
        "try: print(open(f'/proc/{p}/root@secret@').read())\n except OSError as e: print(e)",
    ),
    python(
        "folders of processes",
        "import glob\nfor p in glob.glob('/proc/[0-9]*/cwd/secret.txt'): print(open(p).read())",
    ),
    python("a descriptor of a process", "print(open('/proc/@victim@/fd/9').read())"),
    python(
        "inherited descriptors",
        "for n in range(3, 256):\n try:\n  if stat.S_ISREG(os.fstat(n).st_mode): print(os.pread(n, 99, 0))\n "
        "except OSError: pass",
        control=Control.BARE,
    ),
    python("variables", "print(dict(os.environ))", control=Control.BARE),
    python("variables as the kernel has them", "print(open('/proc/self/environ').read())", control=Control.BARE),
    python(
        "variables of parents",
        "p = os.getppid()\nwhile p > 0:\n try: print(open(f'/proc/{p}/environ').read())\n "
        "except OSError: pass\n try: p = int(open(f'/proc/{p}/stat').read().rsplit(')', 1)[1].split()[1])\n "
        "except OSError: break\nprint(open('/proc/@victim@/environ').read())",
    ),
    python(
        "memory of a process",
        "with open('/proc/@victim@/mem', 'rb') as f: f.seek(@address@); print(f.read(@marker_length@))",
    ),
    python("a hidden file", "print(open('hidden/key.pem').read())"),
    python(
        "a hidden file by descriptors",
        "d = os.open('hidden', os.O_RDONLY | os.O_DIRECTORY); print(os.read(os.open('key.pem', 0, dir_fd=d), 99))",
    ),
    python(
        "a hidden file by exchange",
        "os.mkdir('x'); libc.renameat2(-100, b'hidden', -100, b'x', 2); print(open('x/key.pem').read())",
    ),
    python(
        "a hidden file by a copy", "import shutil; shutil.copytree('hidden', 'x'); print(open('x/key.pem').read())"
    ),
    python("a temporary file of the host", "print(open('/tmp/@name@').read())"),
    python(
        "shared memory of the host",
        "from multiprocessing import shared_memory, resource_tracker\n"
        "m = shared_memory.SharedMemory('@name@'); print(bytes(m.buf[:20])); "
        "resource_tracker.unregister(m._name, 'shared_memory')",
    ),
)

WRITES: Final = (
    python("open for writing", "open('@secret@', 'a').write('x')", Fact.CHANGED),
    python("a new file", "open('@outside@/new', 'x').write('x')", Fact.CHANGED),
    python("a new file upwards", "open('../outside/new', 'x').write('x')", Fact.CHANGED),
    python("truncate", "os.truncate('@secret@', 0)", Fact.CHANGED),
    python("unlink", "os.unlink('@secret@')", Fact.CHANGED),
    python("rename over it", "os.rename('a.txt', '@secret@')", Fact.CHANGED),
    python("rename out of a folder of the host", "os.rename('@outside@/sub', 'sub2')", Fact.CHANGED),
    python("chmod", "os.chmod('@secret@', 0o777)", Fact.CHANGED),
    python("times", "os.utime('@secret@', (1, 1))", Fact.CHANGED),
    python(
        "an unnamed file, linked out",
        "f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); "
        "libc.linkat(-100, f'/proc/self/fd/{f}'.encode(), -100, b'@outside@/new', 0x400)",
        Fact.CHANGED,
    ),
    python("a link put out", "os.symlink('/etc', '@outside@/new')", Fact.CHANGED),
    python("through a link", "os.symlink('../outside', 'way'); open('way/new', 'x').write('x')", Fact.CHANGED),
    python(
        "through a race of links",
        "os.mkdir('d')\nfor n in range(200):\n os.rename('d', 'e'); os.symlink('@outside@', 'd')\n "
        "try: open('d/new', 'w').write('x')\n except OSError: pass\n os.unlink('d'); os.rename('e', 'd')",
        Fact.CHANGED,
    ),
    python("the user's shell profile", "open('@home@/.bashrc', 'a').write('x')", Fact.CHANGED),
    python("the state folder", "open('@state@/keep.txt', 'a').write('x')", Fact.CHANGED),
    python(
        "temporary folders of the host",
        "open('/tmp/@name@-new', 'w').write('x'); open('/dev/shm/@name@-new', 'w').write('x')",
        Fact.CHANGED,
    ),
    python("a read-only context path", "open('@context@/notes.txt', 'a').write('x')", Fact.CHANGED),
    python("a hook", "open('.git/hooks/post-commit', 'w').write('x')", Fact.CHANGED),
    python(
        "a hook by exchange",
        "import shutil; shutil.copytree('.git/hooks', 'h'); open('h/x', 'w').write('x'); "
        "libc.renameat2(-100, b'h', -100, b'.git/hooks', 2)",
        Fact.CHANGED,
    ),
    python("the repository by exchange", "os.mkdir('g'); libc.renameat2(-100, b'g', -100, b'.git', 2)", Fact.CHANGED),
    python("a file that a rule freezes", "open('frozen.txt', 'a').write('x')", Fact.CHANGED),
    python(
        "a file that a rule freezes, by exchange",
        "libc.renameat2(-100, b'a.txt', -100, b'frozen.txt', 2)",
        Fact.CHANGED,
    ),
    python("Toolyard's configuration", "os.replace('a.txt', 'toolyard.yaml')", Fact.CHANGED),
    python(
        "a file of the host mapped for writing",
        "import mmap\nf = open('@secret@', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 0; m.flush(); "
        "os.utime('@secret@')",
        Fact.CHANGED,
    ),
    python("the set-user-id bit", "open('t', 'w').close(); os.chmod('t', 0o4755)", Fact.SPECIAL),
    python(
        "the set-user-id bit at birth",
        "old = os.umask(0); os.close(os.open('t', os.O_CREAT | os.O_WRONLY, 0o6755))",
        Fact.SPECIAL,
    ),
    python(
        "the set-user-id bit by descriptor",
        "f = os.open('t', os.O_CREAT | os.O_WRONLY); os.fchmod(f, 0o4755)",
        Fact.SPECIAL,
    ),
    python(
        "the set-user-id bit by a high argument",
        "open('t', 'w').close(); libc.syscall(#fchmodat#, -100, b't', ctypes.c_ulong(0x1_0000_09ED))",
        Fact.SPECIAL,
    ),
    python("a device", "os.mknod('null', 0o20666, os.makedev(1, 3))", Fact.SPECIAL, as_root=True),
)

NETWORK: Final = (
    python("TCP", "socket.create_connection(('127.0.0.1', @tcp@), 1)", Fact.REACHED),
    python("TCP by another name of loopback", "socket.create_connection(('0.0.0.0', @tcp@), 1)", Fact.REACHED),
    python(
        "TCP without waiting",
        "s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', @tcp@)); "
        "__import__('time').sleep(0.05)",
        Fact.REACHED,
    ),
    python("TCP over IPv6", "socket.create_connection(('::1', @tcp6@), 1)", Fact.REACHED),
    python(
        "TCP to an IPv4 address over IPv6", "socket.create_connection(('::ffff:127.0.0.1', @tcp@), 1)", Fact.REACHED
    ),
    python(
        "TCP with data in the first packet",
        "s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', @tcp@))",
        Fact.REACHED,
    ),
    python(
        "UDP", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @udp@))", Fact.REACHED
    ),
    python(
        "HTTP",
        "import urllib.request; "
        "urllib.request.build_opener(urllib.request.ProxyHandler({})).open('http://127.0.0.1:@tcp@/', timeout=0.3)",
        Fact.REACHED,
    ),
    python("a unix socket", "os.chdir('@run@'); socket.socket(socket.AF_UNIX).connect('stream')", Fact.REACHED),
    python(
        "a unix socket through a process of the host",
        "socket.socket(socket.AF_UNIX).connect('/proc/@victim@/cwd/../run/stream')",
        Fact.REACHED,
    ),
    python(
        "a unix datagram",
        "os.chdir('@run@'); socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', 'datagram')",
        Fact.REACHED,
    ),
    python("an abstract unix socket", "socket.socket(socket.AF_UNIX).connect('\\0@name@')", Fact.REACHED),
    python(
        "an abstract unix datagram",
        "a, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.sendto(b'x', '\\0@name@-datagram')",
        Fact.REACHED,
    ),
    python("the machine's interfaces", "if len(socket.if_nameindex()) > 1: say()", Fact.PERMITTED),
    python(
        "a raw socket",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); say()",
        Fact.PERMITTED,
        as_root=True,
    ),
    python(
        "a packet socket", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); say()", Fact.PERMITTED, as_root=True
    ),
    python(
        "messages about devices",
        "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15); s.bind((0, 1)); say()",
        Fact.PERMITTED,
    ),
    python("the host behind a virtual machine", "socket.socket(40, socket.SOCK_STREAM); say()", Fact.PERMITTED),
)

PROCESSES: Final = (
    python("kill", "os.kill(@victim@, 9)", Fact.HURT),
    python("stop", "os.kill(@victim@, signal.SIGSTOP)", Fact.HURT),
    python("kill by a process descriptor", "signal.pidfd_send_signal(os.pidfd_open(@victim@), 9)", Fact.HURT),
    python(
        "kill by thread",
        "libc.syscall(234 if os.uname().machine == 'x86_64' else 131, @victim@, @victim@, 9)",
        Fact.HURT,
    ),
    python("is the server there", "os.kill(@server@, 0); say()", Fact.PERMITTED),
    python("priority", "os.setpriority(os.PRIO_PROCESS, @victim@, 7); say()", Fact.PERMITTED),
    python(
        "processors of a process",
        "os.sched_setaffinity(@victim@, os.sched_getaffinity(@victim@)); say()",
        Fact.PERMITTED,
    ),
    python(
        "limits of a process",
        "import resource; resource.prlimit(@victim@, resource.RLIMIT_CORE, (0, 0)); say()",
        Fact.PERMITTED,
    ),
    python("the memory of a process, for writing", "open('/proc/@victim@/mem', 'r+b'); say()", Fact.PERMITTED),
    python("a process that runs on", "subprocess.Popen(['sleep', '310'])", Fact.LEFT, Control.BARE),
    python(
        "a process in a session of its own",
        "subprocess.Popen(['sleep', '311'], start_new_session=True)",
        Fact.LEFT,
        Control.BARE,
    ),
    python(
        "a daemon",
        "if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.closerange(0, 256); "
        "signal.signal(15, signal.SIG_IGN); os.execvp('sleep', ['sleep', '312'])\n os._exit(0)",
        Fact.LEFT,
        Control.BARE,
    ),
    python(
        "a process forked by a thread",
        "def work():\n if os.fork() == 0: os.setsid(); os.execvp('sleep', ['sleep', '313'])\n"
        "t = threading.Thread(target=work); t.start(); t.join()",
        Fact.LEFT,
        Control.BARE,
    ),
    python(
        "a process left by one that is killed",
        "subprocess.Popen(['setsid', 'sleep', '314']); os.kill(os.getpid(), 9)",
        Fact.LEFT,
        Control.BARE,
    ),
    python(
        "a process left by another program",
        "subprocess.Popen(['setsid', 'sleep', '315']); os.execv('/bin/true', ['true'])",
        Fact.LEFT,
        Control.BARE,
    ),
)

CODE: Final = (*READS, *WRITES, *NETWORK, *PROCESSES)
