"""One piece of work at a time, beside the training."""

import threading
from collections.abc import Callable


class Background:
    """Does one thing after the other in a thread; what one of them raised is raised by the next call."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin `work`, after what is still going on."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name="dtj-save")
        self._thread.start()

    def wait(self) -> None:
        """Return when nothing goes on any more."""
        if self._thread is not None:
            self._thread.join()
            self.look()

    @property
    def busy(self) -> bool:
        """Whether something still goes on."""
        return self._thread is not None and self._thread.is_alive()

    def linger(self, seconds: float) -> None:
        """Return when nothing goes on any more, or after `seconds`."""
        if self._thread is not None:
            self._thread.join(seconds)

    def look(self) -> None:
        """Raise what went wrong, if the work is over; else go on."""
        if self.busy:
            return
        self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised on the training's thread
            self._error = error
