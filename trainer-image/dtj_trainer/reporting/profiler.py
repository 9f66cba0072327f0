"""Profiles on demand: TensorFlow traces of some steps, in the directory that TensorBoard reads."""

from collections.abc import Callable
from functools import partial

from dtj_trainer.ipc.commands import Commands
from dtj_trainer.ipc.reporter import Reporter
from dtj_trainer.reporting.log_directory import LogDirectory

SUBDIRECTORY = "plugins/profile"


class Profiler:
    """A profiler of the steps after step A up to step B, from the settings or requested during the training.

    A trace begins and ends with a call of the compiled function, so it may contain a few more steps.
    """

    def __init__(self, directory: str, steps: tuple[int, int] | None, reporter: Reporter, commands: Commands) -> None:
        self._directory = directory
        self._requested = steps
        self._reporter = reporter
        self._commands = commands
        self._logs: LogDirectory | None = None
        """Where the trace is written that is being made."""

    def before(self, step: int, steps: int) -> None:
        """Start a trace, if one of the next `steps` steps after `step` is its first one."""
        requested, self._commands.profile_wanted = self._commands.profile_wanted, None
        if requested is not None and self._logs is None:
            self._requested = (step, step + requested)
        if self._requested is None or self._logs is not None:
            return
        first, last = self._requested
        if step >= last:
            self._requested = None
        elif step + steps > first:
            self._start()

    def after(self, step: int) -> None:
        """End the trace after its last step."""
        if self._logs is not None and self._requested is not None and step >= self._requested[1]:
            self.close()

    def close(self) -> None:
        """End the trace and write it."""
        if self._logs is None:
            return
        import tensorflow as tf

        self._reporter.phase("save")
        self._try(tf.profiler.experimental.stop)
        self._logs.close()
        if self._requested is not None:
            _print("profile of steps {} to {} lies in {}/{}".format(*self._requested, self._directory, SUBDIRECTORY))
        self._logs = self._requested = None
        self._reporter.phase("train")

    def _start(self) -> None:
        if not self._directory:
            self._requested = None
            _print("a profile has no place to go; set spec.checkpoint.directory, or DTJ_LOG_DIR")
            return
        import tensorflow as tf

        self._logs = LogDirectory(self._directory)
        if not self._try(partial(tf.profiler.experimental.start, str(self._logs.path))):
            self._logs = self._requested = None

    def _try(self, call: Callable[[], None]) -> bool:
        """Call TensorFlow's profiler; return False if it fails, which does not stop the training."""
        import tensorflow as tf

        try:
            call()
        except tf.errors.OpError as error:
            self._requested = None
            _print(f"no profile: {error.message}")
            return False
        return True


def _print(sentence: str) -> None:
    print(f"dtj: {sentence}", flush=True)  # noqa: T201 - the console line is for people
