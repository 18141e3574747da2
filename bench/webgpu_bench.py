"""WebGPU on the GPU at hand: dispatches, products, a Qwen3-0.6B-shaped decoder, beside eager torch.

python bench/models.py chain_f32 chain_f16 gemv_f16 normed_f16 head_f16 qwen3_512 qwen3_8192
python bench/webgpu_bench.py                 # all; on a software GPU, a tiny set
python bench/webgpu_bench.py --sweep         # tile sizes and the like, to choose constants by
python bench/webgpu_bench.py --only decoder

Models come from build/bench (.pt2, or .pt2.gz as they travel to a machine without torch.export of
this version); their weights are made by `compile --random-weights`. Needs only torch, and that
only to compare: with `transformers` its Qwen3, else a model of the same shape written below.
bench/webgpu_device.sh sets up a machine that has a GPU but nothing else of ours.
"""

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
MODELS = Path(os.environ.get("LIVESHAPE_MODELS", ROOT / "build" / "bench"))
WORK = Path(os.environ.get("LIVESHAPE_WORK", MODELS))  # .live files: GBs
CLI, BENCH = BUILD / "liveshape", BUILD / "bench_webgpu"


def compiled(name, quant=""):
    """The artifact of a model, made once."""
    live = WORK / f"{name}{'_' + quant if quant else ''}.live"
    if live.exists():
        return str(live)
    pt2 = MODELS / f"{name}.pt2"
    if not pt2.exists() and pt2.with_suffix(".pt2.gz").exists():
        pt2 = WORK / f"{name}.pt2"
        with gzip.open(MODELS / f"{name}.pt2.gz") as packed, open(pt2, "wb") as out:
            shutil.copyfileobj(packed, out, 1 << 24)
    if not pt2.exists():
        sys.exit(f"{pt2} is missing: python bench/models.py {name}")
    start = time.perf_counter()
    command = [CLI, "compile", pt2, "-o", live, "--random-weights", "1"]
    command += ["--quant", quant] if quant else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(f"# compiled {live.name} in {time.perf_counter() - start:.1f} s", flush=True)
    return str(live)


def bench(*arguments, tuning=""):
    """What bench_webgpu printed; a failure is told and gives nothing."""
    environment = os.environ | ({"LIVESHAPE_WEBGPU_TUNING": tuning} if tuning else {})
    command = [str(BENCH), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        print(
            f"# FAILED ({done.returncode}): {' '.join(command)} {tuning}\n# {done.stderr[-1500:]}"
        )
    sys.stdout.flush()
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def dispatches():
    one, many = bench("dispatch")
    print(f"device: {one['device']}")
    print(f"dispatch, 300 dependent: {(many['us'] - one['us']) / 300:.2f} us each")
    print(f"one dispatch, submit and readback: {one['us']:.1f} us", flush=True)


def tera(rows, m):
    return 2 * m * 1024 * 1024 / rows / 1e6


def products(rows, m_few=(1, 4, 8)):
    for name in ("chain_f32", "chain_f16"):
        for quant in ("", "q4") if name == "chain_f16" else ("",):
            for r in bench("chain", compiled(name, quant), 1024, 16, *rows):
                us = r["gpu_us_a_layer"]
                label = f"{name[6:]}{' ' + quant if quant else ''}"
                print(
                    f"GEMM {label:7} {r['m']:5} x 1024 x 1024: {us:8.2f} us"
                    f" {tera(us, r['m']):6.1f} TFLOP/s on the GPU;"
                    f" {r['us_a_layer']:8.2f} us with upload and readback"
                )
    for name, tunings in (("gemv_f16", ("",)), ("normed_f16", ("", "fuse=0"))):
        for quant in ("", "q4"):
            for tuning in tunings:
                for r in bench("chain", compiled(name, quant), 1024, 8, *m_few, tuning=tuning):
                    us, kind = r["gpu_us_a_layer"], "norm + GEMV" if "normed" in name else "GEMV"
                    how = {"": "fused" if "normed" in name else "", "fuse=0": "apart"}[tuning]
                    size = 1024 * 3072 * (0.5625 if quant else 2)
                    print(
                        f"{kind} {how} 1024 <-> 3072 {quant or 'f16'}, {r['m']} rows: {us:.2f} us,"
                        f" {size / us / 1e3:.0f} GB/s; {r['us_a_layer']:.2f} us by the clock"
                    )
    for quant in ("", "q4"):
        for r in bench("chain", compiled("head_f16", quant), 1024, 1, 1):
            size = 1024 * 151_936 * (0.5625 if quant else 2)
            us = r["gpu_us_a_layer"]
            print(
                f"head 1024 -> 151,936 {quant or 'f16'}: {us:.1f} us,"
                f" {size / us / 1e3:.0f} GB/s; {r['us_a_layer']:.1f} us with readback"
            )
    sys.stdout.flush()


def decoder(model, quants, prefills, contexts):
    """Tokens a second by what was measured."""
    figures = {}
    for quant in quants:
        live = compiled(model, quant)
        for r in bench("decoder", live, "prefill", *prefills, "decode", *contexts):
            if r["what"] == "load":
                print(f"{model} {quant or 'f16'}: load {r['ms']:.0f} ms")
                continue
            figures[quant or "f16", r["what"], r["n"]] = r["tokens_s"]
            what = "prefill of" if r["what"] == "prefill" else "decode at context"
            print(
                f"{model} {quant or 'f16'}: {what} {r['n']}: {r['us'] / 1e3:.3f} ms,"
                f" {r['tokens_s']:.0f} tokens/s",
                flush=True,
            )
        for s, pos in ((1, contexts[0] - 1), (prefills[-1], 0)):
            for r in bench("profile", live, s, pos):
                print(
                    f"  S={s}: {r['op']:12} {r['us']:9.1f} us on the GPU"
                    f" in {r['dispatches']} dispatches"
                )
        for r in bench("bind", live):
            print(f"{model} {quant or 'f16'}: bind to another shape {r['us']:.1f} us", flush=True)
    return figures


def bounds():
    """Decode at context 128 must not cost more where the bound is larger."""
    times = {}
    for _ in range(3):  # interleaved
        for model in ("qwen3_512", "qwen3_8192"):
            for r in bench("decoder", compiled(model, "q4"), "decode", 128):
                if r["what"] == "decode":
                    times.setdefault(model, []).append(r["us"])
    small, large = (sorted(times[m])[1] for m in ("qwen3_512", "qwen3_8192"))
    print(
        f"q4 decode at context 128: bound 512 {small:.0f} us, bound 8192 {large:.0f} us,"
        f" ratio {large / small:.3f}"
    )


def sweep():
    for lanes in (128, 256, 512):
        for name, quant in (("gemv_f16", ""), ("gemv_f16", "q4")):
            for r in bench(
                "chain", compiled(name, quant), 1024, 8, 1, tuning=f"gemv_lanes={lanes}"
            ):
                print(
                    f"gemv_lanes={lanes} {quant or 'f16'}: {r['gpu_us_a_layer']:.2f} us", flush=True
                )
    tiles = [(32, 64, 4), (64, 32, 4), (64, 64, 4), (64, 64, 8), (128, 32, 4), (128, 64, 4)]
    tiles += [(128, 64, 8), (64, 128, 8), (128, 128, 8)]
    for name, quant in (("chain_f32", ""), ("chain_f16", ""), ("chain_f16", "q4")):
        for m, n, columns in tiles:
            tuning = f"tile_m={m},tile_n={n},tile_columns={columns}"
            tuning += ",big_tile_groups=1000000,small_tile_groups=0"
            for r in bench("chain", compiled(name, quant), 1024, 16, 128, 512, 2048, tuning=tuning):
                us = r["gpu_us_a_layer"]
                print(
                    f"tile {m}x{n}/{columns} {name[6:]} {quant} M={r['m']}:"
                    f" {tera(us, r['m']):.1f} TFLOP/s",
                    flush=True,
                )
    live = compiled("qwen3_8192", "q4")
    for keys in (64, 128, 256, 512):
        for r in bench(
            "decoder", live, "decode", 128, 512, 2048, 8190, tuning=f"whole_keys={keys}"
        ):
            if r["what"] == "decode":
                print(f"whole_keys={keys} context {r['n']}: {r['us']:.0f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweep", action="store_true", help="tile sizes, lanes, splits")
    parser.add_argument("--only", choices=["products", "decoder", "torch", "bounds"])
    parser.add_argument(
        "--tiny", action="store_true", help="what a software GPU can do in a minute"
    )
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    devices = subprocess.run([CLI, "devices"], capture_output=True, text=True, check=False)
    print(devices.stdout or devices.stderr)
    if devices.returncode != 0:
        sys.exit(devices.returncode)
    dispatches()
    if args.tiny or ("cpu" in devices.stdout and "discrete" not in devices.stdout):
        decoder("qwen3_tiny", ("", "q4"), (17, 64), (32,))
        return
    if args.sweep:
        sweep()
        return
    ours, theirs = {}, {}
    if args.only in (None, "products"):
        products((128, 512, 1024, 2048))
    if args.only in (None, "decoder"):
        ours = decoder("qwen3_8192", ("q4", ""), (128, 512, 2048), (128, 512, 2048, 8190))
    if args.only in (None, "bounds"):
        bounds()
    if args.only in (None, "torch", "decoder"):
        from webgpu_torch import measure

        theirs = measure((128, 512, 2048), (128, 512, 2048, 8190))
    for (kind, n), tokens in theirs.items():
        for dtype in ("f16", "q4"):
            if (dtype, kind, n) in ours:
                print(
                    f"{kind} {n}: {dtype} is {ours[dtype, kind, n] / tokens:.2f}x eager torch, bf16"
                )


if __name__ == "__main__":
    main()
