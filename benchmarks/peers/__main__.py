"""How this server compares with others for the same purpose: measured side by side, in one run, with the same texts.

uv run benchmarks/peers FOLDER [PEER ...] [--cache DIR] [--json FILE] [--docs]

FOLDER holds Markdown, a megabyte or so: reports of 20,000 characters are made of it. Each of the others is installed
from the package index into a virtual environment of its own, which is kept in the cache folder (4 GB). --docs writes
the table into docs/lab/comparison.md. Linux only: memory is read from /proc.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import environments
from adapters import PEERS, Peer, VectorMemory
from measuring import TOKENS, Measurement
from tables import markdown, write_into_docs
from texts import gather

Report = dict[str, Any]


def environment_of(peer: Peer, cache: Path, python: str | None) -> environments.Environment:
    """Return where a server is installed; ours runs in this environment."""
    if isinstance(peer, VectorMemory):
        return environments.Environment(Path(sys.prefix))
    folder = cache / "environments" / peer.package
    return environments.make(folder, peer.python or python, peer.requirements, torch=peer.torch)


def machine() -> Report:
    """Say what ran the benchmark, and how busy it was with other things before."""
    return {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "processor": platform.machine(),
        "CPUs": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 1),
        "tokens": TOKENS,
    }


def main() -> None:
    """Install and measure, print the table, and write the requested files."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "vector-memory-peers")
    parser.add_argument("--python", help="interpreter for the others, where they do not need a newer one")
    parser.add_argument("--runs", type=int, default=3, help="starts of each server")
    parser.add_argument("--facts", type=int, default=5, help="for each of the three places in a report")
    parser.add_argument("--notes", type=int, default=20)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", action="store_true", help="write docs/lab/comparison.md")
    options = parser.parse_args()
    if unknown := set(options.peers) - set(names):
        parser.error(f"no such server: {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [peer for peer in PEERS if peer.name in (options.peers or names)]
    material = gather(options.folder, options.facts, options.notes)
    models = environments.make_models(options.cache)
    installed = {peer: environment_of(peer, options.cache, options.python) for peer in chosen}
    report: Report = {"machine": machine(), "peers": {}}
    for peer, environment in installed.items():
        scratch = Path(tempfile.mkdtemp(prefix="peers-"))
        figures = Measurement(peer, environment, models, scratch).measure(material, options.runs, options.processes)
        report["peers"][peer.name] = {"version": environment.version(peer.package), **figures}
        print(f"{peer.name}: {json.dumps(report['peers'][peer.name])}", file=sys.stderr)
        shutil.rmtree(scratch)
    text = markdown(report)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    if options.docs:
        write_into_docs(text)


if __name__ == "__main__":
    main()
