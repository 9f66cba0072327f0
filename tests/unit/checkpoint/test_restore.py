"""Which checkpoint is restored where no other process decides."""

from pathlib import Path

import pytest

from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.restore import restore_newest
from dtj_trainer.cluster.environment import read
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy.coordination import CoordinationService


def test_a_process_that_neither_writes_nor_trains_with_others_restores_the_newest_and_renames_nothing(tmp_path: Path):
    import tensorflow as tf

    value = tf.Variable(0)
    for step in (3, 6):
        value.assign(step)
        tf.train.Checkpoint(value=value).write(str(tmp_path / f"ckpt-{step}"))
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-6"\nall_model_checkpoint_paths: "ckpt-3"\nall_model_checkpoint_paths: "ckpt-6"\n'
    )
    before = sorted(tmp_path.iterdir())
    alone = CoordinationService(read({}), 1)
    assert restore_newest(Checkpointer(str(tmp_path), 2, None), alone, {"value": value}, lambda: None)
    assert int(value) == 6
    (tmp_path / "ckpt-6.index").write_bytes(b"")
    assert restore_newest(Checkpointer(str(tmp_path), 2, None), alone, {"value": value}, lambda: None)
    assert int(value) == 3
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "ckpt-3.index").write_bytes(b"")
    with pytest.raises(PreflightFailed, match=r"no checkpoint in .* is whole"):
        restore_newest(Checkpointer(str(tmp_path), 2, None), alone, {"value": value}, lambda: None)
