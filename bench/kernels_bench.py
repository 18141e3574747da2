"""Our kernels beside torch's: two processes take turns, ratios are of medians and of minima.

    make bench                                       # this and the others
    python bench/kernels_bench.py                    # one thread, then two: some 5 minutes
    python bench/kernels_bench.py --common           # what most models spend their time on
    python bench/kernels_bench.py --only softmax --threads 1 --pairs 50

Every row is a module of kernel_cases.py, exported once with a dynamic first dim and run through the
C library, as a user would. torch runs the same module in inference mode; convolutions in both
memory formats, of which the faster counts. A ratio above 1 means that we are slower. Nothing here
is an assertion: machines differ, and this one may be shared.

"between": the median of the turns' own ratios lies there with 95 % probability, whatever the noise
is distributed like. "slower" and "faster" are said where that leaves no doubt. Of some hundred rows
that are even, a few seem slower by chance, or since something else ran just then: those that do are
measured once more at the end, with three times the turns, and that counts. --json keeps both.
--itself: a second process of ours in torch's place. What differs then is the machine's doing: as
many rows may seem slower or faster beside torch without being so.

Each side is a process of its own (kernel_worker.py), stopped by a signal while the other has its
turn: threads of torch's OpenMP spin for a while after their work, on the cores that the other side
needs.
--cpu-time: one thread, timed by the processor time it got, for a machine that others use as well.
--artifacts DIR: compiled models are kept there and found again, for a machine that only measures.
"""

import argparse
import atexit
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch
from kernel_cases import CASES, COMMON, Apply

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))

BATCH = torch.export.Dim("N", min=1, max=1 << 20)
TURN_SECONDS = 10e-3  # after a stop caches and threads are cold: a turn is many calls


def compile_case(module, example, folder):
    if (folder / "model.live").exists():
        return folder / "model.live"
    shapes = tuple({0: BATCH} for _ in example)
    if isinstance(module, Apply):
        shapes = (shapes,)
    from liveshape.save import save

    ep = torch.export.export(module, tuple(example), dynamic_shapes=shapes)
    save(ep, folder / "model.pt2")
    subprocess.run(
        [CLI, "compile", folder / "model.pt2", "-o", folder / "model.live"],
        check=True,
        capture_output=True,
    )
    return folder / "model.live"


class Worker:
    """A stopped process that runs only while it answers."""

    def __init__(self, side, threads, options):
        worker = Path(__file__).with_name("kernel_worker.py")
        self.process = subprocess.Popen(
            [sys.executable, worker, side, str(threads), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.process.kill)  # a stopped process would outlive an error here

    def ask(self, request):
        self.process.send_signal(signal.SIGCONT)
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended on {request}")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def seconds(self, way, repeats):
        return self.ask({"time": way, "repeats": repeats})["seconds"]

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def interval(ratios):
    """Order statistics that have the median between them with a probability of 95 %."""
    ratios, n = sorted(ratios), len(ratios)
    below, k = 0.0, 0
    while (below := below + math.comb(n, k) / 2**n) <= 0.025:
        k += 1
    k = max(k, 1)
    return ratios[k - 1], ratios[n - k]


def measure(ours, theirs, index, n, live, pairs):
    request = {"prepare": [index, n], "live": str(live)}
    calls = [
        (worker, way) for worker in (ours, theirs) for way in range(worker.ask(request)["ways"])
    ]
    repeats = [max(1, int(TURN_SECONDS / max(w.seconds(way, 3), 1e-7))) for w, way in calls]
    times = [
        [w.seconds(way, r) for (w, way), r in zip(calls, repeats, strict=True)]
        for _ in range(pairs)
    ]
    mine, *others = zip(*times, strict=True)
    torch_best = min(others, key=statistics.median)
    middle, other = statistics.median(mine), statistics.median(torch_best)
    low, high = interval([a / b for a, b in zip(mine, torch_best, strict=True)])
    return {
        "us": middle * 1e6,
        "torch_us": other * 1e6,
        "ratio": middle / other,
        "ratio_of_minima": min(mine) / min(torch_best),
        "low": low,
        "high": high,
    }


def verdict(row):
    return "slower" if row["low"] > 1 else "faster" if row["high"] < 1 else "even"


def show(row):
    print(
        f"{row['case']:42} {row['n']:5} {row['kb']:8.0f} {row['threads']:7} {row['us']:10.1f} "
        f"{row['torch_us']:12.1f} {row['ratio']:6.2f} {row['ratio_of_minima']:9.2f} "
        f"{row['low']:5.2f} {row['high']:5.2f} {verdict(row)}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--common", action="store_true", help="a quarter of the cases")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--itself", action="store_true", help="ours beside ours: the noise")
    parser.add_argument("--artifacts", type=Path, help="where compiled models are kept")
    parser.add_argument("--json", help="write the rows to this file")
    args = parser.parse_args()
    options = ["--cpu-time"] if args.cpu_time else []
    if args.cpu_time:
        args.threads = [1]
    peer = "liveshape" if args.itself else "torch"
    sides = {
        t: tuple(Worker(side, t, options) for side in ("liveshape", peer)) for t in args.threads
    }
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, {args.pairs} turns each")
    print(
        f"{'case':42} {'n':>5} {'KB read':>8} {'threads':>7} {'us':>10} {peer + ' us':>12} "
        f"{'ratio':>6} {'of minima':>9} {'between':>11}"
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        artifacts = args.artifacts or Path(folder)
        for index, (name, module, make, sizes) in enumerate(CASES):
            if args.only not in name or (args.common and index >= len(COMMON)):
                continue
            kept = artifacts / str(index)
            kept.mkdir(parents=True, exist_ok=True)
            live = compile_case(module.eval(), make(3), kept)
            for threads, (ours, theirs) in sides.items():
                for n in sizes:
                    read = [*make(n), *module.parameters()]
                    kb = sum(t.numel() * t.element_size() for t in read) / 1024
                    row = {"case": name, "index": index, "n": n, "kb": kb, "threads": threads}
                    found.append(row | measure(ours, theirs, index, n, live, args.pairs))
                    show(found[-1])
        doubted = [row for row in found if verdict(row) == "slower"]
        if doubted:
            print("measured once more:")
        for row in doubted:
            live = artifacts / str(row["index"]) / "model.live"
            again = measure(*sides[row["threads"]], row["index"], row["n"], live, 3 * args.pairs)
            row["first"] = {key: row[key] for key in again}
            row |= again
            show(row)
    for pair in sides.values():
        for worker in pair:
            worker.close()
    for threads in args.threads:
        rows = [row for row in found if row["threads"] == threads and row["kb"] > 64]
        said = Counter(verdict(row) for row in rows)
        print(
            f"{threads} threads: {len(rows)} rows above 64 KB, we are slower in {said['slower']}, "
            f"even in {said['even']}, faster in {said['faster']}"
        )
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
