import re

from luthier.progress import Progress, ProgressBar


class Screen:
    def __init__(self, terminal):
        self.text, self._terminal = "", terminal

    def isatty(self):
        return self._terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_is_one_line_on_a_terminal_and_plain_lines_elsewhere():
    states = [Progress(200, done, cached=10, tokens=done * 5) for done in range(10, 201)]
    clock = iter(range(10_000))
    screen, file = Screen(True), Screen(False)
    for stream in (screen, file):
        bar = ProgressBar("grid", stream, clock=lambda: next(clock))
        for state in states:
            bar(state)
    assert screen.text.count("\n") == 1
    assert screen.text.endswith("████ 200/200 done, 10 cached, 0 failed, 1,000 tokens\n")
    lines = file.text.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "grid: 200/200 done, 10 cached, 0 failed, 1,000 tokens"
    assert "left" in lines[1]
    assert "\r" not in file.text


def test_a_long_wave_is_told_once_a_minute_in_a_file_and_at_once_on_a_terminal():
    """Nothing is done for four minutes but calls are answered every twenty seconds; the clock is read once a state."""
    seconds = [0.0]
    for terminal, told in ((False, [3, 6, 9, 12]), (True, list(range(1, 13)))):
        screen = Screen(terminal)
        bar = ProgressBar("grid", screen, clock=lambda: seconds[0])
        for number in range(13):
            bar(Progress(512, calls=100 * number))
            seconds[0] += 20.0
        shown = [int(calls.replace(",", "")) for calls in re.findall(r"([\d,]+) calls answered", screen.text)]
        assert shown == [100 * number for number in told]
