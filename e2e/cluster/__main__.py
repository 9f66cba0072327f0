"""The command: `python -m e2e.cluster up|down|status|kubeconfig|load|kubectl`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from e2e.cluster import binaries, embedded, parallel_build, providers, record
from e2e.cluster.interface import Cluster, ClusterError

DEFAULTS = {"name": "dtj", "provider": "embedded", "kubeconfig": None}


def main(words: list[str] | None = None) -> int:
    """Carry out one command; prints a sentence and returns 1 where it cannot."""
    words = sys.argv[1:] if words is None else words
    before, kubectl, after = _split_kubectl(words)
    options = argparse.Namespace(**DEFAULTS)
    _parser().parse_args([*before, *kubectl], options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(_carry_out(options, after))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; what was started has been taken away.", file=sys.stderr)
        return 130


def _carry_out(options: argparse.Namespace, kubectl_words: list[str]) -> int:
    match options.command:
        case "up":
            providers.require(options.provider)
            if options.provider == "existing" and options.images:
                raise ClusterError("--images loads them into a cluster on this machine: leave it out, and push both.")
            archives = (
                parallel_build.build_images_beside(*providers.programs(options.provider)).archives
                if options.images
                else {}
            )
            providers.up(
                options.provider,
                options.name,
                nodes=options.nodes,
                port=options.port,
                kubeconfig=options.kubeconfig,
                images=archives,
            )
        case "down":
            _down(options)
        case "status":
            return _status(options)
        case "kubeconfig":
            print(_attached(options).kubeconfig)
        case "load":
            _attached(options).load_image(options.archive, options.ref)
        case "build":
            programs = options.programs or _default_programs(options.provider)
            if options.images:
                parallel_build.build_images_beside(*programs)
            binaries.ensure(*programs)
        case "kubectl":
            config = _attached(options).kubeconfig
            program = str(binaries.path("kubectl"))
            os.execv(program, [program, f"--kubeconfig={config}", *kubectl_words])  # noqa: S606
    return 0


def _default_programs(provider: str) -> tuple[str, ...]:
    """Return the programs that all tests on this provider need."""
    return (*providers.programs("kind"), "helm") if provider == "kind" else binaries.TESTS


def _attached(options: argparse.Namespace) -> Cluster:
    return providers.attach(options.provider, options.name, kubeconfig=options.kubeconfig)


def _down(options: argparse.Namespace) -> None:
    if options.provider != "embedded":
        _attached(options).down()
        return
    names = record.recorded_clusters() if options.all else [options.name]
    for name in names:
        embedded.down(name)


def _status(options: argparse.Namespace) -> int:
    cluster = _attached(options)
    problems = providers.problems(cluster)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"Cluster {cluster.name} runs with {len(cluster.nodes)} nodes: export KUBECONFIG={cluster.kubeconfig}")
    return 1 if problems else 0


def _split_kubectl(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Split off the arguments after the command `kubectl`, which is also the name of a program to build."""
    if "kubectl" not in words or "build" in words[: words.index("kubectl")]:
        return words, [], []
    at = words.index("kubectl")
    return words[:at], ["kubectl"], words[at + 1 :]


def _port(word: str) -> int:
    if not word.isdecimal() or int(word) > 65535:
        raise argparse.ArgumentTypeError(f"{word} is no port: choose 1 to 65535, or leave it out to get a free one")
    return int(word)


def _parser() -> argparse.ArgumentParser:
    """Return the parser; common options are accepted before and after the command."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--name", help="name of the cluster (default: dtj)")
    common.add_argument("--provider", choices=providers.PROVIDERS, help="default: embedded")
    common.add_argument("--kubeconfig", type=Path, help="with --provider existing: the file to use")
    parser = argparse.ArgumentParser(
        prog="python -m e2e.cluster", description="A real Kubernetes cluster for tests.", parents=[common]
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(word: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(word, help=purpose, description=purpose, parents=[common])

    up = command("up", "start it, or use the running one")
    up.add_argument("--nodes", type=int, default=2, help="number of nodes (default: 2)")
    up.add_argument("--port", type=_port, default=0, help="loopback port of the API server (default: a free one)")
    up.add_argument("--images", action="store_true", help="build the operator's and the trainer's image and load both")
    down = command("down", "remove it, whatever state it is in")
    down.add_argument("--all", action="store_true", help="every embedded cluster of this machine")
    command("status", "tell whether all of it runs")
    command("kubeconfig", "print the path of its kubeconfig")
    load = command("load", "load an image archive into every node")
    load.add_argument("archive", type=Path)
    load.add_argument("ref", help="the name that pods use")
    build = command("build", "build the programs ahead of time")
    build.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: those of all tests")
    build.add_argument("--images", action="store_true", help="and the operator's and the trainer's image")
    commands.add_parser("kubectl", help="run kubectl against it", add_help=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
