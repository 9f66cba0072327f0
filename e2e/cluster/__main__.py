"""The command: `python -m e2e.cluster up|down|status|kubeconfig|load|kubectl`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from e2e.cluster import binaries, providers, record
from e2e.cluster.interface import ClusterError


def main(words: list[str] | None = None) -> int:
    """Carry out one command; 1 and a sentence where it cannot."""
    words = sys.argv[1:] if words is None else words
    before, kubectl, after = _split_kubectl(words)
    options = _parser().parse_args([*before, *kubectl])
    try:
        return int(_carry_out(options, after))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; what was begun has been taken away.", file=sys.stderr)
        return 130


def _carry_out(options: argparse.Namespace, kubectl_words: list[str]) -> int:
    match options.command:
        case "up":
            providers.up(
                options.provider, options.name, nodes=options.nodes, port=options.port, kubeconfig=options.kubeconfig
            )
        case "down":
            providers.attach(options.provider, options.name).down() if options.provider != "embedded" else _down(
                options
            )
        case "status":
            return _status(options)
        case "kubeconfig":
            print(providers.attach(options.provider, options.name).kubeconfig)
        case "load":
            providers.attach(options.provider, options.name).load_image(options.archive, options.ref)
        case "build":
            binaries.ensure(*(options.programs or binaries.PROGRAMS))
        case "kubectl":
            config = providers.attach(options.provider, options.name).kubeconfig
            program = str(binaries.path("kubectl"))
            os.execv(program, [program, f"--kubeconfig={config}", *kubectl_words])  # noqa: S606
    return 0


def _down(options: argparse.Namespace) -> None:
    from e2e.cluster import embedded  # noqa: PLC0415

    names = record.begun() if options.all else [options.name]
    for name in names:
        embedded.down(name)


def _status(options: argparse.Namespace) -> int:
    cluster = providers.attach(options.provider, options.name)
    problems = providers.problems(cluster)
    for problem in problems:
        print(problem)
    if not problems:
        print(f"Cluster {cluster.name} runs with {len(cluster.nodes)} nodes: export KUBECONFIG={cluster.kubeconfig}")
    return 1 if problems else 0


def _split_kubectl(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Everything behind the word kubectl is kubectl's."""
    if "kubectl" not in words:
        return words, [], []
    at = words.index("kubectl")
    return words[:at], ["kubectl"], words[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description="A real Kubernetes cluster for tests.")
    parser.add_argument("--name", default="dtj", help="name of the cluster (default: dtj)")
    parser.add_argument("--provider", choices=providers.PROVIDERS, default="embedded")
    parser.add_argument("--kubeconfig", type=Path, help="with --provider existing: the file to use")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start it, or find it running")
    up.add_argument("--nodes", type=int, default=2, help="number of nodes (default: 2)")
    up.add_argument("--port", type=int, default=0, help="loopback port of the API server (default: a free one)")
    down = commands.add_parser("down", help="take it away")
    down.add_argument("--all", action="store_true", help="every embedded cluster of this machine")
    commands.add_parser("status", help="say whether all of it runs")
    commands.add_parser("kubeconfig", help="print the path of its kubeconfig")
    load = commands.add_parser("load", help="load an image archive into every node")
    load.add_argument("archive", type=Path)
    load.add_argument("ref", help="the name that pods use")
    build = commands.add_parser("build", help="build the programs ahead of time")
    build.add_argument("programs", nargs="*", choices=[[], *binaries.PROGRAMS], metavar="PROGRAM")
    commands.add_parser("kubectl", help="run kubectl against it", add_help=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
