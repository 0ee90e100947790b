"""A checkpoint's files: in its folder, or out of DVC's cache when another checkpoint has taken that place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from luthier.errors import InputError, StoreError
from luthier.files import digest_folder
from luthier.lineage.checkpoint import Checkpoint

_RESTORED = Path(".cache/restored")


def weights_of(checkpoint: Checkpoint, root: Path) -> Path:
    """A folder with exactly the files of a checkpoint.

    Args:
        checkpoint: Recorded here, the newest or an older one.
        root: The project's folder.

    Returns:
        Its own folder while that still holds it, else a copy under `.cache/restored`, made once out of DVC's cache.

    Raises:
        InputError: neither the folder nor DVC's cache has them.
        StoreError: the disk is full.
    """
    folder = root / checkpoint.path
    if folder.is_dir() and digest_folder(folder) == checkpoint.digest:
        return folder
    restored = root / _RESTORED / checkpoint.digest[:16]
    if restored.is_dir() and digest_folder(restored) == checkpoint.digest:
        return restored
    cached = _cached(checkpoint, root)
    part = restored.with_name(f".{restored.name}.{os.getpid()}")
    try:
        for name, source in cached.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, part / name)
        if digest_folder(part) != checkpoint.digest:
            raise _gone(checkpoint, root, "DVC's cache holds other bytes than were recorded")
        shutil.rmtree(restored, ignore_errors=True)
        os.replace(part, restored)
    except OSError as error:
        raise StoreError(
            f"cannot restore a checkpoint ({error})", where=str(restored), fix="free disk space, then try again"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return restored


def _cached(checkpoint: Checkpoint, root: Path) -> dict[str, Path]:
    """Where DVC's cache keeps each file, by its name in the checkpoint."""
    folder = _cache_folder(root) / "files" / "md5"
    places = {name: folder / md5[:2] / md5[2:] for name, md5 in checkpoint.md5s.items()}
    if not places or set(places) != set(checkpoint.files):
        raise _gone(checkpoint, root, "an old record does not say where DVC keeps them")
    missing = [name for name, place in places.items() if not place.is_file()]
    if missing:
        raise _gone(checkpoint, root, f"DVC's cache lacks {', '.join(missing[:3])}")
    return places


def _cache_folder(root: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "cache", "dir"], cwd=root, capture_output=True, text=True, check=False
    )
    printed = done.stdout.strip().splitlines()
    return root / (printed[-1] if done.returncode == 0 and printed else ".dvc/cache")


def _gone(checkpoint: Checkpoint, root: Path, why: str) -> InputError:
    return InputError(
        f"the files of checkpoint {checkpoint.model_id} are not there: its folder holds another build, and {why}",
        where=str(root / checkpoint.path),
        fix=f"`git checkout {checkpoint.commit[:12]} -- dvc.lock && dvc checkout {checkpoint.path}` (after a"
        f" `dvc fetch` where a remote has them), or `luthier verify {checkpoint.model_id}` to build it again",
    )
