"""System call numbers that the seccomp filter needs, by name.

`None` where the architecture never had the call.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Numbers:
    x86_64: int | None
    aarch64: int | None


def _same(number: int) -> Numbers:
    """Calls newer than Linux 5.0 have one number everywhere."""
    return Numbers(number, number)


NUMBERS: dict[str, Numbers] = {
    # files
    "open": Numbers(2, None),
    "creat": Numbers(85, None),
    "openat": Numbers(257, 56),
    "openat2": _same(437),
    "chmod": Numbers(90, None),
    "fchmod": Numbers(91, 52),
    "fchmodat": Numbers(268, 53),
    "fchmodat2": _same(452),
    "mknod": Numbers(133, None),
    "mknodat": Numbers(259, 33),
    "ioctl": Numbers(16, 29),
    "fcntl": Numbers(72, 25),
    "name_to_handle_at": Numbers(303, 264),
    "open_by_handle_at": Numbers(304, 265),
    "quotactl": Numbers(179, 60),
    "quotactl_fd": _same(443),
    "uselib": Numbers(134, None),
    # processes
    "clone": Numbers(56, 220),
    "clone3": _same(435),
    "ptrace": Numbers(101, 117),
    "process_vm_readv": Numbers(310, 270),
    "process_vm_writev": Numbers(311, 271),
    "kcmp": Numbers(312, 272),
    "pidfd_getfd": _same(438),
    "personality": Numbers(135, 92),
    "migrate_pages": Numbers(256, 238),
    "move_pages": Numbers(279, 239),
    "modify_ldt": Numbers(154, None),
    "prlimit64": Numbers(302, 261),
    "setpriority": Numbers(141, 140),
    "sched_setparam": Numbers(142, 118),
    "sched_setscheduler": Numbers(144, 119),
    "sched_setaffinity": Numbers(203, 122),
    "sched_setattr": Numbers(314, 274),
    "ioprio_set": Numbers(251, 30),
    # sockets
    "socket": Numbers(41, 198),
    "socketpair": Numbers(53, 199),
    "connect": Numbers(42, 203),
    # objects of System V and POSIX that have names of their own
    "shmget": Numbers(29, 194),
    "shmat": Numbers(30, 196),
    "shmctl": Numbers(31, 195),
    "semget": Numbers(64, 190),
    "semop": Numbers(65, 193),
    "semtimedop": Numbers(220, 192),
    "semctl": Numbers(66, 191),
    "msgget": Numbers(68, 186),
    "msgsnd": Numbers(69, 189),
    "msgrcv": Numbers(70, 188),
    "msgctl": Numbers(71, 187),
    "mq_open": Numbers(240, 180),
    "mq_unlink": Numbers(241, 181),
    # namespaces and mounts
    "unshare": Numbers(272, 97),
    "setns": Numbers(308, 268),
    "chroot": Numbers(161, 51),
    "pivot_root": Numbers(155, 41),
    "mount": Numbers(165, 40),
    "umount2": Numbers(166, 39),
    "open_tree": _same(428),
    "move_mount": _same(429),
    "fsopen": _same(430),
    "fsconfig": _same(431),
    "fsmount": _same(432),
    "fspick": _same(433),
    "mount_setattr": _same(442),
    "open_tree_attr": _same(467),
    # wide or little-used parts of the kernel
    "bpf": Numbers(321, 280),
    "perf_event_open": Numbers(298, 241),
    "userfaultfd": Numbers(323, 282),
    "io_uring_setup": _same(425),
    "io_uring_enter": _same(426),
    "io_uring_register": _same(427),
    "add_key": Numbers(248, 217),
    "request_key": Numbers(249, 218),
    "keyctl": Numbers(250, 219),
    "memfd_secret": _same(447),
    "lookup_dcookie": Numbers(212, 18),
    "nfsservctl": Numbers(180, 42),
    # the machine itself
    "kexec_load": Numbers(246, 104),
    "kexec_file_load": Numbers(320, 294),
    "init_module": Numbers(175, 105),
    "finit_module": Numbers(313, 273),
    "delete_module": Numbers(176, 106),
    "reboot": Numbers(169, 142),
    "swapon": Numbers(167, 224),
    "swapoff": Numbers(168, 225),
    "acct": Numbers(163, 89),
    "syslog": Numbers(103, 116),
    "vhangup": Numbers(153, 58),
    "iopl": Numbers(172, None),
    "ioperm": Numbers(173, None),
    "settimeofday": Numbers(164, 170),
    "clock_settime": Numbers(227, 112),
    "adjtimex": Numbers(159, 171),
    "clock_adjtime": Numbers(305, 266),
    "sethostname": Numbers(170, 161),
    "setdomainname": Numbers(171, 162),
}
