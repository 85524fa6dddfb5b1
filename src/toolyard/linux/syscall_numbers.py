"""System call numbers that the seccomp filters need, by name.

`None` if the architecture never had the call.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SyscallNumbers:
    """The number of one system call on each supported architecture."""

    x86_64: int | None
    aarch64: int | None


def _same_everywhere(number: int) -> SyscallNumbers:
    """Returns the numbers of a call newer than Linux 5.0: the same on every architecture."""
    return SyscallNumbers(number, number)


SYSCALL_NUMBERS: dict[str, SyscallNumbers] = {
    # files
    "open": SyscallNumbers(2, None),
    "creat": SyscallNumbers(85, None),
    "openat": SyscallNumbers(257, 56),
    "openat2": _same_everywhere(437),
    "chmod": SyscallNumbers(90, None),
    "fchmod": SyscallNumbers(91, 52),
    "fchmodat": SyscallNumbers(268, 53),
    "fchmodat2": _same_everywhere(452),
    "mknod": SyscallNumbers(133, None),
    "mknodat": SyscallNumbers(259, 33),
    "ioctl": SyscallNumbers(16, 29),
    "fcntl": SyscallNumbers(72, 25),
    "name_to_handle_at": SyscallNumbers(303, 264),
    "open_by_handle_at": SyscallNumbers(304, 265),
    "quotactl": SyscallNumbers(179, 60),
    "quotactl_fd": _same_everywhere(443),
    "uselib": SyscallNumbers(134, None),
    # processes
    "clone": SyscallNumbers(56, 220),
    "clone3": _same_everywhere(435),
    "ptrace": SyscallNumbers(101, 117),
    "process_vm_readv": SyscallNumbers(310, 270),
    "process_vm_writev": SyscallNumbers(311, 271),
    "kcmp": SyscallNumbers(312, 272),
    "pidfd_getfd": _same_everywhere(438),
    "personality": SyscallNumbers(135, 92),
    "migrate_pages": SyscallNumbers(256, 238),
    "move_pages": SyscallNumbers(279, 239),
    "modify_ldt": SyscallNumbers(154, None),
    "prlimit64": SyscallNumbers(302, 261),
    "setpriority": SyscallNumbers(141, 140),
    "sched_setparam": SyscallNumbers(142, 118),
    "sched_setscheduler": SyscallNumbers(144, 119),
    "sched_setaffinity": SyscallNumbers(203, 122),
    "sched_setattr": SyscallNumbers(314, 274),
    "ioprio_set": SyscallNumbers(251, 30),
    # sockets
    "socket": SyscallNumbers(41, 198),
    "socketpair": SyscallNumbers(53, 199),
    "connect": SyscallNumbers(42, 203),
    # objects of System V and POSIX that have names of their own
    "shmget": SyscallNumbers(29, 194),
    "shmat": SyscallNumbers(30, 196),
    "shmctl": SyscallNumbers(31, 195),
    "semget": SyscallNumbers(64, 190),
    "semop": SyscallNumbers(65, 193),
    "semtimedop": SyscallNumbers(220, 192),
    "semctl": SyscallNumbers(66, 191),
    "msgget": SyscallNumbers(68, 186),
    "msgsnd": SyscallNumbers(69, 189),
    "msgrcv": SyscallNumbers(70, 188),
    "msgctl": SyscallNumbers(71, 187),
    "mq_open": SyscallNumbers(240, 180),
    "mq_unlink": SyscallNumbers(241, 181),
    # namespaces and mounts
    "unshare": SyscallNumbers(272, 97),
    "setns": SyscallNumbers(308, 268),
    "chroot": SyscallNumbers(161, 51),
    "pivot_root": SyscallNumbers(155, 41),
    "mount": SyscallNumbers(165, 40),
    "umount2": SyscallNumbers(166, 39),
    "open_tree": _same_everywhere(428),
    "move_mount": _same_everywhere(429),
    "fsopen": _same_everywhere(430),
    "fsconfig": _same_everywhere(431),
    "fsmount": _same_everywhere(432),
    "fspick": _same_everywhere(433),
    "mount_setattr": _same_everywhere(442),
    "open_tree_attr": _same_everywhere(467),
    # wide or little-used parts of the kernel
    "bpf": SyscallNumbers(321, 280),
    "perf_event_open": SyscallNumbers(298, 241),
    "userfaultfd": SyscallNumbers(323, 282),
    "io_uring_setup": _same_everywhere(425),
    "io_uring_enter": _same_everywhere(426),
    "io_uring_register": _same_everywhere(427),
    "add_key": SyscallNumbers(248, 217),
    "request_key": SyscallNumbers(249, 218),
    "keyctl": SyscallNumbers(250, 219),
    "memfd_secret": _same_everywhere(447),
    "lookup_dcookie": SyscallNumbers(212, 18),
    "nfsservctl": SyscallNumbers(180, 42),
    # the machine itself
    "kexec_load": SyscallNumbers(246, 104),
    "kexec_file_load": SyscallNumbers(320, 294),
    "init_module": SyscallNumbers(175, 105),
    "finit_module": SyscallNumbers(313, 273),
    "delete_module": SyscallNumbers(176, 106),
    "reboot": SyscallNumbers(169, 142),
    "swapon": SyscallNumbers(167, 224),
    "swapoff": SyscallNumbers(168, 225),
    "acct": SyscallNumbers(163, 89),
    "syslog": SyscallNumbers(103, 116),
    "vhangup": SyscallNumbers(153, 58),
    "iopl": SyscallNumbers(172, None),
    "ioperm": SyscallNumbers(173, None),
    "settimeofday": SyscallNumbers(164, 170),
    "clock_settime": SyscallNumbers(227, 112),
    "adjtimex": SyscallNumbers(159, 171),
    "clock_adjtime": SyscallNumbers(305, 266),
    "sethostname": SyscallNumbers(170, 161),
    "setdomainname": SyscallNumbers(171, 162),
}
