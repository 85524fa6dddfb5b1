"""Rules for what deletes or overwrites whole folders and devices.

The examples are commands at the top of the workspace /srv/project; the home is /home/me, /data is a context path and
/mnt/disk a mount point.
"""

from __future__ import annotations

from typing import Final

from toolyard.policy.analysis.destruction import OVERWRITES, DestructionRule, Reach
from toolyard.policy.analysis.destruction_targets import (
    after_first,
    deleted_by_find,
    destination,
    extracted_by_tar,
    git_paths,
    output_file,
    plain_operands,
    sources,
    unpacked_into,
)

_DELETES: Final = "deletes"

DESTRUCTION_RULES: Final = (
    DestructionRule(
        _DELETES,
        ("rm", "srm"),
        (
            "rm -rf /",
            "rm -r -f ~",
            "sudo rm -rf /",
            "cd / && rm -rf *",
            "rm -rf .git",
            "rm -R /data",
        ),
        ("rm -rf build", "rm -f *", "rm -rf ./*.pyc", "echo rm -rf /", "rm -rf '~'", "cd build && rm -rf *"),
        plain_operands,
        options=("-r", "-R", "--recursive"),
    ),
    DestructionRule(
        _DELETES,
        ("rimraf", "trash", "trash-put", "shred"),
        ("rimraf .", "trash ~", "shred -u ./*", "shred -n 3 /dev/sda"),
        ("rimraf dist", "trash a.txt", "shred -u key.pem"),
        plain_operands,
    ),
    DestructionRule(
        _DELETES,
        ("find",),
        ("find . -delete", "find / -exec rm -rf {} +", "find ~ -type f -delete", "find . ! -name keep -delete"),
        ("find . -name '*.pyc' -delete", "find build -delete", "find . -exec cat {} +", "find . -empty -delete"),
        deleted_by_find,
    ),
    DestructionRule(
        "moves away",
        ("mv",),
        ("mv ~ x", "mv .git /tmp/x", "mv -t /tmp /data", "mv /* /mnt/disk"),
        ("mv a b", "mv * src", "mv build ~"),
        sources,
        Reach.ENTRY,
    ),
    DestructionRule(
        "deletes what is not in the source from",
        ("rsync",),
        ("rsync -a --delete empty/ .", "rsync -a --delete x/ ~", "rsync --delete-after -r a/ /mnt/disk"),
        ("rsync -a x/ .", "rsync -a --delete x/ build/", "rsync -an --delete x/ ."),
        destination,
        options=("--delete", "--delete-before", "--delete-after", "--delete-during", "--delete-excluded", "--del"),
        unless=("-n", "--dry-run"),
    ),
    DestructionRule(
        "deletes every untracked and every ignored file (which no snapshot holds) of",
        ("git",),
        ("git clean -fdx", "git clean -xdff .", "git -C /srv/project clean -f -d -X"),
        ("git clean -fd", "git clean -ndx", "git clean -fdx build", "git -C sub clean -fdx", "git status"),
        git_paths("clean", everything=True),
        Reach.FILES,
        options=("-x", "-X"),
        unless=("-n", "--dry-run"),
    ),
    DestructionRule(
        _DELETES,
        ("git",),
        ("git rm -rf .", "git rm -r --force ./*"),
        ("git rm -r build", "git rm --cached -r .", "git rm a"),
        git_paths("rm", everything=False),
        Reach.FILES,
        options=("-r",),
        unless=("-n", "--dry-run", "--cached"),
    ),
    DestructionRule(
        OVERWRITES,
        ("dd",),
        ("dd if=/dev/zero of=/dev/sda bs=1M", "sudo dd if=a.img of=/dev/mmcblk0"),
        ("dd if=/dev/zero of=disk.img", "dd if=/dev/sda of=/dev/null", "dd if=a of=/dev/stdout"),
        output_file,
        Reach.DEVICE,
    ),
    DestructionRule(
        OVERWRITES,
        ("cp", "mv", "install", "ln"),
        ("cp a.img /dev/sda", "mv a /dev/nvme0n1"),
        ("cp a /dev/null", "cp /dev/sda a.img", "cp a b"),
        destination,
        Reach.DEVICE,
    ),
    DestructionRule(
        OVERWRITES,
        (
            "tee",
            "truncate",
            "mkfs",
            "mke2fs",
            "mkswap",
            "wipefs",
            "blkdiscard",
            "fdisk",
            "sfdisk",
            "sgdisk",
            "parted",
        ),
        ("cat a.img | tee /dev/sda", "mkfs.ext4 /dev/sdb1", "wipefs -a /dev/sda", "sgdisk --zap-all /dev/nvme0n1"),
        ("tee out.log", "mkfs.ext4 disk.img", "fdisk -l /dev/sda", "truncate -s 0 a.log", "make | tee /dev/stderr"),
        plain_operands,
        Reach.DEVICE,
        unless=("-l", "--list", "-p", "--print", "--dump", "-d"),
    ),
    DestructionRule(
        OVERWRITES,
        ("badblocks", "cryptsetup", "mdadm", "hdparm"),
        ("badblocks -w /dev/sda", "cryptsetup luksFormat /dev/sda2", "mdadm --zero-superblock /dev/sdc"),
        ("badblocks -n disk.img", "cryptsetup status vault", "mdadm --version"),
        plain_operands,
        Reach.DEVICE,
    ),
    DestructionRule(
        "changes the owners or modes of everything in",
        ("chmod", "chown", "chgrp"),
        ("chmod -R 777 /", "sudo chown -R me ~", "chgrp --recursive staff /usr", "chmod -R a-w /mnt/disk"),
        ("chmod -R 755 .", "chmod 700 ~", "chown -R me build", "chmod -R u+w /data"),
        after_first,
        Reach.MODES,
        options=("-R", "--recursive"),
    ),
    DestructionRule(
        "unpacks over",
        ("tar", "bsdtar"),
        ("tar -xf a.tar -C /", "cd / && tar xzf /tmp/a.tgz", "tar --extract -f a.tar --directory=/"),
        ("tar xf a.tar", "tar -cf a.tar -C / etc", "tar xf a.tar -C build"),
        extracted_by_tar,
        Reach.TOP,
    ),
    DestructionRule(
        "unpacks over",
        ("unzip",),
        ("unzip -o a.zip -d /",),
        ("unzip a.zip", "unzip -l a.zip -d /"),
        unpacked_into("-d"),
        Reach.TOP,
        unless=("-l", "-t", "-p"),
    ),
    DestructionRule(
        "copies over",
        ("cp", "rsync"),
        ("cp -r build/* /", "cp -a rootfs/. /", "rsync -a rootfs/ /"),
        ("cp a /", "cp -r / backup", "cp -r a /srv/project/b", "rsync -an x/ /"),
        destination,
        Reach.TOP,
        options=("-r", "-R", "-a", "--recursive", "--archive"),
        unless=("-n", "--dry-run"),
    ),
)
