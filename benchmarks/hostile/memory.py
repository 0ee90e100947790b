"""Holding more memory than the limit, in sum or out of sight. The limit is 128 MiB, the folder's 64 MiB."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.hostile import LIMITS, Kind

_HELD = """
MIB = 1 << 20
PLACES = [".", "/", "/dev", "/dev/shm", "/tmp", "/var/tmp", "/run", "/run/lock", "/py", "/usr"]
def held(amount, allowed=160 * MIB):
    # What is counted from outside is looked at many times a second: what is held for longer is through.
    if amount > allowed:
        time.sleep(2.0)
        through(amount // MIB)
def filled(size):
    data = bytearray(size)
    data[::4096] = b"x" * len(data[::4096])
    return data
done = os.pipe()
def hold(data):
    os.write(done[1], b"1")
    time.sleep(60)
def wait_for(count):
    while count:
        count -= len(os.read(done[0], count))
"""

_PROGRAMS = {
    "a gigabyte and a half": "held(len(filled(1536 * MIB)))",
    "many processes": """
children(6, lambda number: hold(filled(60 * MIB)))
wait_for(6)
held(360 * MIB)
""",
    "orphans": """
def orphan(number):
    if os.fork() == 0:
        hold(filled(60 * MIB))
for _ in range(5):
    children(1, orphan)
    os.wait()
wait_for(5)
held(300 * MIB)
""",
    "a chain of children": """
import mmap
total = 0
for _ in range(7):
    data = filled(40 * MIB)
    total += len(data)
    if os.fork():
        time.sleep(60)
held(total)
""",
    "threads' stacks": """
import threading
threading.stack_size(32 * MIB)
def deep(left):
    hold(filled(24 * MIB))
try:
    for _ in range(6):
        threading.Thread(target=deep, args=(3,), daemon=True).start()
except (RuntimeError, MemoryError):
    os._exit(0)
wait_for(6)
held(6 * 56 * MIB)
os._exit(0)
""",
    "shared mappings": """
import mmap
def share(number):
    area = mmap.mmap(-1, 60 * MIB)
    for place in range(0, len(area), 4096):
        area[place] = 1
    hold(area)
children(5, share)
wait_for(5)
held(300 * MIB)
""",
    "mappings without reserve": """
import mmap
areas = []
try:
    for _ in range(8):
        areas.append(mmap.mmap(-1, 60 * MIB, flags=0x4022))
except (OSError, ValueError):
    os._exit(0)
held(480 * MIB)
""",
    "files of 15 MiB in every place": """
total = 0
for place in PLACES:
    for number in range(30):
        try:
            with open(f"{place}/big-{number}", "wb") as file:
                file.write(bytes(15 * MIB))
        except OSError:
            break
        total += 15 * MIB
held(total, 66 * MIB)
""",
    "files through a mapping": """
import mmap
total = 0
try:
    for number in range(30):
        with open(f"map-{number}", "w+b") as file:
            file.truncate(15 * MIB)
            area = mmap.mmap(file.fileno(), 15 * MIB)
            for place in range(0, len(area), 4096):
                area[place] = 1
            area.close()
            total += 15 * MIB
except OSError:
    pass
held(total, 66 * MIB)
""",
    "deleted files that stay open": """
kept = []
try:
    for number in range(30):
        kept.append(open("gone", "wb"))
        os.unlink("gone")
        kept[-1].write(bytes(15 * MIB))
        kept[-1].flush()
except OSError:
    kept.pop()
held(15 * MIB * len(kept), 66 * MIB)
""",
    "files without a name": """
kept = []
total = 0
try:
    for number in range(30):
        kept.append(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))
        total += os.write(kept[-1], bytes(15 * MIB))
except OSError:
    pass
held(total, 66 * MIB)
""",
    "one large file": """
for write in (lambda f: os.ftruncate(f, 40 * MIB), lambda f: os.posix_fallocate(f, 0, 40 * MIB),
              lambda f: os.pwrite(f, b"x", 40 * MIB), lambda f: os.lseek(f, 40 * MIB, 0) and os.write(f, b"x")):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    attempt(write, os.open("large", os.O_RDWR | os.O_CREAT))
""",
    "room set aside for files": """
total = 0
try:
    for number in range(30):
        os.posix_fallocate(os.open(f"room-{number}", os.O_RDWR | os.O_CREAT), 0, 15 * MIB)
        total += 15 * MIB
except OSError:
    pass
held(total, 66 * MIB)
""",
    "anonymous files": "for flags in (0, 1, 2, 4): attempt(call, 'memfd_create', b'x', flags)",
    "anonymous files through the C library": "attempt(os.memfd_create, 'x')",
    "secret memory": "attempt(call, 'memfd_secret', 0)",
    "System V shared memory": """
for key in (0, 1, 12345):
    attempt(call, "shmget", key, 32 * MIB, 0o1600)
attempt(call, "shmat", 0, 0, 0)
""",
    "System V queues and semaphores": """
attempt(call, "msgget", 0, 0o1600)
attempt(call, "semget", 0, 32000, 0o1600)
""",
    "POSIX shared memory": """
import _posixshmem
for number in range(10):
    attempt(_posixshmem.shm_open, f"/hostile-{number}", os.O_CREAT | os.O_RDWR)
""",
    "shared memory of multiprocessing": """
from multiprocessing import shared_memory
attempt(lambda: shared_memory.SharedMemory(create=True, size=32 * MIB))
""",
    "POSIX queues": "attempt(call, 'mq_open', b'hostile', 0o102, 0o600, 0)",
    "semaphores with names": """
import _multiprocessing
attempt(_multiprocessing.SemLock, 1, 1, 1, "/hostile", False)
""",
    "pipes": """
import fcntl
def fill(number):
    kept, total = [], 0
    try:
        while len(kept) < 60:
            kept += os.pipe()
            os.set_blocking(kept[-1], False)
            try:
                fcntl.fcntl(kept[-1], 1031, MIB)
            except OSError:
                pass
            try:
                while True:
                    total += os.write(kept[-1], bytes(65536))
            except BlockingIOError:
                pass
    except OSError:
        pass
    os.write(sizes[1], b"%d " % total)
    hold(kept)
sizes = os.pipe()
children(6, fill)
wait_for(6)
held(sum(map(int, os.read(sizes[0], 1000).split())), 128 * MIB)
""",
    "sockets": """
def fill(number):
    kept, total = [], 0
    try:
        while len(kept) < 28:
            kept.append(socket.socketpair())
            for end in kept[-1]:
                attempt(end.setsockopt, socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * MIB)
                end.setblocking(False)
                try:
                    while True:
                        total += end.send(bytes(65536))
                except BlockingIOError:
                    pass
    except OSError:
        pass
    os.write(sizes[1], b"%d " % total)
    hold(kept)
sizes = os.pipe()
children(6, fill)
wait_for(6)
held(sum(map(int, os.read(sizes[0], 1000).split())), 256 * MIB)
""",
    "connections to itself": """
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    attempt(socket.create_server, (address, 0))
""",
    "descriptors within messages": """
ours, theirs = socket.socketpair()
ours.setblocking(False)
kept = 0
try:
    for number in range(200):
        file = os.open("sent", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.unlink("sent")
        os.write(file, bytes(15 * MIB))
        socket.send_fds(ours, [b"x"], [file])
        os.close(file)
        kept += 15 * MIB
except OSError:
    pass
held(kept, 80 * MIB if os.getcwd() == "/job" else 1 << 40)
""",
    "pages given to pipes": """
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
import fcntl
kept = total = 0
ends = []
for number in range(28):
    ends.append(os.pipe())
    try:
        fcntl.fcntl(ends[-1][1], 1031, MIB)
    except OSError:
        pass
    block = ctypes.create_string_buffer(MIB)
    given = libc.vmsplice(ends[-1][1], ctypes.byref(Vector(ctypes.addressof(block), MIB)), 1, 3)
    total += max(0, given)
held(total, 128 * MIB)
""",
    "a hundred thousand empty files": """
made = 0
try:
    for number in range(100_000):
        os.close(os.open(f"empty-{number}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError:
    pass
if made > 60_000:
    time.sleep(2.0)
    through(made)
""",
    "links with long targets": """
made = 0
try:
    for number in range(100_000):
        os.symlink("x" * 4000, f"link-{number}")
        made += 1
except OSError:
    pass
if made > 60_000:
    time.sleep(2.0)
    through(made)
""",
    "extended attributes": """
made = 0
for number in range(2000):
    try:
        os.close(os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY))
        os.setxattr(f"file-{number}", "user.x", bytes(60_000))
        made += 1
    except OSError:
        continue
held(made * 60_000, 66 * MIB)
""",
    "keys": """
for keyring in (-1, -2, -3, -4, -5):
    attempt(call, "add_key", b"user", b"hostile", b"x" * 30000, 30000, keyring)
attempt(call, "keyctl", 0, -3, 1)
attempt(call, "request_key", b"user", b"hostile", 0, 0)
""",
    "maps of the kernel": """
attributes = (ctypes.c_uint32 * 32)(2, 4, 1 << 20, 1000)
attempt(call, "bpf", 0, attributes, 128)
""",
    "rings of the kernel": """
attempt(call, "io_uring_setup", 4096, ctypes.create_string_buffer(256))
attempt(call, "io_setup", 60000, ctypes.byref(ctypes.c_ulong(0)))
""",
    "faults handled by the program": """
attempt(call, "userfaultfd", 0)
attempt(call, "userfaultfd", 1)
attempt(os.open, "/dev/userfaultfd", os.O_RDWR)
""",
    "locked memory": "attempt(lambda: checked(libc.mlockall(1 << 1 | 1)) and 0 or checked(-1))",
    "allocate and free in bursts": """
until = time.monotonic() + 1.0
while time.monotonic() < until:
    data = bytes(filled(50 * MIB))
    del data
""",
}

# Long enough for a loaded machine to fill what it may and hold it.
KIND = Kind("memory", {name: _HELD + program for name, program in _PROGRAMS.items()}, replace(LIMITS, seconds=8.0))
