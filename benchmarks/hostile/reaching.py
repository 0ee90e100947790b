"""Reaching what lies outside: other processes, the network, the kernel's rarer doors, hidden names."""

from __future__ import annotations

from benchmarks.hostile import Kind

_WATCH = """
def watch(start):
    handle = start()
    for folder in (b"/root", b"/home", b"/tmp", b"/etc", b"/work", b"/", b"/usr"):
        attempt(lambda: checked(libc.inotify_add_watch(handle, folder, 0xFFF)))
"""

KIND = Kind(
    "reaching out",
    {
        "watch names of folders": _WATCH
        + """
attempt(watch, lambda: call("inotify_init1", 0))
attempt(watch, lambda: call("inotify_init"))
attempt(watch, lambda: checked(libc.inotify_init()))
""",
        "watch whole file systems": """
for flags in (0, 4, 8, 0x200, 0x600):
    attempt(call, "fanotify_init", flags, 0)
""",
        "watch folders by signals": """
import fcntl
signal.signal(signal.SIGIO, signal.SIG_IGN)
for folder in ("/root", "/home", "/tmp", "/etc", "/work", "/var"):
    attempt(lambda: fcntl.fcntl(os.open(folder, os.O_RDONLY), 1026, 0x3F))
    attempt(lambda: fcntl.fcntl(os.open(folder, os.O_PATH), 1026, 0x3F))
""",
        "list hidden folders": """
for folder in ("/root", "/home", "/etc", "/tmp", "/var", "/work", "/proc", "/sys", "/run", "/opt", "/srv", "/mnt"):
    attempt(os.listdir, folder)
    attempt(lambda: os.listdir(os.open(folder, os.O_PATH)))
""",
        "read hidden files": """
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/self/environ", "/proc/cmdline", "/proc/kcore",
             "/dev/mem", "/dev/kmsg", "/sys/kernel/notes", "/proc/self/mem", "/proc/self/mountinfo"):
    attempt(open, path, "rb")
""",
        "the mounts": """
for name in ("statmount", "listmount"):
    attempt(call, name, (ctypes.c_uint64 * 4)(24, 0xFFFFFFFFFFFFFFFF), ctypes.create_string_buffer(4096), 512, 0)
""",
        "files by their handles": """
handle = (ctypes.c_uint32 * 40)(128)
attempt(call, "name_to_handle_at", -100, b"/", handle, ctypes.byref(ctypes.c_int()), 0)
attempt(call, "open_by_handle_at", -100, handle, 0)
""",
        "signals to everybody outside": """
for pid in [2, 3] + list(range(100, 2000)) + [os.getppid() - 1]:
    if pid > 10 and pid != os.getpid() and os.getcwd() != "/job":
        attempt(os.kill, pid, 0)
""",
        "signals through descriptors": """
for pid in list(range(100, 400)):
    if pid != os.getpid() and os.getcwd() != "/job":
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        attempt(signal.pidfd_send_signal, handle, 0)
""",
        "connect by TCP": """
for address in (("127.0.0.1", 22), ("1.1.1.1", 53), ("169.254.169.254", 80)):
    attempt(socket.create_connection, address, 0.3)
""",
        "send by UDP": "attempt(lambda: socket.socket(2, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53)))",
        "rare families": """
for family in list(range(2, 46)):
    for kind in (1, 2, 3, 5):
        attempt(socket.socket, family, kind, 0)
""",
        "sockets of the system": """
for address in ("/run/systemd/private", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "\\0/tmp/dbus-x",
                "/tmp/.X11-unix/X0", "\\0/tmp/.X11-unix/X0"):
    attempt(lambda: socket.socket(socket.AF_UNIX).connect(address))
""",
        "namespaces": """
for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    attempt(call, "unshare", flag)
    attempt(call, "clone", flag | 17, 0, 0, 0, 0) if flag != 0x80 else None
attempt(call, "setns", 0, 0)
""",
        "clone3": """
arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
child = libc.syscall(435, arguments, 88)
if child == 0:
    os._exit(0)
if child > 0:
    through(child)
""",
        "another root": """
attempt(os.chroot, ".")
attempt(call, "pivot_root", b".", b".")
""",
        "modules and kernels": """
for name in ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"):
    attempt(call, name, 0, 0, 0, 0, 0)
""",
        "rings, maps, events": """
attempt(call, "io_uring_setup", 8, ctypes.create_string_buffer(256))
attempt(call, "io_uring_register", 0, 0, 0, 0)
attempt(call, "bpf", 5, ctypes.create_string_buffer(128), 128)
attempt(call, "perf_event_open", (ctypes.c_uint32 * 32)(0, 128), 0, -1, -1, 0)
""",
        "the clock, the name, the disks": """
attempt(time.clock_settime, time.CLOCK_REALTIME, 0)
attempt(call, "settimeofday", 0, 0)
attempt(socket.sethostname, "hostile")
for name in ("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "vhangup"):
    attempt(call, name, 2, 0, 0, 0)
""",
        "ports of the machine": """
for name in ("iopl", "ioperm", "modify_ldt", "uselib", "lookup_dcookie"):
    attempt(call, name, 3, 1, 1, 1)
""",
        "another personality": "attempt(call, 'personality', 0x0040000)",
        "calls of the 32-bit kind": """
import mmap, platform
if platform.machine() == "x86_64":
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("b814000000cd80c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if answer > 0:
        through(answer)
""",
        "calls of the x32 kind": """
answer = libc.syscall(ctypes.c_long(0x40000000 + 39))
if answer > 0:
    through(answer)
""",
        "type into the terminal": """
import fcntl
for path in ("/dev/tty", "/dev/console", "/dev/tty1", "/dev/pts/0"):
    attempt(lambda: fcntl.ioctl(os.open(path, os.O_RDWR), 0x5412, b"x"))
for number in range(3):
    attempt(fcntl.ioctl, number, 0x5412, b"x")
""",
        "programs with more rights": """
import subprocess
for command in (["/usr/bin/su", "-c", "true"], ["/usr/bin/mount", "-t", "tmpfs", "x", "."],
                ["/usr/bin/newgrp"], ["/usr/bin/unshare", "-U", "true"], ["/usr/bin/nsenter", "-t", "1", "-m", "true"]):
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=2)
    except (OSError, subprocess.TimeoutExpired):
        continue
    if done.returncode == 0:
        through(command)
""",
        "a library of its own before others": """
import subprocess
try:
    done = subprocess.run([sys.executable, "-c", "import os; os.mkdir('/usr/x')"], capture_output=True, timeout=2)
except OSError:
    os._exit(0)
if done.returncode == 0:
    through()
""",
        "schedule itself first": """
attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
attempt(os.setpriority, os.PRIO_PROCESS, 0, -20)
""",
        "the environment of the one who started it": """
for name, value in os.environ.items():
    if name not in ("LC_CTYPE", "LD_LIBRARY_PATH", "PWD", "PYTHONHASHSEED", "TMPDIR"):
        through(name)
""",
    },
)
