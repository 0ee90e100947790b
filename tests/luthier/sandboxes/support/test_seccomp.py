import struct

import pytest

from luthier.errors import SandboxError
from luthier.sandboxes.support.seccomp import filter_program

ALLOW, KILL, EPERM, ENOSYS, EAFNOSUPPORT = 0x7FFF0000, 0x80000000, 0x50001, 0x50026, 0x50061
X86, ARM = 0xC000003E, 0xC00000B7


def verdict(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """Run a filter as the kernel does, for one call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * place)
        place += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            place += if_true if holds else if_false


@pytest.mark.parametrize(
    ("number", "argument", "with_namespaces", "without"),
    [
        (0, 0, ALLOW, ALLOW),  # read
        (257, 0, ALLOW, ALLOW),  # openat
        (101, 0, EPERM, EPERM),  # ptrace
        (165, 0, EPERM, EPERM),  # mount
        (272, 0, EPERM, EPERM),  # unshare
        (56, 0x11, ALLOW, ALLOW),  # clone as fork does
        (56, 0x10000011, EPERM, EPERM),  # clone with CLONE_NEWUSER
        (56, 0x00020011, EPERM, EPERM),  # clone with CLONE_NEWNS
        (56, 0x00008011, EPERM, EPERM),  # clone with CLONE_PARENT
        (435, 0, ENOSYS, ENOSYS),  # clone3
        (319, 0, EPERM, EPERM),  # memfd_create
        (29, 0, EPERM, EPERM),  # shmget
        (240, 0, EPERM, EPERM),  # mq_open
        (294, 0, EPERM, EPERM),  # inotify_init1
        (311, 0, EPERM, EPERM),  # process_vm_writev
        (438, 0, EPERM, EPERM),  # pidfd_getfd
        (59, 0, ALLOW, EPERM),  # execve
        (90, 0, ALLOW, EPERM),  # chmod
        (41, 1, ALLOW, EPERM),  # socket, Unix
        (41, 2, EAFNOSUPPORT, EPERM),  # socket, Internet version 4
        (41, 10, EAFNOSUPPORT, EPERM),  # socket, Internet version 6
        (41, 40, EAFNOSUPPORT, EPERM),  # socket, vsock
        (54, 0, EPERM, EPERM),  # setsockopt
        (302, 0, ALLOW, ALLOW),  # prlimit64 on oneself
        (302, 7, EPERM, EPERM),  # prlimit64 on another process
        (0x40000000, 0, KILL, KILL),  # x32 read
    ],
)
def test_calls_on_x86_64(number, argument, with_namespaces, without):
    assert verdict(filter_program(namespaces=True, machine="x86_64"), X86, number, argument) == with_namespaces
    assert verdict(filter_program(namespaces=False, machine="x86_64"), X86, number, argument) == without


def test_calls_on_aarch64():
    program = filter_program(namespaces=False, machine="aarch64")
    assert verdict(program, ARM, 63) == ALLOW  # read
    assert verdict(program, ARM, 117) == EPERM  # ptrace
    assert verdict(program, ARM, 220, 0x10000011) == EPERM  # clone with CLONE_NEWUSER


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_another_architectures_calls_kill(machine):
    program = filter_program(namespaces=True, machine=machine)
    assert verdict(program, ARM if machine == "x86_64" else X86, 0) == KILL


def test_an_unknown_architecture_is_refused():
    with pytest.raises(SandboxError, match="'riscv64'"):
        filter_program(namespaces=True, machine="riscv64")
