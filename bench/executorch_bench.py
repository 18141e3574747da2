"""Liveshape, XNNPACK and ExecuTorch's own kernels on the same .pt2, each through a .pte.

    make bench                           # this and the others
    python bench/executorch_bench.py     # this alone; make executorch first

minilm      all-MiniLM-L6-v2 with its weights, one sentence, a fresh length from 3 to 256 each call.
qwen3       the tiny Qwen3 with a static cache of 64: one decode step at positions 16 and 48.

Every engine lives in its own process and has THREADS threads: a pool that still spins after its
call must not slow the next engine. Rounds are interleaved; times are of Method.execute in Python,
where all three pay the same for copying outputs. ExecuTorch's own kernels run on one thread and
take seconds for a sentence, so they make a tenth of the calls. A ratio is the median over rounds
of the time for the calls that both engines made.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
MODELS = ROOT / "build" / "bench"
THREADS = int(os.environ.get("THREADS", len(os.sched_getaffinity(0))))
ENGINES = ("liveshape", "xnnpack", "portable")
SOURCES = {"minilm": "minilm", "qwen3": "static_cache_64"}


def partitioners(engine):
    if engine == "liveshape":
        from liveshape.executorch import LiveshapePartitioner

        return [LiveshapePartitioner(threads=THREADS)]
    if engine == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        return [XnnpackPartitioner()]
    return []


def lower(engine, model):
    import torch
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.backend.utils import get_delegates, get_non_lowered_nodes

    source = MODELS / f"{SOURCES[model]}.pt2"
    if not source.exists():
        command = [sys.executable, str(ROOT / "bench" / "models.py"), SOURCES[model]]
        subprocess.run(command, check=True)
    ep = torch.export.load(str(source))
    edge = to_edge_transform_and_lower(ep, partitioner=partitioners(engine))
    graph = edge.exported_program().graph
    edge.to_executorch().save(str(MODELS / f"{model}_{engine}.pte"))
    size = (MODELS / f"{model}_{engine}.pte").stat().st_size / 1e6
    counts = (
        f"{len(get_delegates(graph))} delegates, {len(get_non_lowered_nodes(graph))} other nodes"
    )
    print(f"{model:8} {engine:10} {size:7.1f} MB, {counts}", flush=True)


def calls(model, sizes):
    """(inputs, label) of each call."""
    import torch

    for size in sizes:
        if model == "minilm":
            ids = torch.arange(size)[None] * 37 % 30000
            yield [ids, torch.ones_like(ids)]
        else:
            yield [torch.tensor([[size % 256]]), torch.tensor([size])]


def work(engine, model):
    """A round per line of stdin: sizes in, milliseconds and a checksum out."""
    import torch
    from executorch.extension.pybindings import portable_lib
    from executorch.runtime import Runtime

    if engine == "liveshape":
        import liveshape.executorch  # noqa: F401
    portable_lib._unsafe_reset_threadpool(THREADS)
    method = (
        Runtime.get().load_program(str(MODELS / f"{model}_{engine}.pte")).load_method("forward")
    )
    for line in sys.stdin:
        times, checks = [], []
        for inputs in calls(model, json.loads(line)):
            start = time.perf_counter()
            outputs = method.execute(inputs)
            times.append((time.perf_counter() - start) * 1e3)
            checks.append(torch.sum(outputs[0].abs()).item())
        print(json.dumps([times, checks]), flush=True)


class Worker:
    def __init__(self, engine, model):
        command = [sys.executable, __file__, "--engine", engine, "--model", model]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def round(self, sizes):
        self.process.stdin.write(json.dumps(sizes) + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"{self.process.args} ended")
            if line.startswith("[["):
                return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(model, label, rounds):
    """`rounds`: lists of sizes; the first warms up."""
    workers = {engine: Worker(engine, model) for engine in ENGINES}
    times = {engine: [] for engine in ENGINES}
    for number, sizes in enumerate(rounds):
        checks = {}
        for engine in ENGINES[number % 3 :] + ENGINES[: number % 3]:
            share = sizes[: max(1, len(sizes) // 10)] if engine == "portable" else sizes
            spent, checks[engine] = workers[engine].round(share)
            times[engine].append(spent)
        for engine in ENGINES[1:]:  # engines that disagree must not be compared
            for ours, theirs in zip(checks["liveshape"], checks[engine], strict=False):
                assert abs(ours - theirs) <= 1e-3 * max(1, abs(theirs)), (engine, ours, theirs)
    for worker in workers.values():
        worker.close()
    columns = []
    for engine in ENGINES:
        pairs = list(zip(times[engine], times["liveshape"], strict=True))[1:]
        ratios = [sum(theirs) / sum(ours[: len(theirs)]) for theirs, ours in pairs]
        middle = statistics.median(statistics.mean(theirs) for theirs, _ in pairs)
        columns.append(f"{engine} {middle:8.3f} ms ({statistics.median(ratios):.2f})")
    print(f"{label:24} {'   '.join(columns)}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=ENGINES, help="be one engine's process")
    parser.add_argument("--model", choices=SOURCES)
    parser.add_argument("--rounds", type=int, default=12)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.engine and args.model and not sys.stdin.isatty():
        work(args.engine, args.model)
        return
    for model in SOURCES:
        for engine in ENGINES:
            lower(engine, model)
    print(f"{THREADS} threads; milliseconds a call, and as a multiple of liveshape's")
    lengths = list(range(3, 257))
    random.Random(0).shuffle(lengths)
    shuffled = [lengths[i :: args.rounds + 1] for i in range(args.rounds + 1)]
    compare("minilm", "minilm, 3 to 256 tokens", shuffled)
    for position in (16, 48):
        compare("qwen3", f"qwen3, position {position}", [[position] * 200] * (args.rounds + 1))


if __name__ == "__main__":
    main()
