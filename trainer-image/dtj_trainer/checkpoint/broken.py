"""Broken checkpoints: a short or empty file, a missing one, or other bytes than were written."""

import os
from collections.abc import Collection, Mapping, Sequence

from dtj_trainer.checkpoint import index_file
from dtj_trainer.errors import first_line
from dtj_trainer.storage.folder import Folder, write_text

SET_ASIDE = "broken-"
"""What the names of broken checkpoints begin with, once they are set aside."""


class BrokenCheckpoint(Exception):
    """A checkpoint that cannot be read as a whole; the text says why."""


def defect(prefix: str, transient_errors: Collection[int]) -> str:
    """Return why a checkpoint cannot be read as a whole; empty if it can, or if its volume fails at the moment."""
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(prefix)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (IndexError, RuntimeError, ValueError, tf.errors.OpError) as error:
        why = first_line(error)
        return "" if any(os.strerror(number) in why for number in transient_errors) else why
    return ""


def set_aside(folder: Folder, broken: Mapping[str, str], whole: Sequence[str]) -> None:
    """Rename broken checkpoints, so that they do not count any more, and list the `whole` ones, the newest first.

    `broken` says why. Each is named once in the log.
    """
    files = folder.names()
    for name, why in broken.items():
        print(  # noqa: T201 - the console line
            f"dtj: the checkpoint {folder.name}/{name} is broken ({why}); it is set aside as {SET_ASIDE}{name}, and "
            f"training continues from {whole[0]}",
            flush=True,
        )
        for file in (each for each in files if each.startswith(f"{name}.")):
            folder.rename(file, f"{SET_ASIDE}{file}")
    write_text(folder, index_file.NAME, index_file.text(whole))
