"""`dtj-operator`: run, crd."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from dtj_operator import operator_version
from dtj_operator.app.log_format import set_up
from dtj_operator.app.settings import SettingsProblem, parser, settings_from
from dtj_operator.kube.serializer import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dtj_operator.app.settings import Settings

logger = logging.getLogger(__name__)

FAILED = 1
MISUSED = 2
COLLECT_AFTER = (5_000, 10, 10)
"""Objects, and collections of the younger generations: requests come and go in tens of thousands, and looking for
cycles among them every 700 objects took 7 % of the processor time."""
LONGEST_START_SECONDS = 20.0
"""Without any collection."""
CALLS = 2_000
"""Within each other, beside the levels of the JSON that is read."""
STACK_BYTES = 16 * 1024 * 1024
"""Of each thread, kopf's among them: JSON at its deepest takes 2 MiB of it (measured)."""
HANDOVER_SECONDS = 0.0005
"""Until a thread that computes lets another go on, by default 5 ms. kopf's reads each status that was written here just
when the deletion or creation that follows is to be sent."""
LOST = "leadership was lost; another operator takes over"
LOST_GRACE_SECONDS = 1.0
"""After leadership is lost: time for the last log lines, not for any more writes."""


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Exit code 0 on SIGTERM and SIGINT; otherwise the last line on stderr says why."""
    environment = os.environ if environment is None else environment
    try:
        options = parser().parse_args(arguments)
        if options.version:
            print(operator_version())  # noqa: T201
            return 0
        if options.command == "crd":
            return _print_crd()
        if options.command != "run":
            parser().print_help(sys.stderr)
            return _say("say what to do: dtj-operator run, or dtj-operator crd", MISUSED)
        settings = settings_from(options, environment)
    except SettingsProblem as problem:
        return _say(str(problem), MISUSED)
    return _run(settings, environment)


def _print_crd() -> int:
    from dtj_operator.api.crd import crd_yaml  # noqa: PLC0415  (the operator itself never needs the generator)

    sys.stdout.write(crd_yaml())
    return 0


def _run(settings: Settings, environment: Mapping[str, str]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        # While the parts are imported: as process 1 of a container it would not even be ended.
        signal.signal(number, lambda *_: sys.exit(0))
    _prepare_python()
    from dtj_operator.app.manager import LeadershipLost, Operator  # noqa: PLC0415
    from dtj_operator.app.preflight import (  # noqa: PLC0415  (this takes its time; --help should not)
        RestartNeeded,
        Unprepared,
    )
    from dtj_operator.controller.leader_election import LeaderElectionError  # noqa: PLC0415
    from dtj_operator.kube.errors import KubeError  # noqa: PLC0415
    from dtj_operator.kube.kubeconfig import load_config  # noqa: PLC0415
    from dtj_operator.kube.rest_config import ConfigError  # noqa: PLC0415

    set_up(settings.log_format, settings.log_level)

    async def operate() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        rest_config = load_config(settings.kubeconfig, environment)
        operator = Operator(settings, rest_config, lost=_leave)
        collecting = asyncio.create_task(_collect_after(operator.ready))
        await operator.run(stop)
        collecting.cancel()

    try:
        asyncio.run(operate())
    except (ConfigError, SettingsProblem, Unprepared) as problem:
        return _say(str(problem), FAILED)
    except LeadershipLost:
        return _say(LOST, FAILED)
    except (LeaderElectionError, RestartNeeded, KubeError) as problem:
        return _say(str(problem), FAILED)
    return 0


def _prepare_python() -> None:
    """Before there is anything to collect, and before there are threads."""
    gc.disable()
    sys.setswitchinterval(HANDOVER_SECONDS)
    # Python's own 1,000 would let a single job, nested more deeply than that, end the operator of all others.
    sys.setrecursionlimit(MAX_DEPTH + CALLS)
    threading.stack_size(STACK_BYTES)


async def _collect_after(known: asyncio.Event) -> None:
    """Garbage is collected once everything is loaded and listed: what is there by then mostly stays, and to look
    through it again and again takes a tenth of the start.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(known.wait(), LONGEST_START_SECONDS)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


def _say(sentence: str, code: int) -> int:
    """The last line on stderr, and the exit code."""
    print(f"dtj-operator: {' '.join(sentence.split())}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def _leave() -> None:
    """Leadership is lost: end the process soon, even if something hangs on the way out."""
    logger.error("leadership lost: ending", extra={"grace_seconds": LOST_GRACE_SECONDS})

    def end() -> None:
        os._exit(_say(LOST, FAILED))

    timer = threading.Timer(LOST_GRACE_SECONDS, end)
    timer.daemon = True
    timer.start()
