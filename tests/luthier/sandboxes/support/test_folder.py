import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from luthier.sandboxes.support import folder, usage
from luthier.sandboxes.support.folder import remove_folder, working_folder

ROOT = Path(__file__).resolve().parents[4]


def test_deeply_nested_folders_are_removed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.mkdir()
    monkeypatch.chdir(victim)
    for _ in range(1200):
        os.mkdir("a")
        os.chdir("a")
    os.symlink("..", "up")
    os.chdir(tmp_path)
    remove_folder(str(victim))
    assert not victim.exists()


def test_what_links_point_to_stays(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("mine")
    victim = tmp_path / "victim"
    (victim / "inner" / "deeper").mkdir(parents=True)
    (victim / "inner" / "deeper" / "kept").symlink_to(tmp_path / "kept")
    (victim / "file").symlink_to(tmp_path / "kept" / "file")
    os.mkfifo(victim / "inner" / "pipe")
    remove_folder(str(victim))
    assert not victim.exists()
    assert (tmp_path / "kept" / "file").read_text() == "mine"


def test_folders_that_nobody_may_enter_are_removed(tmp_path):
    victim = tmp_path / "victim"
    for name in (b"plain", b"\xff\xfe", b"new\nline", b"x" * 255):
        inner = os.path.join(os.fsencode(victim), name, b"inner")
        os.makedirs(inner)
        open(os.path.join(inner, b"file"), "w").close()
        os.chmod(inner, 0)
    os.chmod(victim, 0)
    remove_folder(str(victim))
    assert not victim.exists()


def test_what_cannot_be_removed_is_a_warning(monkeypatch):
    def refused(path):
        raise PermissionError(1, "not permitted", path)

    monkeypatch.setattr(folder, "remove_folder", refused)
    with (
        pytest.warns(RuntimeWarning, match=r"cannot remove .*luthier-sandbox-.*not permitted"),
        working_folder(os.geteuid()) as path,
    ):
        pass
    os.rmdir(path)


def test_a_working_folder_goes_away_with_an_error_too():
    paths = []

    def fail():
        with working_folder(os.geteuid()) as path:
            paths.append(path)
            os.makedirs(os.path.join(path, "a", "b"))
            raise KeyError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError):
            fail()
    assert not os.path.exists(paths[0])


def test_a_folder_is_full_by_bytes_entries_or_depth(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "FOLDER_BYTES", 1 << 20)
    monkeypatch.setattr(usage, "FOLDER_ENTRIES", 10)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_bytes(bytes(1 << 19))
    os.link(tmp_path / "a" / "file", tmp_path / "again")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    assert not usage.folder_is_full([], str(tmp_path))
    with open(tmp_path / "gone", "wb") as gone:
        os.unlink(gone.name)
        gone.write(bytes(3 << 18))
        gone.flush()
        assert not usage.folder_is_full([], str(tmp_path))
        assert usage.folder_is_full([os.getpid()], str(tmp_path))
    for number in range(8):
        (tmp_path / f"entry-{number}").touch()
    assert usage.folder_is_full([], str(tmp_path))


def test_memory_of_this_process_is_seen_and_of_a_dead_one_is_not():
    assert 5 << 20 < usage.memory_of([os.getpid()], enough=1 << 50) < 1 << 40
    assert 5 << 20 < usage.memory_of([os.getpid()], enough=0) < 1 << 40
    assert usage.memory_of([4_000_000], enough=0) == 0


def test_what_a_killed_process_left_behind_is_removed_by_the_next_one(tmp_path):
    """A living process's folder, a link and a folder of nobody known stay."""
    begin = (
        "import os, sys, time\nfrom luthier.sandboxes.support.folder import working_folder\n"
        "with working_folder(os.geteuid()) as path:\n"
        "    open(f'{path}/file', 'w').close()\n    print(path, flush=True)\n    "
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}

    def start(last: str) -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, "-c", f"{begin}{last}\n"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    killed, left = start("os.kill(os.getpid(), 9)")
    killed.wait()
    living, held = start("time.sleep(60)")
    (tmp_path / "luthier-sandbox-1x").mkdir()
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / f"{left.name[:-3]}abc"
    link.symlink_to(tmp_path / "elsewhere")
    try:
        assert not left.exists()  # the living one swept before it made its own
        last, own = start("pass")
        last.wait()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
            ["elsewhere", "luthier-sandbox-1x", link.name, held.name]
        )
        assert not own.exists()
    finally:
        living.kill()
        living.wait()
