"""Shell commands that try to get out, as data."""

from __future__ import annotations

from typing import Final

from tests.support.attacks.runs import Control, Fact, command

READS: Final = (
    command("an absolute path", "cat @secret@"),
    command("a path upwards", "cat ../outside/secret.txt"),
    command("a path upwards after cd", "cd sub && cat ../../outside/secret.txt"),
    command("cd to it", "cd @outside@ && cat secret.txt"),
    command("a new symbolic link", "ln -s @outside@ way && cat way/secret.txt"),
    command("a relative symbolic link", "ln -s ../outside way && cat way/sub/secret.txt"),
    command("a link that stood there before", "cat planted"),
    command("a linked folder that stood there before", "cat planted-folder/secret.txt"),
    command("a hard link", "ln @secret@ copy && cat copy"),
    command("a copy", "cp @secret@ copy && cat copy"),
    command("the root of this process", "cat /proc/self/root@secret@"),
    command("the roots of the first process and the server", "cat /proc/{1,@server@}/root@secret@"),
    command("the root of a process of the host", "cat /proc/@victim@/root@secret@"),
    command("the folder of a process of the host", "cat /proc/@victim@/cwd/secret.txt"),
    command("the folders of all processes", "cat /proc/[0-9]*/cwd/secret.txt 2>/dev/null"),
    command("a descriptor of a process of the host", "cat /proc/@victim@/fd/9"),
    command(
        "inherited descriptors",
        "for n in {3..255}; do [ -f /proc/self/fd/$n ] && cat /proc/self/fd/$n; done",
        control=Control.BARE,
    ),
    command("the environment of a process of the host", "tr '\\0' '\\n' < /proc/@victim@/environ"),
    command("the environments of all processes", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"),
    command("the command lines of all processes", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"),
    command("a list of processes", "ps axeww"),
    command("the server's variables", "env; export -p", control=Control.BARE),
    command("a key in the home folder", "cat @home@/.ssh/id_rsa"),
    command("the state folder", "cat @state@/keep.txt"),
    command("a file in the host's /tmp", "cat /tmp/@name@"),
    command("a file in the host's shared memory", "cat /dev/shm/@name@"),
    command("a folder's names", "ls -la @outside@"),
    command("a folder's names by a pattern", "echo @outside@/*"),
    command("find", "find @base@ -name secret.txt -exec cat {} +"),
    command("an archive", "tar -cPf - @outside@ | tar -xOPf -"),
    command("git", "git diff --no-index /dev/null @secret@"),
    command("curl of a file", "curl -s file://@secret@"),
    command("a file as a script, whose words the shell complains about", ". @secret@"),
    command("a program that reads a script", "awk '{print}' @secret@; sed '' @secret@; sort @secret@"),
    command("a shell of its own", "env -i /bin/bash -p -c 'cat @secret@'"),
    command("a mapped standard input", "cat < @secret@; head -1 @secret@ | tee copy"),
    command("a background job of the shell", "{ cat @secret@; } & wait"),
)

HIDDEN: Final = (
    command("a hidden file", "cat hidden/key.pem"),
    command("a hidden file through a link", "cat hidden-link/key.pem"),
    command("a hidden file by its absolute path", "cat @ws@/hidden/key.pem"),
    command("a hidden file by the folder of this process", "cat /proc/self/cwd/hidden/key.pem"),
    command("a hidden file by a hard link", "ln hidden/key.pem shown && cat shown"),
    command("a hidden file in a folder that is renamed", "mv hidden shown && cat shown/key.pem"),
    command("a hidden file in a folder that is copied", "cp -r hidden shown && cat shown/key.pem"),
    command("a hidden file that is moved", "mv hidden/key.pem shown && cat shown"),
    command("a hidden file in an archive", "tar -cf - hidden | tar -xOf -"),
    command("a hidden file by a pattern", "cat h*/*.pem"),
    command("a hidden file that git compares", "git diff --no-index /dev/null hidden/key.pem"),
    command("a hidden file after chmod", "chmod -R 777 hidden; cat hidden/key.pem"),
    command(
        "a hidden file below another mount", "unshare -Urm sh -c 'umount -l hidden; cat hidden/key.pem'", as_root=True
    ),
)

WRITES: Final = (
    command("append", "echo x >> @secret@", Fact.CHANGED),
    command("truncate", ": > @secret@", Fact.CHANGED),
    command("a new file", "echo x > @outside@/new", Fact.CHANGED),
    command("a new folder", "mkdir @outside@/new", Fact.CHANGED),
    command("the mode of a file", "chmod 666 @secret@", Fact.CHANGED),
    command("the time of a file", "touch -d 2001-01-01 @secret@", Fact.CHANGED),
    command("a file taken away", "mv @secret@ taken", Fact.CHANGED),
    command("a file deleted", "rm -f @secret@", Fact.CHANGED),
    command("a folder deleted", "rm -rf ../outside/sub", Fact.CHANGED),
    command("a file put out", "mv a.txt @outside@/; cp sub/b.txt @outside@/", Fact.CHANGED),
    command("a hard link put out", "ln a.txt @outside@/link", Fact.CHANGED),
    command("a hard link brought in and edited", "ln @secret@ in && echo x >> in", Fact.CHANGED),
    command("through a new link", "ln -s ../outside way && echo x > way/new", Fact.CHANGED),
    command("through a link that stood there before", "echo x >> planted", Fact.CHANGED),
    command("through the root of this process", "echo x > /proc/self/root@outside@/new", Fact.CHANGED),
    command("through the folder of a process of the host", "echo x > /proc/@victim@/cwd/new", Fact.CHANGED),
    command("through a descriptor of a process of the host", "chmod 600 /proc/@victim@/fd/9", Fact.CHANGED),
    command("dd", "dd if=/dev/zero of=@secret@ bs=1 count=1 conv=notrunc", Fact.CHANGED),
    command("sed in place", "sed -i s/C/X/ @secret@", Fact.CHANGED),
    command(
        "an archive with absolute names", "tar -cPf t --transform s,^,@outside@/, a.txt; tar -xPf t", Fact.CHANGED
    ),
    command("the user's shell profile", "echo true >> @home@/.bashrc", Fact.CHANGED),
    command("the state folder", "echo x >> @state@/keep.txt", Fact.CHANGED),
    command("the host's /tmp", "echo x >> /tmp/@name@; echo x > /tmp/@name@-new", Fact.CHANGED),
    command("the host's shared memory", "echo x >> /dev/shm/@name@; echo x > /dev/shm/@name@-new", Fact.CHANGED),
    command("a read-only context path", "echo x >> @context@/notes.txt", Fact.CHANGED),
    command("a new file in a read-only context path", "echo x > @context@/new", Fact.CHANGED),
    command("a hook", "echo x >> .git/hooks/pre-commit", Fact.CHANGED),
    command("a new hook", "echo x > .git/hooks/post-merge", Fact.CHANGED),
    command(
        "the folder of hooks, replaced", "mv .git/hooks old; mkdir .git/hooks; echo x > .git/hooks/x", Fact.CHANGED
    ),
    command("the whole repository, replaced", "mv .git old; mkdir -p .git/hooks", Fact.CHANGED),
    command("the repository deleted", "rm -rf .git", Fact.CHANGED),
    command("the repository's configuration", "git config core.fsmonitor ./x; echo x >> .git/config", Fact.CHANGED),
    command("the repository's configuration, replaced", "cp a.txt n; mv -f n .git/config", Fact.CHANGED),
    command("Toolyard's configuration", "echo x >> toolyard.yaml; mv -f a.txt toolyard.yaml", Fact.CHANGED),
    command("a file that a rule freezes", "echo x >> frozen.txt", Fact.CHANGED),
    command("a file that a rule freezes, replaced", "mv -f a.txt frozen.txt", Fact.CHANGED),
    command(
        "a file that a rule freezes, through a link",
        "ln -s frozen.txt l; ln frozen.txt h; echo x | tee l h",
        Fact.CHANGED,
    ),
    command("a file that a rule freezes, its mode", "chmod 777 frozen.txt", Fact.CHANGED),
    command("a file that a rule freezes, deleted", "rm -f frozen.txt", Fact.CHANGED),
    command("a hidden folder", "echo x > hidden/new; rm -rf hidden", Fact.CHANGED),
)

RIGHTS: Final = (
    command("the set-user-id bit", "cp /bin/true t && chmod u+s t", Fact.SPECIAL),
    command("the set-group-id bit", "cp /bin/true t && chmod 2755 t", Fact.SPECIAL),
    command("the set-user-id bit by install", "install -m 4755 /bin/true t", Fact.SPECIAL),
    command(
        "the set-user-id bit out of an archive",
        "cp /bin/true t; tar --mode=4755 -cf x.tar t; rm t; tar -xpf x.tar",
        Fact.SPECIAL,
    ),
    command("a device", "mknod null c 1 3", Fact.SPECIAL, as_root=True),
    command("a disk", "mknod disk b 7 0", Fact.SPECIAL, as_root=True),
    command(
        "the machine's memory", "( : < /dev/mem ) && say; ( : < /dev/kmsg ) && say", Fact.PERMITTED, as_root=True
    ),
    command("the user list", "( : >> /etc/passwd ) && say", Fact.PERMITTED, Control.NEVER),
    command("a program of the system", "( : >> /etc/ld.so.cache ) && say", Fact.PERMITTED, Control.NEVER),
    command("the Python environment", "( : >> @packages@/os.py ) && say", Fact.PERMITTED, Control.NEVER),
    command(
        "the runtime",
        "for f in @runtime@ /run/toolyard/toolyard_runtime; do ( : >> $f/supervisor.py ) && say; done",
        Fact.PERMITTED,
        Control.NEVER,
    ),
    command("the core pattern", "( : >> /proc/sys/kernel/core_pattern ) && say", Fact.PERMITTED, as_root=True),
    command("the keeping of memory", "( : >> /proc/sys/vm/overcommit_memory ) && say", Fact.PERMITTED, as_root=True),
    command("the caches of the machine", "( : >> /proc/sys/vm/drop_caches ) && say", Fact.PERMITTED, as_root=True),
    command(
        "control groups",
        "for f in /sys/fs/cgroup/*/release_agent /sys/fs/cgroup/cgroup.procs; do ( : >> $f ) && say; done",
        Fact.PERMITTED,
        as_root=True,
    ),
    command("a process's memory score", "echo 500 > /proc/@victim@/oom_score_adj && say", Fact.PERMITTED),
    command("a mount", "mkdir m && mount -t tmpfs none m && say", Fact.PERMITTED, Control.PRIVATE),
    command("a bind mount", "mkdir m && mount --bind sub m && say", Fact.PERMITTED, Control.PRIVATE),
    command("taking a mount away", "umount -l /proc && say", Fact.PERMITTED, Control.PRIVATE),
    command("a new user namespace", "unshare -Ur true && say", Fact.PERMITTED),
    command("new namespaces", "unshare -mnip true && say", Fact.PERMITTED, as_root=True),
    command(
        "the namespaces of a process of the host",
        "nsenter -t @victim@ -u -i true && say",
        Fact.PERMITTED,
        as_root=True,
    ),
    command(
        "the namespaces of the first process and the server",
        "for p in 1 @server@; do nsenter -t $p -u true && say; done",
        Fact.PERMITTED,
        as_root=True,
    ),
    command("another root", "chroot / true && say", Fact.PERMITTED, as_root=True),
    command("another user", "setpriv --reuid=65534 --clear-groups true && say", Fact.PERMITTED, as_root=True),
)

NETWORK: Final = (
    command("a connection", "exec 8<>/dev/tcp/127.0.0.1/@tcp@", Fact.REACHED),
    command("a datagram", "echo x > /dev/udp/127.0.0.1/@udp@", Fact.REACHED),
    command("curl", "curl -s -m 0.3 http://localhost:@tcp@/", Fact.REACHED),
    command("curl past a proxy", "curl -s -m 0.3 --noproxy '*' http://127.0.0.1:@tcp@/", Fact.REACHED),
    command("a unix socket", "cd @run@ && curl -s -m 0.3 --unix-socket stream http://x/", Fact.REACHED),
    command("an abstract unix socket", "curl -s -m 0.3 --abstract-unix-socket @name@ http://x/", Fact.REACHED),
    command("the machine's interfaces", "[ $(wc -l < /proc/net/dev) -gt 3 ] && say; true", Fact.PERMITTED),
)

PROCESSES: Final = (
    command("kill", "kill -9 @victim@; kill -0 @victim@", Fact.HURT),
    command("stop", "kill -STOP @victim@", Fact.HURT),
    command("kill by name", "pkill -9 -f '@victim_pattern@'", Fact.HURT),
    command("the server is there", "kill -0 @server@ && say; [ -d /proc/@server@ ] && say", Fact.PERMITTED),
    command("priority", "renice -n 5 -p @victim@ && say", Fact.PERMITTED),
    command("a job in the background", "sleep 300 & disown", Fact.LEFT, Control.BARE),
    command("nohup", "nohup sleep 301 >/dev/null 2>&1 &", Fact.LEFT, Control.BARE),
    command("a session of its own", "setsid -f sleep 302", Fact.LEFT, Control.BARE),
    command(
        "a daemon", "(setsid sh -c 'trap \"\" TERM HUP; sleep 303 & sleep 304' &) </dev/null", Fact.LEFT, Control.BARE
    ),
    command("a daemon without streams", "(setsid sleep 305 <&- >&- 2>&- 3>&- &)", Fact.LEFT, Control.BARE),
    command("a shell that is replaced", "setsid sleep 306 & exec true", Fact.LEFT, Control.BARE),
    command("a shell that is killed", "setsid sleep 307 & kill -9 $$", Fact.LEFT, Control.BARE),
)

COMMANDS: Final = (*READS, *HIDDEN, *WRITES, *RIGHTS, *NETWORK, *PROCESSES)
