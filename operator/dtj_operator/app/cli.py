"""`dtj-operator`: run, crd."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from dtj_operator import operator_version
from dtj_operator.app import interpreter
from dtj_operator.app.log_format import set_up
from dtj_operator.app.settings import SettingsError, parser, settings_from

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dtj_operator.app.settings import Settings

logger = logging.getLogger(__name__)

FAILED = 1
MISUSED = 2
LOST = "leadership was lost; another operator takes over"
LOST_GRACE_SECONDS = 1.0
"""After leadership is lost: time for the last log lines, not for any more writes."""


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run the command line. Returns 0 on SIGTERM and SIGINT; otherwise the last line on stderr says why."""
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
    except SettingsError as error:
        return _say(str(error), MISUSED)
    return _run(settings, environment)


def _print_crd() -> int:
    from dtj_operator.api.crd import crd_yaml  # noqa: PLC0415  (the operator itself never needs the generator)

    sys.stdout.write(crd_yaml())
    return 0


def _run(settings: Settings, environment: Mapping[str, str]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        # While the parts are imported: as process 1 of a container it would not even be ended.
        signal.signal(number, lambda *_: sys.exit(0))
    interpreter.prepare()
    from dtj_operator.app import kopf_app  # noqa: PLC0415  (this takes its time; --help should not)
    from dtj_operator.app.manager import Manager  # noqa: PLC0415
    from dtj_operator.app.preflight import PreflightError  # noqa: PLC0415
    from dtj_operator.app.runnables import LeadershipLost, RestartNeeded  # noqa: PLC0415
    from dtj_operator.controller.leader_election import LeaderElectionError  # noqa: PLC0415
    from dtj_operator.kube.errors import KubeError  # noqa: PLC0415
    from dtj_operator.kube.kubeconfig import load_config  # noqa: PLC0415
    from dtj_operator.kube.rest_config import ConfigError  # noqa: PLC0415

    set_up(settings.log_format, settings.log_level)

    async def operate() -> None:
        manager = Manager(settings, load_config(settings.kubeconfig, environment), lost=_leave)
        collecting = asyncio.create_task(interpreter.collect_when(manager.ready))
        await kopf_app.run(manager)
        collecting.cancel()

    try:
        asyncio.run(operate())
    except LeadershipLost:
        return _say(LOST, FAILED)
    except (ConfigError, SettingsError, PreflightError, LeaderElectionError, RestartNeeded, KubeError) as error:
        return _say(str(error), FAILED)
    return 0


def _say(sentence: str, code: int) -> int:
    """Print the last line on stderr, and return the exit code."""
    print(f"dtj-operator: {' '.join(sentence.split())}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def _leave() -> None:
    """End the process soon because leadership is lost, even if something hangs during shutdown."""
    logger.error("leadership lost: ending", extra={"grace_seconds": LOST_GRACE_SECONDS})

    def end() -> None:
        os._exit(_say(LOST, FAILED))

    timer = threading.Timer(LOST_GRACE_SECONDS, end)
    timer.daemon = True
    timer.start()
