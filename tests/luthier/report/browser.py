"""A headless Chromium driven over a pipe (DevTools protocol): real key presses, no driver package, no network."""

import json
import os
import shutil
import subprocess

BINARY = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""),
    "/": ("Slash", 191, "/"),
}


class Browser:
    """One page in one process; `width` in pixels."""

    def __init__(self, profile, width=1280, height=900):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = (
            f'exec "{BINARY}" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run '
            f'--user-data-dir="{profile}" --window-size={width},{height} --remote-debugging-pipe about:blank '
            f"3<&{to_read} 4>&{to_write}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest = 0, b""
        self.events = []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def close(self):
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._write)
        os.close(self._read)

    def open(self, address):
        self.send("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, script):
        """Value of an expression in the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition):
        for _ in range(200):
            if self.run(condition):
                return
            self.run("new Promise((done) => setTimeout(done, 20))")
        raise AssertionError(f"never true: {condition}")

    def press(self, *names):
        """Press keys one after the other; a name that is no key is typed."""
        for name in names:
            if name.removeprefix("Shift+") not in KEYS:
                self.send("Input.insertText", text=name)
                continue
            shift, key = name.startswith("Shift+"), name.removeprefix("Shift+")
            code, number, text = KEYS[key]
            common = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
            self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def send(self, method, **arguments):
        return self._call(method, self._session, **arguments)

    def _call(self, method, session=None, **arguments):
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self._rest:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has gone"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
