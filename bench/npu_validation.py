"""Cycles on machines/tpuv3.yaml beside those measured on a TPUv3 core, and beside other simulators.

python bench/npu_validation.py                 # the table, with the mean absolute error
python bench/npu_validation.py --leave-one-out # what is fitted, fitted to the other rows
python bench/npu_validation.py --speed         # wall clock against SCALE-Sim v3 on the same GEMMs
python bench/npu_validation.py --prefill       # a Qwen3-0.6B-shaped prefill of 512: seconds, memory

build/release must be built. One artifact a kernel, compiled once, serves all of its sizes.
"""

import argparse
import collections
import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "build" / "bench"
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))
MACHINE = ROOT / "machines" / "tpuv3.yaml"
PEERS = ("mnpusim", "timeloop", "maestro", "scalesim_v3")
# What machines/tpuv3.yaml marks as fitted, and the values tried when a row is left out, from one
# end of the plausible range to the other.
FITTED = {
    "kernel_start_cycles": (500, 800, 1200),
    "weight_rows_per_cycle": (1, 2),
    "weight_buffers": (1, 2),
    "setup_cycles": (20, 64, 128),
    "divide: {interval": (1, 3, 5),
}
SYMBOLS = {"gemm": "MKN", "layernorm": "R", "softmax": "RC"}


def rows():
    with open(ROOT / "bench" / "npu_validation.csv") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def make_models():
    """gemm, layernorm and softmax with every size a symbol."""
    paths = {name: MODELS / f"npu_{name}.live" for name in SYMBOLS}
    if all(path.exists() for path in paths.values()):
        return paths
    import torch
    from torch import nn
    from torch.export import Dim

    sys.path.insert(0, str(ROOT / "python"))
    from liveshape import save

    class Matmul(nn.Module):
        def forward(self, a, b):
            return a @ b

    m, k, n, r, c = (Dim(name, min=1, max=16384) for name in "MKNRC")
    cases = {
        "gemm": (Matmul(), (torch.randn(8, 9), torch.randn(9, 10)), ({0: m, 1: k}, {0: k, 1: n})),
        "layernorm": (nn.LayerNorm(768), (torch.randn(8, 768),), ({0: r},)),
        "softmax": (nn.Softmax(dim=-1), (torch.randn(8, 9),), ({0: r, 1: c},)),
    }
    MODELS.mkdir(parents=True, exist_ok=True)
    for name, (module, inputs, shapes) in cases.items():
        program = torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
        save(program, str(MODELS / f"npu_{name}.pt2"), shapes)
        command = [CLI, "compile", str(MODELS / f"npu_{name}.pt2"), "-o", str(paths[name])]
        subprocess.run(command, check=True, capture_output=True)
    return paths


def point(row):
    sizes = row["shape"].split("x")
    return ",".join(f"{s}={v}" for s, v in zip(SYMBOLS[row["kernel"]], sizes, strict=False))


def simulate(paths, table, machine):
    """Cycles of every row: one call a kernel, its sizes as points of a sweep."""
    cycles = {}
    for kernel, path in paths.items():
        mine = [row for row in table if row["kernel"] == kernel]
        if not mine:
            continue
        sweep = ";".join(point(row) for row in mine)
        command = [
            CLI,
            "simulate",
            str(path),
            "--machine",
            str(machine),
            "--sweep",
            sweep,
            "--json",
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for row, run in zip(mine, json.loads(done.stdout)["runs"], strict=True):
            cycles[kernel, row["shape"]] = run["cycles"]
    return cycles


def error(row, cycles):
    return cycles[row["kernel"], row["shape"]] / int(row["tpuv3"]) - 1


def mean_absolute(errors):
    errors = list(errors)
    return sum(map(abs, errors)) / len(errors)


def show(table, cycles):
    print(f"{'kernel':<10} {'shape':<16} {'TPUv3':>8} {'ours':>8} {'error':>7}", *PEERS)
    for row in table:
        ours = cycles[row["kernel"], row["shape"]]
        peers = [
            f"{int(row[peer]) / int(row['tpuv3']) - 1:+.1%}" if row[peer] else "-" for peer in PEERS
        ]
        print(
            f"{row['kernel']:<10} {row['shape']:<16} {row['tpuv3']:>8} {ours:>8}"
            f" {error(row, cycles):>+7.1%}",
            *(f"{text:>{len(peer)}}" for text, peer in zip(peers, PEERS, strict=True)),
        )
    for kernel in SYMBOLS:
        mine = [row for row in table if row["kernel"] == kernel]
        print(f"{kernel}: mean absolute error {mean_absolute(error(r, cycles) for r in mine):.1%}")
    print(f"all: mean absolute error {mean_absolute(error(r, cycles) for r in table):.1%}")


def variant(text, setting):
    for key, value in setting.items():
        text, count = re.subn(rf"^( *{re.escape(key)}): \d+", rf"\1: {value}", text, flags=re.M)
        assert count == 1, key
    return text


def leave_one_out(paths, table):
    """Each row is predicted by the setting that fits the other rows best."""
    settings = [
        dict(zip(FITTED, values, strict=True)) for values in itertools.product(*FITTED.values())
    ]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        machine = Path(folder) / "machine.yaml"
        for setting in settings:
            machine.write_text(variant(MACHINE.read_text(), setting))
            results.append(simulate(paths, table, machine))
    best = min(results, key=lambda c: mean_absolute(error(r, c) for r in table))
    print(f"best of all rows: {settings[results.index(best)]}")
    left_out = []
    for row in table:
        others = [other for other in table if other is not row]
        fit = min(results, key=lambda c: mean_absolute(error(r, c) for r in others))
        left_out.append(error(row, fit))
        setting = settings[results.index(fit)]
        print(f"{row['kernel']:<10} {row['shape']:<16} {left_out[-1]:>+7.1%}  fitted: {setting}")
    print(f"leave-one-out mean absolute error {mean_absolute(left_out):.1%}")


SCALESIM_CONFIG = """[general]
run_name = gemm
[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 4096
FilterSramSzkB: 4096
OfmapSramSzkB: 4096
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 512
Dataflow: ws
MemoryBanks: 1
ReadRequestBuffer: 512
WriteRequestBuffer: 512
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 128
IfmapSRAMBankNum: 8
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 128
FilterSRAMBankNum: 8
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: False
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def speed(paths, sizes):
    subprocess.run([str(ROOT / "scripts" / "scalesim.sh")], check=True, cwd=ROOT)
    python = ROOT / "build" / "scalesim" / "bin" / "python"
    for n in sizes:
        command = [CLI, "simulate", str(paths["gemm"]), "--machine", str(MACHINE)]
        start = time.perf_counter()
        subprocess.run(
            [*command, "--sweep", f"M={n},K={n},N={n}", "--json"], check=True, capture_output=True
        )
        ours = time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.cfg").write_text(SCALESIM_CONFIG)
            (Path(folder) / "gemm.csv").write_text(f"Layer, M, N, K,\ngemm, {n}, {n}, {n},\n")
            # 20 factors and orders of a layout, which is off; it wants the file all the same.
            layout = "Layer,\ngemm, " + "1, " * 20 + "\n"
            (Path(folder) / "layout.csv").write_text(layout)
            program = (
                "from scalesim.scale_sim import scalesim\n"
                "s = scalesim(save_disk_space=True, verbose=False, config='config.cfg',"
                " topology='gemm.csv', layout='layout.csv', input_type_gemm=True)\n"
                "s.run_scale(top_path='.')\n"
            )
            start = time.perf_counter()
            subprocess.run(
                [str(python), "-c", program], check=True, capture_output=True, cwd=folder
            )
            theirs = time.perf_counter() - start
        print(
            f"gemm {n}: ours {ours:.2f} s, SCALE-Sim v3 {theirs:.2f} s, {theirs / ours:.0f}x",
            flush=True,
        )


def prefill(length):
    """Timing needs no weights: the artifact is made without them."""
    exported, live = MODELS / "qwen3_1024.pt2", MODELS / "qwen3_1024.live"
    if not live.exists():
        make = [sys.executable, str(ROOT / "bench" / "models.py"), "qwen3_1024", "-o", str(MODELS)]
        subprocess.run(make, check=True)
        command = [CLI, "compile", str(exported), "-o", str(live), "--no-weights"]
        subprocess.run(command, check=True, capture_output=True)
    command = [CLI, "simulate", str(live), "--machine", str(MACHINE), "--json"]
    start = time.perf_counter()
    process = subprocess.Popen([*command, "--sweep", f"S={length},pos=0"], stdout=subprocess.PIPE)
    run = json.loads(process.stdout.read())["runs"][0]
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    print(
        f"prefill of {length}: {run['cycles']} cycles ({run['microseconds'] / 1000:.1f} ms),"
        f" {run['records']} records, simulated in {time.perf_counter() - start:.1f} s"
        f" ({usage.ru_utime:.1f} s of CPU) and {usage.ru_maxrss / 1024:.0f} MB"
    )
    by_op = collections.Counter()
    for kernel in run["kernels"]:
        by_op[kernel["name"].split("_", 1)[1]] += kernel["cycles"]
    for name, cycles in by_op.most_common():
        print(f"  {name:<12} {cycles:>10} cycles, {cycles / run['cycles']:.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--prefill", type=int, nargs="?", const=512, metavar="TOKENS")
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024])
    options = parser.parse_args()
    if options.prefill:
        prefill(options.prefill)
        return
    paths, table = make_models(), rows()
    if options.speed:
        speed(paths, options.sizes)
    elif options.leave_one_out:
        leave_one_out(paths, table)
    else:
        show(table, simulate(paths, table, MACHINE))


if __name__ == "__main__":
    main()
