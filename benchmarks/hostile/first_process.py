"""Taking over the sandbox's first process, which is bound by fewer limits or outlives the run."""

from __future__ import annotations

from benchmarks.hostile import Kind

_VECTOR = """
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
local = Vector(ctypes.addressof(buffer), 8)
remote = Vector(id(0), 8)
"""

KIND = Kind(
    "first process",
    {
        "write its memory through /proc": """
for pid in others():
    attempt(open, f"/proc/{pid}/mem", "r+b")
""",
        "take its program counter, wake it by an orphan's death": """
for pid in others():
    try:
        counter = int(open(f"/proc/{pid}/syscall").read().split()[-1], 16)
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    except OSError:
        continue
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.1)
        os._exit(0)
    os.pwrite(memory, os.pread(memory, 16, counter), counter)
    through(hex(counter))
""",
        "read its memory map": """
for pid in others():
    for name in ("maps", "auxv", "stack", "smaps", "pagemap", "environ"):
        attempt(lambda: open(f"/proc/{pid}/{name}", "rb").read(64) or checked(-1))
""",
        "read its memory through threads": """
for pid in others():
    attempt(open, f"/proc/{pid}/task/{pid}/mem", "rb")
    attempt(open, f"/proc/thread-self/../../{pid}/mem", "r+b")
""",
        "open its descriptors": """
for pid in others():
    for number in range(16):
        attempt(os.open, f"/proc/{pid}/fd/{number}", os.O_RDWR)
        attempt(os.readlink, f"/proc/{pid}/fd/{number}")
""",
        "leave through its root": """
for pid in others():
    for name in ("root", "cwd", "root/etc", "map_files"):
        attempt(os.listdir, f"/proc/{pid}/{name}")
""",
        "attach to it": """
for pid in others():
    attempt(lambda: checked(libc.ptrace(16, pid, 0, 0)))
    attempt(lambda: call("ptrace", 16, pid, 0, 0))
""",
        "seize it": "for pid in others(): attempt(call, 'ptrace', 0x4206, pid, 0, 0)",
        "make it trace the program": """
attempt(call, "ptrace", 0, 0, 0, 0)
if os.fork() == 0:
    attempt(call, "ptrace", 0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.2)
""",
        "write by process_vm_writev": _VECTOR
        + """
for pid in others():
    attempt(call, "process_vm_writev", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
""",
        "read by process_vm_readv": _VECTOR
        + """
for pid in others():
    attempt(call, "process_vm_readv", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
""",
        "take its descriptors": """
for pid in others():
    try:
        handle = call("pidfd_open", pid, 0)
    except OSError:
        continue
    for number in range(8):
        attempt(call, "pidfd_getfd", handle, number, 0)
    attempt(call, "setns", handle, 0x20000000)
""",
        "compare it with the program": "for pid in others(): attempt(call, 'kcmp', os.getpid(), pid, 1, 0, 0)",
        "move its pages": """
for pid in others():
    attempt(call, "move_pages", pid, 0, 0, 0, 0, 0)
    attempt(call, "migrate_pages", pid, 1, ctypes.byref(ctypes.c_ulong(1)), ctypes.byref(ctypes.c_ulong(1)))
""",
        "advise its memory away": _VECTOR
        + """
for pid in others():
    try:
        handle = call("pidfd_open", pid, 0)
    except OSError:
        continue
    attempt(call, "process_madvise", handle, ctypes.byref(remote), 1, 21, 0)
""",
        "count its events": """
attributes = (ctypes.c_uint32 * 32)(0, 128)
for pid in others():
    attempt(call, "perf_event_open", attributes, pid, -1, -1, 0)
""",
        "change its limits": """
pair = (ctypes.c_uint64 * 2)(1 << 40, 1 << 40)
for pid in others():
    attempt(call, "prlimit64", pid, 9, None, pair)
    attempt(call, "prlimit64", pid, 9, pair, None)
""",
        "send it every signal": """
parent = os.getppid()
for pid in others():
    for number in range(1, 65):
        if number != signal.SIGCONT:
            try:
                os.kill(pid, number)
            except OSError:
                pass
time.sleep(0.3)
if os.getppid() != parent:
    through("it is dead")
""",
        "have the kernel kill it": """
import fcntl
parent = os.getppid()
for pid in others():
    for number in (signal.SIGKILL, signal.SIGTERM, 0):
        ours, theirs = socket.socketpair()
        try:
            fcntl.fcntl(ours, fcntl.F_SETOWN, pid)
            fcntl.fcntl(ours, 10, number)
            fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
            theirs.send(b"x")
        except OSError:
            pass
time.sleep(0.3)
if os.getppid() != parent:
    through("it is dead")
""",
        "interrupt it by a timer": """
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int),
                ("thread", ctypes.c_int), ("rest", ctypes.c_char * 64)]
timer = ctypes.c_void_p()
for pid in others():
    attempt(lambda: checked(libc.timer_create(1, ctypes.byref(Event(0, 9, 4, pid)), ctypes.byref(timer))))
""",
        "mount /proc anew": """
os.mkdir("proc")
attempt(lambda: checked(libc.mount(b"proc", b"proc", b"proc", 0, None)))
attempt(call, "fsopen", b"proc", 0)
attempt(call, "open_tree", -100, b"/", 1)
if os.path.exists("proc/1/mem"):
    through()
""",
        "mount /proc in a nested user namespace": """
for flags in (0x10000000, 0x10020000, 0x30020000, 0x20000000):
    attempt(call, "unshare", flags)
    attempt(call, "clone", flags | 17, 0, 0, 0, 0)
attempt(lambda: checked(libc.clone(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0), None, 0x10000011, None)))
""",
        "become its sibling": """
try:
    child = call("clone", 0x8000 | 17, 0, 0, 0, 0)
except OSError:
    child = -1
if child == 0:
    time.sleep(60)
elif child > 0:
    through(child)
""",
        "be dumped by a crash": """
import resource
attempt(resource.setrlimit, resource.RLIMIT_CORE, (1 << 20, 1 << 20))
os.abort()
""",
    },
)
