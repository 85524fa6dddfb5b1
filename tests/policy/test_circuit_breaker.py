"""The decision alone: no command in this file is run."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.config.models import Config
from toolyard.config.settings import Settings
from toolyard.core.actions import Action, Effect, Kind
from toolyard.core.errors import SystemFault
from toolyard.core.permission_modes import PermissionMode
from toolyard.policy.builder import policy_for
from toolyard.policy.circuit_breaker import CircuitBreaker, check_examples
from toolyard.policy.shell.rules_destruction import DESTRUCTION_RULES

BREAKER = CircuitBreaker(
    "/srv/project",
    "/home/me",
    homes=("/home/other",),
    context=("/data", "/home/me/notes"),
    temporary=("/tmp",),
    environment={"TMPDIR": "/tmp", "PLACE": "/data"},
    mount_points=lambda: frozenset({"/", "/mnt/disk"}),
    exists=lambda _: True,
    is_sandboxed=False,
)

UNSAVED = "No snapshot contains it."
HELD = "Automatic snapshots contain it, except for caches and files the user excluded."

# fmt: off
ROOT = [
    'clean() { rm -rf "$1"/*; }; clean', "bash -c 'rm -rf \"$1\"/*'",
    'clean() { local d="$1"; rm -rf "$d"/*; }; clean', "rm -rf /", "rm -rf /*", "rm -fr //", "rm -rf /.",
    "rm --recursive --force /", "rm -rf -- /", "/bin/rm -rf /", "sudo rm -rf /", "sudo -u root env X=1 nice rm -rf /",
    "rm -rf --no-preserve-root /", "rm -rf '/'", "\\rm -rf /", "r''m -rf /", "busybox rm -rf /", "command rm -rf /",
    "exec rm -rf /", "timeout 5 rm -rf /", "nohup rm -rf / &", "bash -c 'rm -rf /'", 'sh -c "rm -rf /"',
    "eval 'rm -rf /'", "bash -c \"eval 'rm -rf /'\"", "trap 'rm -rf /' EXIT", "cd / && rm -rf *", "cd /; rm -rf ./*",
    "(cd / && rm -rf .)", "cd /srv && cd .. && rm -rf *", "pushd /; rm -rf *", 'X=/; rm -rf "$X"',
    "X=/ && rm -rf ${X}", "export X=/; rm -rf $X", 'd=; rm -rf "$d/"', 'rm -rf "$UNSET"/*', "rm -rf ${NOT_SET}/*",
    "rm -rf ${UNSET:-/}", "CMD='rm -rf'; $CMD /", "R=rm; $R -rf /", "X=/ bash -c 'rm -rf $X'",
    "for d in / /x; do rm -rf $d; done", "if true; then rm -rf /; fi", "f() { rm -rf /; }; f", "rm -rf {/,build}",
    "find / -delete", "find / -exec rm -rf {} \\;", "find / -type f -print0 | xargs -0 rm -f -r",
    "find / | xargs rm -rf", "echo / | xargs rm -rf", "ls / | xargs -I{} rm -rf {}", "cd / && ls | xargs rm -rf",
    "rm -rf / || true", "x=$(rm -rf /)", "echo `rm -rf /`", "rm -rf build /", "rm -rf ../..", "rm -rf ../../*",
    "true && rm -rf /", "rm -rf $(git rev-parse --show-toplevel)/../..", "mv /* /mnt/x", "rsync -a --delete empty/ /",
    "chmod -R 777 /", "chown -R me:me /*", "tar xf a.tar -C /", "tar -C / -xzf a.tgz", "cp -r x/. /",
    "unzip a.zip -d /", "rimraf /", 'source .env; rm -rf "$OUT"/*', ". ./.env && rm -rf ${OUT}/*",
    'rm -rf "${X:-$Y}"/*', 'mv /* "$X"/tmp', "git clean -fdx /", "shred -u /*", "cat <<EOF | xargs rm -rf /\nx\nEOF",
    "bsdtar -xf a.tar -C /", "cp -R x/. /", "cp --recursive x/. /", "cp --archive x/. /",
    "cd -P / && rm -rf *", "eval 'cd /' && rm -rf *", "unzip a.zip -d/", "tar -C/ -xf a.tar",
]
HOME = [
    "ls\n\\rm -rf ~", "echo a \n\\rm -rf ~",
    "rm -rf ~", "rm -rf ~/", "rm -rf ~/*", 'rm -rf "$HOME"', "rm -rf $HOME/*", "rm -rf ${HOME}", "rm -rf ~me",
    "cd; rm -rf *", "cd ~ && rm -rf *", 'cd "$HOME"; rm -rf .', "mv ~ x", "mv $HOME /tmp/x", "find ~ -delete",
    "rm -rf /home/me", "rm -rf /home/*", "rm -rf ~other", "rm -rf ~root", "rm -rf /root", "chmod -R 000 ~",
    "rsync -a --delete x/ ~/", "rm -rf ~/{*,.*}", "HERE=~; rm -rf $HERE", "rm -rf ~+/../../home/me",
    "sudo chown -R x /home/me", "rm -r /home/o*", "rm -rf ~/.*", "rm -rf ~/.[!.]*", "bash <<'EOF'\nrm -rf ~\nEOF",
    "sh <<EOF\ncd ~\nrm -rf *\nEOF", "cat <<EOF | bash\nrm -rf ~\nEOF", "echo 'rm -rf ~' | sh",
    "bash -e <<<'rm -rf ~'", "npx -y rimraf ~", "find ~ -type f -print0 | xargs -0 rm", 'rm -rf "${W:-$HOME}"',
    "rm -rf ${W:-${HOME}}", 'rm -rf "${W:-"$HOME"}"', "rm -rf ${W:-~}", 'rm -rf "${HOME:+$HOME}"',
    "rm -rf ${W:=$HOME/}", 'cd && cd /data && rm -rf "$OLDPWD"', "cd; cd /data; cd -; rm -rf *",
    "f() { rm -rf ~; }; f", 'clean() { rm -rf "$1"; }; clean ~',
    'clean() { for d; do rm -rf "$d"; done; }; clean build ~', "wipe() { rm -rf $*; }; wipe x ~",
    "a() { b $1; }; b() { rm -rf $1; }; a ~", "go() { cd ~; }; go && rm -rf *",
    "shopt -s expand_aliases\nalias del='rm -rf'\ndel ~", "find ~ -not -name '*.py' -delete", "yes | rm -ri ~",
    "bash -c 'rm -rf \"$1\"' _ ~", "bash -c 'rm -rf \"$@\"' _ x ~", "mv ~/* /tmp/x",
    "srm -r ~", "find ~ -type f | xargs srm", "trash-put ~", "bunx rimraf ~",
    "true && exit; rm -rf ~", "for f in x; do continue; done; rm -rf ~", "bash > log <<'EOF'\nrm -rf ~\nEOF",
]
DEVICES = [
    "dd if=/dev/zero of=/dev/sda", "dd of=/dev/nvme0n1 <a.img", "mkfs.ext4 /dev/sdb1", "mkfs -t ext4 /dev/sdb1",
    "mkfs.xfs -f /dev/vda", "mkfs.vfat -n NAME /dev/sdb1", "mkfs.xfs -n size=8k /dev/vda",
    "mkfs -t vfat -n X /dev/sdb1", "shred /dev/sda", "shred -n 1 -z /dev/sda", "> /dev/sda", "cat a.img > /dev/sda",
    ": >/dev/sda", "echo x >> /dev/sda", "cat a &> /dev/sda", "wipefs -a /dev/sda", "wipefs --all /dev/sd*",
    "cp a.img /dev/mmcblk0", "tee /dev/sda < a.img", "blkdiscard /dev/sda", "sfdisk /dev/sda < table",
    "cryptsetup luksFormat /dev/sda2", "D=/dev/sda; dd if=a of=$D", "rm -rf /dev/sda", "{ cat a; } > /dev/sda",
    "mkswap /dev/mapper/x", "sudo tee /dev/sda", "truncate -s 0 /dev/sda", "while true; do cat a; done > /dev/sda",
    "parted /dev/sda mklabel gpt", "parted -s /dev/sda rm 1", "wipefs -o 0 /dev/sda", "cryptsetup erase /dev/sda2",
    "fdisk /dev/sda", "install a.img /dev/sda", "ln -f a.img /dev/sda", "badblocks -w /dev/sda",
    "mdadm --zero-superblock /dev/sda", "mdadm --create /dev/md0 /dev/sda", "mdadm -C /dev/md0 /dev/sda",
    "hdparm --security-erase x /dev/sda", "hdparm --security-erase-enhanced x /dev/sda",
]
WORKSPACE = [
    "rm -rf .", "rm -rf ./", "rm -rf ./*", "rm -rf *", "rm -r *", 'rm -rf "$PWD"', "rm -rf $(pwd)",
    'rm -rf "$(pwd)"/*', "rm -rf `pwd`", "rm -rf /srv/project", "rm -rf /srv/project/", "rm -rf /srv/project/*",
    "rm -rf ../project", "rm -rf sub/..", "cd .. && rm -rf project", "cd sub && rm -rf ..", "find . -delete",
    "find . -type f -delete", "find -delete", "find . -mindepth 1 -delete",
    "find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +", "find . -not -name .env -delete",
    "find . ! -path './keep/*' -delete", "find . -name '*' -delete", "ls | xargs rm -rf", "find . | xargs rm -rf",
    "find . -print0 | xargs -0 rm -rf", "rsync -a --delete empty/ ./", "git clean -fdx", "git clean -dfx",
    "git rm -rf .", "git clean -ffdx .", "rm -rf -- *", "test -d sub && cd sub; rm -rf *",
    "if [ -d x ]; then cd x; fi; rm -rf *", "rm -rf {*,.*}", "mv /srv/project /tmp/x", "mv . /tmp/x",
    "(cd sub && ls); rm -rf *", "cd sub; cd ..; rm -rf *", "cd $(git rev-parse --show-toplevel) && rm -rf *",
    "rm -rf **", "shred -u *", "rm -rf .//*", "rm -rf ./* ./.*", "trash .", "find . -type f | xargs rm -f",
    "find . -type f -print0 | xargs -0 shred -u", "rm -rf $(ls)", "rm -rf $(ls -A)", "rm -rf `ls`",
    "for f in $(ls -A); do rm -rf $f; done", "npx rimraf .", "find . -type f,l -delete",
    "cd build 2>/dev/null; rm -rf *", "cd /nonexistent; rm -rf *", "cd build; rm -rf ./*", "cd build\nrm -rf *",
    "for d in a b; do cd $d; rm -rf *; cd ..; done", 'cd "$SOMEWHERE_$1"; rm -rf *', "cd build || true; rm -rf *",
    "cd build || rm -rf *", "cd build && make; rm -rf *", "cd build || { echo missing; }; rm -rf *",
    "cd b & rm -rf *", 'cd sub && rm -rf "$OLDPWD"', "cd sub && cd - && rm -rf *", "pushd sub; popd; rm -rf *",
    'for f in *; do rm -rf "$f"; done', "for f in ./*; do rm -rf -- $f; done", 'for d in */; do rm -rf "$d"; done',
    'for f in *; do echo "$f"; if [ -d x ]; then ls; fi; rm -rf "./$f"; done',
    'if true; then for f in * .*; do rm -rf "$f"; done; fi',
    'for f in *; do [ "$f" = x ] && continue; rm -rf "$f"; done', 'find . | while read f; do rm -rf "$f"; done',
    'find . -type f | sort | while IFS= read -r f; do rm "$f"; done', 'ls | while read -r f; do rm -rf "$f"; done',
    'while read f; do rm -rf "$f"; done < <(find . -type f)',
    "find . -print0 | while IFS= read -r -d '' f; do rm -f \"$f\"; done > log",
    "ls -A | (while read f; do rm -r $f; done)", "find . -type f | { while read f; do unlink $f; done; }",
    "find $(pwd) | xargs rm -rf", "rm $(find . -type f)", "for f in $(find . -type f); do rm $f; done",
    "find . -exec sh -c 'rm -rf \"$1\"' _ {} \\;", "find . -mindepth 1 -exec bash -c 'rm -rf \"$@\"' _ {} +",
    "find . -type f -exec sh -c 'rm -rf {}' \\;", "find . -exec sh -c 'for f; do rm -rf \"$f\"; done' _ {} +",
    "find . -type f -exec rm {} +", "truncate -s 0 *", "find . -print0 | xargs -0 sh -c 'rm -rf \"$@\"' _",
    "truncate --size=0 ./*", "find . -type f -exec truncate -s0 {} +", 'for f in *; do > "$f"; done',
    'for f in *; do echo x > "./$f"; done', "mv ./* /tmp/", "mv * ..", "mv -t /tmp *",
    'for f in *; do mv "$f" /tmp; done', 'f() { rm -rf "$1"; }; f .', 'f() { rm -rf "$@"; }; f *', "npx rimraf '*'",
    "rimraf './**'", "npx rimraf --glob '*'", 'pnpx rimraf "*"', "alias r='rm -rf'\nr .", "rm -rif .",
    "echo y | rm -ri .", "rm -ri --interactive=never .",
    "rsync -a --del empty/ .", "rsync -a --delete-before empty/ .", "rsync -a --delete-during empty/ .",
    "rsync -a --delete-excluded empty/ .",
    "cd / & rm -rf *", "pushd / && popd && rm -rf *", "grep -e x a; cd build; rm -rf *",
    "rm -ri --force .", "find -L . -delete", "mv -t/tmp *",
]
REPOSITORY = [
    "find . -type f -exec mv {} flat/ \\;", "rm -rf .git", "rm -rf ./.git/", "rm -rf .g*", "rm -rf .*",
    "rm -rf .[!.]*", "rm -rf ./.[^.]*", "mv .git x", "rm -rf /srv/project/.git", "find .git -delete",
    "cd sub && rm -rf ../.git", "rm -r -f build .git", "G=.git; rm -rf $G", "rm -rf /data/.git",
    "find . -type f -not -name '*.py' -delete", "find . ! -iname '*.md' -type f -print0 | xargs -0 rm",
]
CONTEXT = [
    "find /data -type f -exec mv {} /tmp/x \\;", "rm -rf /data", "rm -rf /data/", "rm -rf /data/*",
    "cd /data && rm -rf *", "find /data -delete", "rm -rf $PLACE", "rm -rf ~/notes", "mv /data /tmp",
    "rsync -r --delete x/ /data", "cd ~/notes; rm -rf .",
]
OTHERS = [
    "rm -rf /mnt/disk", "rm -rf /mnt/*", "rm -rf /mnt", "chmod -R 000 /mnt/disk", "rm -rf /tmp", "rm -rf /tmp/*",
    'rm -rf "$TMPDIR"', "find /tmp -delete", "rm -rf /usr", "rm -rf /etc/*", "rm -rf /var /opt",
    "sudo chmod -R 777 /etc", "rm -rf /usr/local", "rm -rf /{usr,etc}", "mv /etc /etc.old",
    "rm -rf /dev", "chmod -R 000 /mnt/disk/*",
]
HARMLESS = [
    'main() { rm -rf "$2"/*; }; main "$@"', 'clean() { rm -rf "$1"/*; }; clean "$OUT_$1"', "mv .git/x .git/y",
    "for d in */; do (cd $d && rm -rf *); done", "[ -d build ] && cd build && rm -rf *",
    "tmp=$(mktemp -d); trap 'rm -rf \"$tmp\"/*' EXIT", "cd web; npm ci; cd ..; rm -rf dist", "rm -rf build",
    "rm -rf ./build/*", "rm -f *", "rm *", "rm a b", "rm -rf *.pyc", "rm -rf ./*.o", "rm -rf node_modules",
    "rm -rf build dist .cache", "rm -rf '*'", "rm -rf '~'", "rm -rf \\~", "rm -rf ./~", "rm -rf '$HOME'",
    "echo rm -rf /", "echo 'rm -rf /' > note.txt", "git commit -m 'rm -rf /'", "grep -r 'rm -rf /' .",
    "cat <<'EOF' > x\nrm -rf /\nEOF", "# rm -rf /", "cd build && rm -rf *", "mkdir -p build && cd build && rm -rf *",
    "(cd build && rm -rf *)", "set -e; cd build; rm -rf ./*", "mkdir -p b && cd b\nrm -rf *",
    "for d in a b; do cd $d && rm -rf *; done", "cd build || exit 1; rm -rf *",
    "cd build || { echo missing; exit 1; }; rm -rf *", "if cd build; then rm -rf *; fi",
    "cd build && { make; rm -rf *; }", "if ! cd build; then exit 1; fi; rm -rf *", "cd build && (rm -rf *)",
    "bash -ec 'cd build; rm -rf *'", "set -euo pipefail\ncd build\nrm -rf *",
    "go() { cd build || return 1; rm -rf *; }; go", "cd build; rm -rf out/*",
    "cd build || mkdir build && cd build; rm -rf *", "cd build; ls | wc -l", "cd a; cd b; rm -rf c",
    'd=$(mktemp -d); rm -rf "$d"', 'd=$(mktemp -d); rm -rf "$d"/*', 'cd "$(mktemp -d)" && rm -rf *',
    'rm -rf "${DIR:?}"/*', 'rm -rf "$1"', 'rm -rf "$@"', 'for f in *; do rm -f "$f"; done',
    'for f in *; do rm -rf "$f/build"; done', 'for f in *; do if [[ $f == *.tmp ]]; then rm -rf "$f"; fi; done',
    "for f in *.o; do rm -rf $f; done", 'for f in *; do case $f in *.log) rm -rf "$f";; esac; done',
    'for f in *; do [ -L "$f" ] && rm -rf "$f"; done',
    'for f in *; do [[ $f == *.o ]] || continue; rm -rf "$f"; done', 'for f in *; do echo "$f"; done; rm -rf build',
    "find . -name '*.o' | while read f; do rm -rf \"$f\"; done", 'find build | while read f; do rm -rf "$f"; done',
    'find . | while read f; do cat "$f"; done', "find . | grep tmp | while read f; do rm -rf $f; done",
    "f='*'; rm -rf \"$f\"", "find . -name x -exec sh -c 'rm -rf \"$1\"' _ {} \\;",
    "find . -exec sh -c 'rm -rf \"$1\"/build' _ {} \\;", 'f() { rm -rf "$1"; }; f build',
    'f() { rm -rf "$2"; }; f . build', 'f() { rm -rf "$1"; }; f *', "f() { echo $1; }; f ~", "truncate -s 0 a.log",
    "truncate -s 0 *.log", "truncate -s +1G *", "for f in *.log; do > $f; done", "truncate -s 0 logs/*",
    "mv ./* sub/", "mv build/* .", "mv * /srv/project/src", 'for f in *; do mv "$f" "$f.bak"; done', "mv *.txt /tmp/",
    "rm -rf ${W:-build}", 'rm -rf "${W:-$HOME/x}"', 'rm -rf "${W:?}"/*', 'rm -rf "${OUT:?}"/*', "rm -rf ${W:+x}",
    "npx rimraf 'dist/*'", "rimraf '*.js'", "npx eslint '*'", "alias r='rm -rf'\nr build", "git clean -fdX",
    "rm -ri .", "git clean -fX .", "rm -rI .", "rm -rfi *", "rm -r --interactive=always .", "mkfs.ext4 -n /dev/sdb1",
    "mkfs -n /dev/sdb1", "mke2fs -n /dev/sdb1", "mkfs.ntfs -n /dev/sdb1", "mkfs.xfs -N /dev/vda",
    "mkfs -t ext4 -n /dev/sdb1", "rm $(find build)", "find . -type f -not -name '*.py' -not -path './.git/*' -delete",
    "find src -type f -not -name '*.py' -delete", "find . -path ./.git -prune -o -type f -not -name '*.py' -delete",
    'source .env; rm -rf "${OUT:?}"/*', 'while read f; do rm -rf "$f"; done < list', "rm -rf sub/.git",
    "git clean -fd", "git clean -ndx", "git clean -fdx build", "find . -name '*.pyc' -delete", "git clean -n -x",
    "find . -type d -name __pycache__ -exec rm -rf {} +", "find build -delete", "find . -empty -delete",
    "find . -mtime +3 -delete", "find . -maxdepth 1 -type f -delete", "find . -name x -print | xargs rm -rf",
    "ls build | xargs rm -rf", "ls -d *.o | xargs rm", "echo a b | xargs rm -rf", "dd if=/dev/sda of=disk.img",
    "dd if=/dev/zero of=x bs=1 count=1", "ls > /dev/null 2>&1", "make > /dev/stderr", "cat x > /dev/tty",
    "echo x > /dev/shm/x", "rm -rf /dev/shm/x", "rm -rf /tmp/x", "rm -rf /tmp/x/*", "mkfs.ext4 disk.img",
    "fdisk -l /dev/sda", "tee log", "shred -u key", "mv * src/", "mv a ~", "mv build ..", "cp -r ~ x",
    "cp -r . ~/backup", "cp a ~", "cp -r a/. .", "tar xf a.tar", "tar czf x.tgz /",
    "tar -cf - . | tar -xf - -C /tmp/x", "unzip x.zip", "chmod -R 755 .", "chmod +x *", "chown -R me .",
    "chmod 700 ~", "rsync -a x/ ~/x", "rsync -a --delete x/ build/", "rm -rf ~/x", "rm -rf ~/.cache/x",
    "rm -rf /data/old", "rm -rf /usr/local/x", "HOME=/tmp/h; rm -rf ~/x", "npm run clean", "make clean",
    "rm -rf /home/me/x/*", "rm -rf /mnt/disk/x", "git rm -r build", "git rm -r --cached .", "rmdir *", "rm -rf ..?x",
    "cd /; ls", "rm -rf {a,b}", "rm -rf {1..3}", "rm -rf build{,-old}", "rm -rf $BUILD_DIR/out",
    'X=build; rm -rf "$X"', "rm -ri build", "find . -type l -delete", "find . -exec test -f {}.bak \\; -delete",
    "find . -type f -exec grep -q draft {} \\; -delete", "find . -type f | xargs chmod 644", "rm -rf $(ls build)",
    "rm $(ls)", "find . -type f | head -5 | xargs rm", "find . -name '*.o' | xargs rm -f",
    "find build -type f | xargs rm", "bash <<'EOF'\nrm -rf build\nEOF", "python3 - <<'EOF'\n# rm -rf ~\nEOF",
    "cat <<EOF | tee note\nrm -rf ~\nEOF", "ssh host bash <<'EOF'\nrm -rf ~\nEOF",
    "bash script.sh <<'EOF'\nrm -rf ~\nEOF", "echo 'rm -rf build' | sh", "echo 'rm -rf ~' | cat", "npx rimraf dist",
    "hdparm -I /dev/sda", "wipefs /dev/sda", "cryptsetup luksDump /dev/sda2", "mdadm --examine /dev/sda",
    "parted /dev/sda print", "badblocks -sv /dev/sda", "rm -rf .??cache", "rm -rf ~/.cache",
    "cd build 2>/dev/null && rm -rf *",
    "rsync -a --delete --dry-run x/ .", "rsync -a --dry-run x/ /", "git clean -fdx --dry-run", "git rm .",
    "git rm -r -n .", "git rm -r --dry-run .", "fdisk --list /dev/sda", "sfdisk --dump /dev/sda",
    "sfdisk -d /dev/sda", "sgdisk -p /dev/sda", "sgdisk --print /dev/sda", "wipefs -a --no-act /dev/sda",
    "unzip -t a.zip -d /", "unzip -p a.zip -d /",
    "git clean -fdx .git", "rm -rf '/home/*'", "rm -rf ~/'.*'", "rm -rf ~/*.log", 'mv ./* "$1"', "chmod -R u+w /mnt",
    'X=/; unset X; rm -rf "${X:-build}"', "ls; xargs rm -rf", "ls | sort names.txt | xargs rm -rf", "cat < /dev/sda",
    'f() { echo "$1"; }; f ~; rm -rf "$1"', "mkfs.xfs /dev/vda -N", "truncate -s+1G *",
]
# fmt: on


@pytest.mark.parametrize(
    ("command", "said"),
    [
        *((command, "the root of the file system (/)") for command in ROOT),
        *((command, "the home folder /") for command in HOME),
        *((command, "the device /dev/") for command in DEVICES),
        *((command, "workspace /srv/project") for command in WORKSPACE),
        *((command, "the Git repository /") for command in REPOSITORY),
        *((command, "the context path /") for command in CONTEXT),
        *((command, " /") for command in OTHERS),
    ],
)
def test_a_command_that_destroys_something_whole_is_recognised_and_the_loss_is_named(command, said):
    assert said in (BREAKER.describe_loss(command) or "nothing")


@pytest.mark.parametrize("command", HARMLESS)
def test_a_command_that_destroys_nothing_whole_passes(command):
    assert BREAKER.describe_loss(command) is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "rm -rf ~",
            "deletes the home folder /home/me with the context path /home/me/notes. No snapshot contains it.",
        ),
        (
            "rm -rf .",
            f"deletes the whole workspace /srv/project. {HELD}",
        ),
        (
            "rm -rf ./*",
            f"deletes everything in the workspace /srv/project. {HELD}",
        ),
        ("rm -rf .git", "deletes the Git repository /srv/project/.git. Automatic snapshots contain it."),
        ("cat a > /dev/sda", "overwrites the device /dev/sda. No snapshot contains it."),
        ("rm -rf /", "deletes the root of the file system (/). No snapshot contains it."),
        (
            "rm -rf /[dm]*",
            "deletes the system folder /dev and the context path /data and the mount point /mnt/disk. " + UNSAVED,
        ),
        (
            "chmod -R 000 /mnt/disk/*",
            "changes the owners or modes of everything in the mount point /mnt/disk. No snapshot contains it.",
        ),
        (
            "cd build; rm -rf *",
            "deletes everything in the workspace /srv/project if a `cd` before it fails (join them with `&&`). "
            + HELD,
        ),
        (
            "find ~ ! -name '*.py' -delete",
            "deletes all but some files of the home folder /home/me. No snapshot contains it.",
        ),
    ],
)
def test_the_question_says_exactly_what_would_be_lost(command, said):
    found = BREAKER.describe_loss(command)
    assert found == said


def test_a_command_is_judged_from_the_folder_it_starts_in():
    assert BREAKER.describe_loss("rm -rf *", "/srv/project/build") is None
    assert "context path /data" in (BREAKER.describe_loss("rm -rf *", "/data") or "")
    assert "workspace" in (BREAKER.describe_loss("rm -rf ..", "/srv/project/build") or "")


def test_behind_walls_the_hosts_mounts_and_temp_folder_are_not_at_stake():
    mounts = frozenset({"/mnt/disk", "/srv/project/cache"})
    walled = dataclasses.replace(BREAKER, is_sandboxed=True, temporary=(), mount_points=lambda: mounts)
    assert walled.describe_loss("rm -rf /mnt/disk") is None
    assert walled.describe_loss("rm -rf /tmp/*") is None
    assert "mount point /srv/project/cache" in (walled.describe_loss("rm -rf cache") or "")


def test_a_repository_that_is_not_there_cannot_be_lost(tmp_path):
    breaker = CircuitBreaker(str(tmp_path), "/home/agent")
    assert breaker.describe_loss("rm -rf .git") is None
    (tmp_path / ".git").mkdir()
    assert f"the Git repository {tmp_path}/.git" in (breaker.describe_loss("rm -rf .git") or "")


def test_a_workspace_below_the_temp_folder_is_lost_with_it():
    below = CircuitBreaker("/tmp/ws", "/home/agent")
    assert "the whole workspace /tmp/ws" in (below.describe_loss("rm -rf /tmp/*") or "")


@pytest.mark.parametrize(
    "command",
    [
        'rm -rf "${UNSET%/}/"*',
        "rm -rf ${UNSET#x}/",
        'rm -rf "${UNSET/a/b}/"',
        "rm -rf ${HOME%/}",
        'rm -rf "${HOME%/*}"',
        "cd ..; rm -rf ${OLDPWD##*/}",
        "bash -euo pipefail -c 'rm -rf ~'",
        "bash -o pipefail -ec 'rm -rf ~'",
        "bash -cx 'rm -rf ~'",
        "rm -rf ~ 2>/dev/null <<< y",
        "echo 'unclosed; rm -rf ~\nrm -rf ~",
        ":; " * 1_001 + "rm -rf ~",
        "x=\\\n rm -rf ~",
    ],
)
def test_edited_variables_options_of_shells_and_texts_that_do_not_parse_are_judged(command):
    assert BREAKER.describe_loss(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf ${HOME#/home/}",
        'rm -rf "${BUILD:-build}/${UNSET%/}"',
        "bash -norc rm.sh 'rm -rf ~'",
        'echo \'unclosed; echo "rm -rf ~"',
        "grep x <<< 'rm -rf ~' > out <<< y",
    ],
)
def test_neighbours_of_those_pass(command):
    assert BREAKER.describe_loss(command) is None


def test_a_command_that_does_not_parse_is_not_judged():
    assert BREAKER.describe_loss("rm -rf / 'unclosed") is None


@pytest.mark.parametrize("rule", DESTRUCTION_RULES, ids=lambda rule: f"{rule.verb}-{rule.programs[0]}")
def test_each_rule_holds_to_its_own_examples(rule):
    check_examples(rule)


def test_a_rule_that_fails_its_example_or_has_none_is_a_fault():
    rule = DESTRUCTION_RULES[0]
    for broken in (
        dataclasses.replace(rule, matches=("rm -rf build",)),
        dataclasses.replace(rule, misses=("rm -rf /",)),
        dataclasses.replace(rule, misses=()),
    ):
        with pytest.raises(SystemFault):
            check_examples(broken)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf " + "{a,b}" * 2_000,
        "x=a; " + "x=$x$x; " * 60 + "rm -rf $x",
        "x='" + 'eval "$x"; ' * 50 + '\'; eval "$x"',
        "rm -rf " + "a" * 19_000 + "*",
        "f() { " + "f $@ $@; " * 400 + "}; f a",
        "f() { eval 'f; f; f'; }; " + "f; " * 600,
        "rm -rf " + "${a:-" * 25 + "}" * 25,
        "rm -rf " + "$(ls $(ls $(ls $(ls))))" * 20,
        "alias a='a a; a a; a'; " + "a; " * 500,
        "find . | while read f; do " * 30 + "rm $f; " + "done; " * 30,
        "'; " + "; ".join(f'eval "$({n})"; a{n}=\'a{n}=$a{n}$a{n}; eval "$a{n}"\'\neval "$a{n}"' for n in range(500)),
        "for a in {1,2}{1,2}{1,2}{1,2}{1,2}{1,2}{1,2}; do " + "cd $a; " * 100 + "rm -rf *; done",
    ],
)
def test_a_text_made_to_take_long_does_not(command):
    BREAKER.describe_loss(command)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="rm -rf/~*$X={},'\"`();&|.\n", max_size=60))
def test_no_text_makes_it_raise(text):
    BREAKER.describe_loss(text)


SETTINGS = Settings("/home/me", "/home/me/.local/state/toolyard", "/tmp", "/home/me/Documents")
LOSSES = ["rm -rf .", "rm -rf ~", "rm -rf /data", "dd if=a of=/dev/sda", "rm -rf .git", "git clean -fdx"]


def built(permission_mode, permissions=None, **execution):
    """The policy that a configuration gives, in a workspace that is taken to have a repository."""
    raw = {
        "orchestrator": {"context_paths": [{"path": "/data", "permission": "write"}]},
        "permissions": permissions or {},
        "toolyard": {"code_execution": execution},
    }
    policy = policy_for(
        Config.model_validate(raw), SETTINGS, "/srv/project", permission_mode, resolve=lambda path: path
    )
    return (
        policy if policy.breaker is None else replace(policy, breaker=replace(policy.breaker, exists=lambda _: True))
    )


def decided(policy, command, folder=None):
    return policy.decide(Action(Kind.EXECUTE, "Bash", command=command, folder=folder))


@pytest.mark.parametrize("mode", [mode for mode in PermissionMode if mode is not PermissionMode.PLAN])
@pytest.mark.parametrize("command", LOSSES)
def test_every_mode_asks_whatever_is_allowed(mode, command):
    for permissions in ({}, {"allow": ["Bash(*)", f"Bash({command})", "*"]}):
        decision = decided(built(mode, permissions), command)
        assert (decision.effect, decision.rule) == (Effect.ASK, "circuit breaker")
        assert "needs an explicit yes in every mode" in decision.reason


@pytest.mark.parametrize("command", LOSSES)
def test_plan_mode_and_deny_rules_refuse_as_ever(command):
    assert decided(built(PermissionMode.PLAN), command).effect is Effect.DENY
    assert decided(built(PermissionMode.BYPASS, {"deny": ["Bash"]}), command).effect is Effect.DENY


@pytest.mark.parametrize("mode", [PermissionMode.STRICT, PermissionMode.MODERATE, PermissionMode.BYPASS])
def test_what_destroys_nothing_whole_is_run_unasked_and_so_is_everything_where_it_is_switched_off(mode):
    assert decided(built(mode), "rm -rf build").effect is Effect.ALLOW
    assert decided(built(mode), "rm -rf *", "/srv/project/build").effect is Effect.ALLOW
    assert decided(built(mode), "rm -rf *", "/srv/project").effect is Effect.ASK
    for command in LOSSES:
        assert decided(built(mode, allow_destructive=True), command).effect is Effect.ALLOW


def test_the_hosts_home_and_temp_folder_are_meant_where_there_are_no_walls():
    bypass, strict = built(PermissionMode.BYPASS), built(PermissionMode.STRICT)
    assert "the home folder /home/me" in decided(bypass, "rm -rf ~").reason
    assert "the home folder /home/agent" in decided(strict, "rm -rf ~").reason
    assert decided(bypass, "rm -rf /tmp/*").effect is Effect.ASK
    assert decided(built(PermissionMode.STRICT, mode="none"), "rm -rf /tmp/*").effect is Effect.ASK
    assert decided(strict, "rm -rf /tmp/*").effect is Effect.ALLOW


def test_a_tool_that_moves_a_home_or_a_repository_asks_too():
    bypass = built(PermissionMode.BYPASS)
    for path in ("/home/me", "/srv/project/.git", "/usr"):
        decision = bypass.decide(Action(Kind.WRITE, "move_file", path, path, displaces=True))
        assert (decision.effect, decision.rule) == (Effect.ASK, "circuit breaker")
    for path in ("/srv/project/src", "/home/me/x"):
        assert bypass.decide(Action(Kind.WRITE, "move_file", path, path, displaces=True)).effect is Effect.ALLOW
