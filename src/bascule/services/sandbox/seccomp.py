"""The system calls that a sandboxed command may not make, as a program for the kernel's filter.

Namespaces keep files, processes and the network apart. What is left is what they do not cover: other
processes' memory, new namespaces and mounts, kernel services of no use to a build, typing into the
terminal, and sockets of families that no network namespace keeps in. Numbers are those of the kernel's
`unistd.h`.
"""

import os
import platform
import struct
from collections.abc import Sequence
from typing import Final

_DENIED: Final[dict[str, tuple[int, int]]] = {
    # name: (x86-64, arm64); -1 where there is none
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "open_by_handle_at": (304, 265),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "modify_ldt": (154, -1),
}
_CLONE: Final = (56, 220)
_CLONE3: Final = (435, 435)
_SOCKET: Final = (41, 198)
_IOCTL: Final = (16, 29)
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_NEW_NAMESPACES: Final = 0x7E020000  # user, pid, net, ipc, uts, cgroup, mount
_FAMILIES: Final = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_TERMINAL: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32: Final = 0x40000000

_EPERM: Final = 1
_ENOSYS: Final = 38
_EAFNOSUPPORT: Final = 97
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET
_RETURN: Final = 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # places in struct seccomp_data


def program(machine: str | None = None) -> bytes:
    """The filter for a machine (this one by default). Raises KeyError for one that is not known."""
    at, audit = _ARCHITECTURES[machine or platform.machine()]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if at == 0:
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    for numbers in _DENIED.values():
        if numbers[at] >= 0:
            code += [(_EQUAL, 0, 1, numbers[at]), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    # Its flags are in memory, which a filter cannot read: without it libraries take clone.
    code += [(_EQUAL, 0, 1, _CLONE3[at]), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    code += _on(_CLONE[at], _FIRST, [(_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(_EPERM)])
    code += _on(_SOCKET[at], _FIRST, _none_of(_FAMILIES, _EAFNOSUPPORT))
    code += _on(_IOCTL[at], _SECOND, _one_of(_TERMINAL, _EPERM))
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def as_file(filter_: bytes) -> int:
    """A descriptor from which bubblewrap reads the filter; the caller closes it."""
    fd = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(fd, filter_)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


_Line = tuple[int, int, int, int]


def _error(number: int) -> _Line:
    return (_RETURN, 0, 0, _ERRNO | number)


def _on(call: int, argument: int, checks: Sequence[_Line]) -> list[_Line]:
    """Look at the lower half of an argument of one call; what passes is allowed."""
    inside = [(_LOAD, 0, 0, argument), *checks, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(inside), call), *inside]


def _none_of(values: Sequence[int], error: int) -> list[_Line]:
    """An error for all but these."""
    left = range(len(values), 0, -1)
    return [*((_EQUAL, n, 0, value) for n, value in zip(left, values, strict=True)), _error(error)]


def _one_of(values: Sequence[int], error: int) -> list[_Line]:
    lines: list[_Line] = []
    for value in values:
        lines += [(_EQUAL, 0, 1, value), _error(error)]
    return lines
