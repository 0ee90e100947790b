"""Leaving what is hard to remove, or writing where nothing may be written."""

from __future__ import annotations

from benchmarks.hostile import Kind

_FLAGS = """
import fcntl
def flags(path, value):
    fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, ctypes.c_long(value))
"""

KIND = Kind(
    "folders",
    {
        "three thousand nested folders": """
for _ in range(3000):
    os.mkdir("a")
    os.chdir("a")
""",
        "nested folders with long names": """
for _ in range(400):
    os.mkdir("n" * 255)
    os.chdir("n" * 255)
""",
        "nested folders named like our own": """
top = os.getcwd()
for number in range(200):
    os.mkdir(f"moved-{number % 7}")
    os.chdir(f"moved-{number % 7}")
os.chdir(top)
for number in range(300):
    os.makedirs(f"moved-{number}/moved-{number + 1}/inner", exist_ok=True)
""",
        "many nested folders at once": """
for number in range(40):
    os.mkdir(f"tree-{number}")
    os.chdir(f"tree-{number}")
    for _ in range(60):
        os.mkdir("b")
        os.chdir("b")
    for _ in range(61):
        os.chdir("..")
""",
        "folders that nobody may enter": """
for mode in (0, 0o100, 0o200, 0o300, 0o400, 0o555, 0o1777):
    os.mkdir(f"mode-{mode}", mode)
    try:
        os.makedirs(f"mode-{mode}/inner")
        open(f"mode-{mode}/file", "w").close()
    except OSError:
        pass
""",
        "a mask that hides everything": """
os.umask(0o777)
for number in range(10):
    os.mkdir(f"hidden-{number}")
    os.close(os.open(f"file-{number}", os.O_CREAT | os.O_WRONLY))
""",
        "a folder in which nobody can count": """
os.mkdir("dark", 0o300)
os.chdir("dark")
for number in range(100_000):
    try:
        os.close(os.open(f"empty-{number}", os.O_CREAT | os.O_WRONLY))
    except OSError:
        os._exit(0)
time.sleep(0.6)
through()
""",
        "names of every kind": """
names = [b"\\xff\\xfe", b"new\\nline", b"-rf", b"*", b" ", "\\u202egnp".encode(), "\\U0001f600".encode() * 60,
         b"\\xed\\xa0\\x80", b"\\x01\\x1b[31m", b"x" * 255, "\\u0130".encode(), b"..x", b"~"]
for name in names:
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    os.mkdir(b"d" + name[:250])
""",
        "pipes, sockets and loops of links": """
os.mkfifo("pipe")
os.symlink("loop", "loop")
os.symlink(".", "self")
os.symlink("/", "root")
os.symlink("../..", "up")
try:
    socket.socket(socket.AF_UNIX).bind("socket")
except OSError:
    pass
""",
        "devices": """
for kind in (0o020000, 0o060000):
    attempt(os.mknod, f"device-{kind}", kind | 0o600, os.makedev(1, 3))
""",
        "hard links to what is outside": """
for path in ("/etc/passwd", "/usr/bin/python3", "/etc/hostname", sys.executable):
    attempt(os.link, path, "link")
""",
        "hard links in great number": """
open("one", "w").close()
try:
    for number in range(70_000):
        os.link("one", f"link-{number}")
except OSError:
    pass
""",
        "flags that keep files": _FLAGS
        + """
open("kept", "w").close()
os.mkdir("folder")
for path in ("kept", "folder", "."):
    for value in (0x10, 0x20):
        try:
            flags(path, value)
        except OSError:
            continue
""",
        "remove or move the working folder": """
here = os.getcwd()
for act in (lambda: os.rmdir(here), lambda: os.rename(here, here + "-moved"), lambda: os.rename(here, "/tmp/moved"),
            lambda: os.symlink("/usr", here + "-link"), lambda: os.mkdir(os.path.join(here, "..", "beside"))):
    attempt(act)
""",
        "swap the working folder's parts for links": """
os.mkdir("part")
for _ in range(2000):
    os.rename("part", "away")
    os.symlink("/usr", "part")
    os.unlink("part")
    os.rename("away", "part")
os.symlink("/usr/lib", "library")
""",
        "write beside the working folder": """
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home", "/usr", "/usr/local", "/py", "/", "/dev",
               sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), ".."):
    attempt(open, f"{folder}/hostile-{os.getpid()}", "w")
    attempt(os.mkdir, f"{folder}/hostile-folder-{os.getpid()}")
    attempt(os.symlink, "x", f"{folder}/hostile-link-{os.getpid()}")
""",
        "change what others own": """
for path in ("/usr", "/usr/bin/python3", sys.executable, os.__file__, "/dev/null", "/dev/zero", "/"):
    for act in (lambda: os.chmod(path, 0o777), lambda: os.chown(path, 65533, 65533), lambda: os.utime(path, (1, 1)),
                lambda: os.setxattr(path, "user.x", b"y"), lambda: os.truncate(path, 0),
                lambda: os.rename(path, path + "2"), lambda: os.unlink(path) if path != "/" else checked(-1)):
        attempt(act)
""",
        "make the fence writable again": """
for path in (b"/", b"/usr", b"/py", b"/dev", b"/job"):
    attempt(lambda: checked(libc.mount(b"none", path, None, 32, None)))
    attempt(lambda: checked(libc.mount(b"none", path, b"tmpfs", 0, b"size=1g")))
    attempt(lambda: checked(libc.umount2(path, 2)))
    attempt(call, "mount_setattr", -100, path, 0, ctypes.create_string_buffer(32), 32)
""",
        "programs with the owner's rights": """
import shutil
try:
    shutil.copyfile("/usr/bin/python3", "python")
except OSError:
    pass
else:
    os.chmod("python", 0o4755) if os.getcwd() == "/job" else attempt(os.chmod, "python", 0o4755)
attempt(os.setuid, 0)
attempt(os.setresuid, 0, 0, 0)
attempt(os.setgroups, [0])
""",
        "ten thousand small files and out": """
try:
    for number in range(9000):
        with open(f"small-{number}", "w") as file:
            file.write("x")
except OSError:
    pass
os._exit(0)
""",
    },
)
