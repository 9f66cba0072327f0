"""The file `checkpoint`: lists the visible checkpoints of a folder, as tf.train.CheckpointManager writes it."""

import re
from collections.abc import Sequence
from pathlib import Path

from dtj_trainer.storage.folder import Folder

NAME = "checkpoint"
_STEP = re.compile(r"^ckpt-(\d+)$")
_LISTED = re.compile(r'^(?:all_)?model_checkpoint_paths?: "([^"]+)"$', re.MULTILINE)
_SHARD = re.compile(r"\.data-\d{5}-of-(\d{5})$")


def text(names: Sequence[str]) -> str:
    """Return the text of the file for these checkpoints, the newest first."""
    lines = [f'model_checkpoint_path: "{names[0]}"', *(f'all_model_checkpoint_paths: "{n}"' for n in reversed(names))]
    return "\n".join(lines) + "\n"


def read(folder: Folder) -> list[str] | None:
    """Return the names that the file lists, the newest first; None if there is no file."""
    try:
        found = folder.read(NAME)
    except UnicodeDecodeError:
        found = ""
    if found is None:
        return None
    return list(dict.fromkeys(Path(path).name for path in _newest_first(_LISTED.findall(found))))


def step_of(name: str) -> int | None:
    """Return the step of a checkpoint; None for a name that is not ours."""
    match = _STEP.match(name)
    return int(match[1]) if match else None


def is_complete(name: str, files: Sequence[str]) -> bool:
    """Return whether the index and all data files of a checkpoint are among `files`."""
    shards = [match for file in files if file.startswith(f"{name}.data-") and (match := _SHARD.search(file))]
    return f"{name}.index" in files and bool(shards) and len(shards) == int(shards[0][1])


def candidates(listed: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return the checkpoints to resume from, the best first.

    After those that the file lists come complete ones that it does not list, because the file is broken. A newer one
    than the first listed is not among them: it was never visible.
    """
    newest = step_of(listed[0]) if listed else None
    steps = {step for file in files if file.endswith(".index") and (step := step_of(file.removesuffix(".index")))}
    others = [f"ckpt-{step}" for step in sorted(steps, reverse=True) if newest is None or step < newest]
    return [*listed, *(name for name in others if name not in listed and (not listed or is_complete(name, files)))]


def _newest_first(paths: Sequence[str]) -> list[str]:
    """Return the paths of the file, which has the newest first and then all, the oldest first."""
    return [*paths[:1], *reversed(paths[1:])]
