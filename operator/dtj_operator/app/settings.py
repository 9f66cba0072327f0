"""The settings, from flags or the environment; a flag takes precedence."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "DTJ_OPERATOR_"
TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})
LARGEST_PORT = 65535
NAMESPACE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
OBJECT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LEASE_NAME = "dtj-operator"


class SettingsError(Exception):
    """A setting that makes no sense; the message is a sentence for the administrator."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on."""

    host: str
    """Empty: every address of the machine, of IPv6 and IPv4."""
    port: int
    """0: the system chooses."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `dtj-operator run`."""

    kubeconfig: str | None = None
    namespaces: tuple[str, ...] = ()
    """Empty: the whole cluster."""
    leader_elect: bool = True
    lease_name: str = LEASE_NAME
    """Of the operators with the same lease in the same namespace, one leads at a time."""
    workers: int = 32
    """The number of jobs that are reconciled at the same time."""
    kube_api_qps: float = 0.0
    """Requests a second; 0 means unlimited."""
    kube_api_burst: int = 100
    metrics: Address | None = Address("", 8080)
    health: Address | None = Address("", 8081)
    progress: bool = True
    network_policy: bool = False
    """Whether each job gets its own network policy."""
    profiles: str = ""
    """The ConfigMap of the profiles, in the operator's namespace; empty: there are none."""
    own_namespace: str = ""
    """The operator's namespace, from POD_NAMESPACE; empty: that of the kubeconfig."""
    log_format: str = "text"
    log_level: str = "info"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. `settings_from` sets the defaults, after the environment."""
    root = _Parser(
        prog="dtj-operator",
        description="Runs DistributedTrainingJobs on Kubernetes.",
        epilog=f"Every flag of run is also an environment variable, for instance {PREFIX}LOG_FORMAT=json.",
    )
    root.add_argument("--version", action="store_true", help="print the version and exit")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    run = commands.add_parser("run", help="run the operator")
    run.add_argument("--kubeconfig", metavar="FILE", help="cluster to work on (default: KUBECONFIG, else in-cluster)")
    run.add_argument(
        "--namespace", metavar="NS", action="append", help="work in this namespace only; repeatable (default: all)"
    )
    run.add_argument("--leader-elect", action=argparse.BooleanOptionalAction, help="be one of several (default: yes)")
    run.add_argument("--lease-name", metavar="NAME", help=f"the lease that is held (default: {LEASE_NAME})")
    run.add_argument("--workers", metavar="N", help="jobs worked on at the same time (default: 32)")
    run.add_argument("--kube-api-qps", metavar="N", help="most requests a second; 0 is no limit (default: 0)")
    run.add_argument("--kube-api-burst", metavar="N", help="requests at once under that limit (default: 100)")
    run.add_argument("--metrics-bind-address", metavar="HOST:PORT", help="default :8080; 0 switches it off")
    run.add_argument("--health-probe-bind-address", metavar="HOST:PORT", help="default :8081; 0 switches it off")
    run.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="ask pods how far they are (default: yes)"
    )
    run.add_argument(
        "--network-policy",
        action=argparse.BooleanOptionalAction,
        help="let nobody but a job's own pods reach its TensorFlow ports (default: no)",
    )
    run.add_argument("--profiles", metavar="NAME", help="ConfigMap of profiles, beside the operator (default: none)")
    run.add_argument("--log-format", metavar="text|json", help="default text")
    run.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error (default: info)")
    commands.add_parser("crd", help="print the CustomResourceDefinition")
    return root


def settings_from(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """Return the settings from flags, then the environment, then defaults. Raises SettingsError."""
    default = Settings()
    flags = vars(arguments)

    def given(name: str) -> str | None:
        flag = flags.get(name.lower())
        return str(flag) if flag is not None else environment.get(PREFIX + name) or None

    def switch(name: str, otherwise: bool) -> bool:  # noqa: FBT001  (a default value)
        text = given(name)
        if text is None:
            return otherwise
        if text.lower() not in TRUE | FALSE:
            msg = f"{PREFIX}{name} is {text!r}: say true or false"
            raise SettingsError(msg)
        return text.lower() in TRUE

    listed = environment.get(PREFIX + "NAMESPACE")
    names: Sequence[str] = flags.get("namespace") or (listed.split(",") if listed else ())
    return Settings(
        kubeconfig=given("KUBECONFIG"),
        namespaces=tuple(dict.fromkeys(_namespace(name.strip()) for name in names)),
        leader_elect=switch("LEADER_ELECT", default.leader_elect),
        lease_name=_object_name("LEASE_NAME", given("LEASE_NAME"), default.lease_name),
        workers=int(_number("WORKERS", given("WORKERS"), default.workers, least=1)),
        kube_api_qps=_number("KUBE_API_QPS", given("KUBE_API_QPS"), default.kube_api_qps, least=0),
        kube_api_burst=int(_number("KUBE_API_BURST", given("KUBE_API_BURST"), default.kube_api_burst, least=1)),
        metrics=_address("METRICS_BIND_ADDRESS", given("METRICS_BIND_ADDRESS"), default.metrics),
        health=_address("HEALTH_PROBE_BIND_ADDRESS", given("HEALTH_PROBE_BIND_ADDRESS"), default.health),
        progress=switch("PROGRESS", default.progress),
        network_policy=switch("NETWORK_POLICY", default.network_policy),
        profiles=_object_name("PROFILES", given("PROFILES"), default.profiles),
        own_namespace=environment.get("POD_NAMESPACE") or default.own_namespace,
        log_format=_word("LOG_FORMAT", given("LOG_FORMAT"), default.log_format, ("text", "json")),
        log_level=_word("LOG_LEVEL", given("LOG_LEVEL"), default.log_level, ("debug", "info", "warning", "error")),
    )


def _flag(name: str) -> str:
    return f"--{name.lower().replace('_', '-')} ({PREFIX}{name})"


def _namespace(name: str) -> str:
    """Return the namespace. Raises SettingsError for an empty one, because no namespace means the whole cluster."""
    if not NAMESPACE_NAME.fullmatch(name):
        msg = f"{_flag('NAMESPACE')} has {name!r} in it: name namespaces, or leave it out for the whole cluster"
        raise SettingsError(msg)
    return name


def _object_name(name: str, text: str | None, otherwise: str) -> str:
    if text is None:
        return otherwise
    if not OBJECT_NAME.fullmatch(text):
        msg = f"{_flag(name)} is {text!r}: give an object's name, of lower case letters, digits, '-' and '.'"
        raise SettingsError(msg)
    return text


def _number(name: str, text: str | None, otherwise: float, *, least: float) -> float:
    if text is None:
        return otherwise
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number >= least or number == float("inf"):
        msg = f"{_flag(name)} is {text!r}: give a number of at least {least}"
        raise SettingsError(msg)
    return number


def _word(name: str, text: str | None, otherwise: str, words: Sequence[str]) -> str:
    if text is None:
        return otherwise
    if text.lower() not in words:
        msg = f"{_flag(name)} is {text!r}: give one of {', '.join(words)}"
        raise SettingsError(msg)
    return text.lower()


def _address(name: str, text: str | None, otherwise: Address | None) -> Address | None:
    if text is None:
        return otherwise
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > LARGEST_PORT:
        msg = f"{_flag(name)} is {text!r}: give HOST:PORT, :PORT, or 0 to switch it off"
        raise SettingsError(msg)
    return Address(host.strip("[]"), int(port))
