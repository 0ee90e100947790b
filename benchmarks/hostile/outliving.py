"""Going on after the run has ended, or keeping the run from ending."""

from __future__ import annotations

from benchmarks.hostile import Kind

_STUBBORN = """
def stubborn():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    libc.prctl(1, 0, 0, 0, 0)
    for leave in (os.setsid, lambda: os.setpgid(0, 0), lambda: os.setpgid(0, os.getppid())):
        try:
            leave()
        except OSError:
            pass
"""

KIND = Kind(
    "outliving",
    {
        "ignore everything, leave the session, spin": _STUBBORN
        + """
children(3, lambda number: (stubborn(), exec("while True: pass")))
""",
        "ignore everything and time out": _STUBBORN + "stubborn()\nwhile True: pass",
        "clear the parent-death signal": _STUBBORN
        + """
stubborn()
if os.fork():
    os._exit(0)
stubborn()
time.sleep(60)
""",
        "hold stdout open": _STUBBORN + "children(2, lambda number: (stubborn(), time.sleep(60)))",
        "hold stdout open under other numbers": _STUBBORN
        + """
def hide(number):
    stubborn()
    for other in range(20, 40):
        os.dup2(1, other)
    os.close(0); os.close(1); os.close(2)
    time.sleep(60)
children(3, hide)
""",
        "hide stdout in a message": _STUBBORN
        + """
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b"x"], [1, 2])
children(1, lambda number: (os.close(1), os.close(2), stubborn(), time.sleep(60)))
os.close(1); os.close(2)
""",
        "a message that holds itself": """
ours, theirs = socket.socketpair()
for _ in range(20):
    socket.send_fds(ours, [b"x"], [1, 2, ours.fileno(), theirs.fileno()])
os._exit(0)
""",
        "fork and exit, for ever": """
while True:
    if os.fork():
        os._exit(0)
""",
        "fork bomb": """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        "fork bomb of orphans": """
while True:
    try:
        if os.fork() == 0:
            os.fork()
            os._exit(0)
    except OSError:
        try:
            os.waitpid(-1, os.WNOHANG)
        except OSError:
            pass
""",
        "thread bomb": """
import threading
alive = 1
try:
    while alive < 64:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        alive += 1
except RuntimeError:
    pass
if alive > 8:
    through(alive)
os._exit(0)
""",
        "more processes than allowed": """
alive = 1
try:
    while alive < 64:
        if os.fork() == 0:
            time.sleep(60)
        alive += 1
except OSError:
    pass
if alive > 8:
    through(alive)
""",
        "threads that never end": """
import threading
for _ in range(4):
    threading.Thread(target=time.sleep, args=(60,)).start()
""",
        "an exit handler that never ends": "import atexit\natexit.register(time.sleep, 60)",
        "a destructor that never ends": """
class Slow:
    def __del__(self):
        while True: pass
slow = Slow()
""",
        "a child without an exit signal": """
try:
    child = call("clone", 0, 0, 0, 0, 0)
except OSError:
    child = -1
if child == 0:
    time.sleep(60)
""",
        "a child that borrows the program's memory": """
try:
    child = call("clone", 0x4000 | 17, 0, 0, 0, 0)
except OSError:
    child = -1
if child == 0:
    time.sleep(60)
""",
        "stop for ever": "os.kill(os.getpid(), signal.SIGSTOP)",
        "stopped children": "children(3, lambda number: os.kill(os.getpid(), signal.SIGSTOP))",
        "be the one who reaps": _STUBBORN
        + """
libc.prctl(36, 1, 0, 0, 0)
children(2, lambda number: children(2, lambda inner: (stubborn(), time.sleep(60))))
time.sleep(0.2)
os._exit(0)
""",
        "another program in the background": """
import subprocess
for _ in range(2):
    try:
        subprocess.Popen(["/usr/bin/sleep", "60"], start_new_session=True)
    except OSError:
        pass
""",
        "another program instead": """
try:
    os.execv("/usr/bin/sleep", ["sleep", "60"])
except OSError:
    time.sleep(60)
""",
        "another program through nohup": """
import subprocess
try:
    subprocess.Popen("nohup setsid sleep 60 &", shell=True)
except OSError:
    pass
""",
        "move to another group": """
for group in (1, os.getppid(), os.getpgid(os.getppid()) if os.getppid() else 1):
    try:
        os.setpgid(0, group)
    except OSError:
        continue
    if os.getcwd() != "/job":  # in a process namespace there is no group outside
        through(group)
""",
        "kill everybody": """
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
time.sleep(60)
""",
        "kill the own group": "os.killpg(0, signal.SIGKILL)",
        "kill the parent and go on": _STUBBORN
        + """
stubborn()
for pid in others():
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
time.sleep(60)
""",
        "processor time shared among children": """
children(6, lambda number: exec("while True: pass"))
while True: pass
""",
        "an endless regular expression": "import re\nre.match('(a+)+b', 'a' * 60)",
        "an uninterruptible allocation": "10 ** (10 ** 8) % 7",
        "raise the own limits": """
import resource
for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE,
             resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    for value in (resource.RLIM_INFINITY, resource.getrlimit(kind)[1] + 1):
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError, OverflowError):
            continue
        through(kind)
""",
    },
)
