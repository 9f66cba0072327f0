"""`dtj-run checkpoint` and `dtj-run profile`: what a person asks of the supervisor of the pod, by `kubectl exec`.

The request is signed with the UID in the container's environment.
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final, NoReturn

from dtj_trainer.cluster import environment as task_environment
from dtj_trainer.contract import EXIT_USAGE, PORT, SIGNATURE_HEADER
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.http.auth import Authenticator
from dtj_trainer.supervisor.http.peer_client import words_of

CALL_SECONDS: Final = 5.0
_DONE: Final = {
    "checkpoint": "a checkpoint is being saved by all replicas",
    "profile": "the profile begins at the next step of this pod",
}
_REFUSED: Final = {
    HTTPStatus.FORBIDDEN: "refused the signature; run this in the container that trains, with its environment",
    HTTPStatus.TOO_MANY_REQUESTS: "was asked for a checkpoint less than a minute ago; ask again later",
    HTTPStatus.BAD_REQUEST: "refused the number of steps; give 1 to 1000",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PreflightFailed(f"{message}; usage: {self.usage}")


def run(words: Sequence[str], variables: Mapping[str, str] = os.environ) -> int:
    """Send the command; returns the exit code: 0 where the supervisor has accepted it, 2 for wrong words, else 1."""
    command = words[0]
    try:
        path, port = _parse(words, variables)
        environment = task_environment.read(variables)
        auth = Authenticator(environment.uid, environment.task, ())
    except PreflightFailed as error:
        return _end(str(error), EXIT_USAGE)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)
    try:
        connection.request("POST", path, b"", {SIGNATURE_HEADER: auth.sign_command("POST", path)})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        what = f"nothing answers at port {port} of this pod ({words_of(error)})"
        return _end(f"{what}; run this in a pod that trains, or give --port", 1)
    finally:
        connection.close()
    if status == HTTPStatus.ACCEPTED:
        return _end(_DONE[command], 0)
    known = {int(code): text for code, text in _REFUSED.items()}
    return _end(f"the supervisor of this pod {known.get(status, f'answered {status}; look at its log')}", 1)


def _parse(words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, int]:
    """Return the path to POST to, and the port."""
    command = words[0]
    profiles = command == "profile"
    usage = f"dtj-run {command} [--steps N] [--port PORT]" if profiles else f"dtj-run {command} [--port PORT]"
    parser = _Parser(prog=f"dtj-run {command}", usage=usage)
    given = variables.get("DTJ_PORT", "")
    parser.add_argument("--port", type=int, default=int(given) if given.isdecimal() else PORT, help="its HTTP port")
    if profiles:
        parser.add_argument("--steps", type=int, default=20, help="how many steps to profile")
    options = parser.parse_args(words[1:])
    return (f"/profile?steps={options.steps}" if profiles else "/checkpoint"), options.port


def _end(text: str, code: int) -> int:
    (sys.stderr if code else sys.stdout).write(f"dtj: {text}\n")
    return code
