"""Exports cases and takes their goldens, a few processes at a time.

    python -m liveshape.prepare              # every case, into build/exports
    python -m liveshape.prepare kv_ sdpa     # those whose name contains one of these
    python -m liveshape.prepare --targets    # and list the ATen targets over all exports

Exporting is Python on one core; forked workers share the one import of torch.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from liveshape.testing import EXPORTS, Case, collect, fresh, prepare, threads

WORKERS = 2


def prepare_all(cases: Sequence[Case]) -> Iterator[tuple[str, float, str]]:
    """(case name, seconds, '' or the traceback) as cases come ready; fresh ones cost nothing."""
    stale = [case.name for case in cases if not fresh(case)]
    # The slow ones first, lest one of them runs alone at the end.
    stale.sort(key=lambda name: not name.startswith(("llama", "qwen3", "static_cache", "symbols")))
    if len(stale) < 4:
        yield from map(_prepare, stale)
        return
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        yield from pool.imap_unordered(_prepare, stale)


def _prepare(name: str) -> tuple[str, float, str]:
    threads(1)
    start = time.monotonic()
    try:
        prepare(collect()[name])
        return name, time.monotonic() - start, ""
    except Exception:
        return name, time.monotonic() - start, traceback.format_exc(limit=-6)


def targets(folders: Iterable[Path]) -> Counter[str]:
    """How many nodes of each target stand in the graphs, subgraphs included."""
    count: Counter[str] = Counter()
    for folder in folders:
        with zipfile.ZipFile(folder / "model.pt2") as archive:
            member = next(n for n in archive.namelist() if n.endswith("models/model.json"))
            _count(json.loads(archive.read(member)), count)
    return count


def _count(value: object, count: Counter[str]) -> None:
    if isinstance(value, dict):
        if "target" in value and "inputs" in value and "outputs" in value:
            count[value["target"]] += 1
        for child in value.values():
            _count(child, count)
    elif isinstance(value, list):
        for child in value:
            _count(child, count)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="liveshape.prepare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a case's name")
    parser.add_argument("--targets", action="store_true", help="write build/exports/targets.txt")
    args = parser.parse_args(argv)
    chosen = [
        c for c in collect().values() if not args.names or any(n in c.name for n in args.names)
    ]
    failed = 0
    for name, seconds, error in prepare_all(chosen):
        print(f"{name:32} {seconds:6.2f} s{'  FAILED' if error else ''}", flush=True)
        if error:
            failed += 1
            print(error, file=sys.stderr, flush=True)
    if args.targets:
        found = targets(EXPORTS / case.name for case in chosen if fresh(case))
        lines = [f"{count:6} {target}" for target, count in sorted(found.items())]
        (EXPORTS / "targets.txt").write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
