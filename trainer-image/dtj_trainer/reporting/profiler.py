"""Profiles on demand: TensorFlow's own trace of some steps, where TensorBoard looks for it."""

from typing import Any

from dtj_trainer.ipc.commands import Commands
from dtj_trainer.ipc.reporter import Reporter
from dtj_trainer.reporting.log_directory import LogDirectory

HERE = "plugins/profile"


class Profiler:
    """Traces the steps after step A up to step B: those of the settings, and those asked for while it trains.

    It begins and ends where a call of the compiled function does, so that a call is no shorter for it, and a trace may
    hold a few steps more.
    """

    def __init__(self, directory: str, steps: tuple[int, int] | None, reporter: Reporter, commands: Commands) -> None:
        self._directory = directory
        self._wanted = steps
        self._reporter = reporter
        self._commands = commands
        self._logs: LogDirectory | None = None
        """Where a trace goes that is being made."""

    def before(self, step: int, steps: int) -> None:
        """`steps` more steps are made after `step`."""
        asked, self._commands.profile_wanted = self._commands.profile_wanted, None
        if asked is not None and self._logs is None:
            self._wanted = (step, step + asked)
        if self._wanted is None or self._logs is not None:
            return
        first, last = self._wanted
        if step >= last:
            self._wanted = None
        elif step + steps > first:
            self._start()

    def after(self, step: int) -> None:
        """All steps up to `step` are made."""
        if self._logs is not None and self._wanted is not None and step >= self._wanted[1]:
            self.close()

    def close(self) -> None:
        """Write what is traced."""
        if self._logs is None:
            return
        self._reporter.phase("save")
        self._tried("stop")
        self._logs.close()
        if self._wanted is not None:
            _say("profile of steps {} to {} lies in {}/{}".format(*self._wanted, self._directory, HERE))
        self._logs = self._wanted = None
        self._reporter.phase("train")

    def _start(self) -> None:
        if not self._directory:
            self._wanted = None
            _say("a profile has no place to go; set spec.checkpoint.directory, or DTJ_LOG_DIR")
            return
        self._logs = LogDirectory(self._directory)
        if not self._tried("start", str(self._logs.path)):
            self._logs = self._wanted = None

    def _tried(self, what: str, *arguments: Any) -> bool:
        """A profile that cannot be had is no reason to stop a training."""
        import tensorflow as tf

        try:
            getattr(tf.profiler.experimental, what)(*arguments)
        except tf.errors.OpError as error:
            self._wanted = None
            _say(f"no profile: {error.message}")
            return False
        return True


def _say(sentence: str) -> None:
    print(f"dtj: {sentence}", flush=True)  # noqa: T201 - the console line is for people
