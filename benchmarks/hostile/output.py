"""Writing too much, or in ways that the reader does not expect."""

from __future__ import annotations

from benchmarks.hostile import Kind

KIND = Kind(
    "output",
    {
        "flood stdout": "while True: os.write(1, b'x' * 65536)",
        "flood stderr": "while True: os.write(2, b'x' * 65536)",
        "flood both from many processes": """
children(6, lambda number: exec("while True: os.write(1 + number % 2, b'y' * 65536)"))
while True: os.write(1, b'x' * 65536)
""",
        "escape codes": "os.write(1, b'\\x1b[2J\\x1b]0;title\\x07\\x1b[31m' * 100)",
        "bytes that are no text": "os.write(1, bytes(range(128, 256)) * 100 + b'\\x00\\xff\\xfe\\xed\\xa0\\x80')",
        "one endless line": "while True: sys.stdout.write('\\u202e' * 1000)",
        "change the mode of stdout": """
import fcntl
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
try:
    while True: os.write(1, b'x' * 65536)
except BlockingIOError:
    time.sleep(60)
""",
        "shut stdout down": """
stdout = socket.socket(fileno=os.dup(1))
stdout.shutdown(socket.SHUT_RDWR)
time.sleep(60)
""",
        "speak out of band": """
stdout = socket.socket(fileno=os.dup(1))
for _ in range(20):
    try:
        stdout.send(b"xy", socket.MSG_OOB)
    except OSError:
        break
""",
        "hand descriptors to the reader": """
stdout = socket.socket(fileno=os.dup(1))
for _ in range(200):
    socket.send_fds(stdout, [b"x"], [0, 1, 2] * 20)
""",
        "hand over folders and half a message": """
stdout = socket.socket(fileno=os.dup(1))
folder = os.open(".", os.O_RDONLY)
socket.send_fds(stdout, [b"\\xf0\\x9f"], [folder] * 30)
os._exit(0)
""",
        "read what the reader has": """
stdout = socket.socket(fileno=os.dup(1))
stdout.settimeout(0.2)
try:
    through(stdout.recv(100))
except OSError:
    pass
""",
        "open stdout anew": """
for path in ("/proc/self/fd/1", "/dev/stdout", "/dev/fd/1"):
    attempt(os.open, path, os.O_RDWR)
""",
        "forge the sign that the fence stands": """
for number in range(3, 64):
    try:
        os.write(number, b"123456789")
    except OSError:
        continue
    through(number)
""",
        "find descriptors that were left open": """
for number in list(range(3, 64)) + [64, 100, 255, 256, 1000, 1023]:
    try:
        os.fstat(number)
    except OSError:
        continue
    through(number)
""",
        "close everything and stay": "os.closerange(0, 64)\ntime.sleep(60)",
        "close everything and spin": "os.closerange(0, 64)\nwhile True: pass",
        "an exit code of its own": "os._exit(137)",
        "claim to be out of memory": "os.write(2, b'MemoryError\\n')\nos._exit(1)",
    },
)
