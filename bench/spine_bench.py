"""The spine's numbers: makes the models, compiles them, runs bench_spine and counts instructions.

make bench                      # this and the others
python bench/spine_bench.py     # this alone; build/release must be built (target bench_spine)
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
MODELS = ROOT / "build" / "bench"
CLI = os.environ.get("LIVESHAPE", str(BUILD / "liveshape"))


def instructions(model, runs):
    """Instructions that callgrind counts for `runs` runs at S=16."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command += [str(BUILD / "bench_spine"), "run", str(MODELS / f"{model}.live"), "512", "16"]
        done = subprocess.run([*command, str(runs)], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def main():
    names = ["decoder_4096", "decoder_16", "decoder_small", "static_cache_4096", "static_cache_64"]
    if not all((MODELS / f"{name}.pt2").exists() for name in [*names, "weights_100mb"]):
        subprocess.run([sys.executable, str(ROOT / "bench" / "models.py")], check=True)
    for name in names:
        command = [CLI, "compile", str(MODELS / f"{name}.pt2"), "-o", str(MODELS / f"{name}.live")]
        subprocess.run(command, check=True, capture_output=True)

    weights = MODELS / "weights_100mb.pt2"
    start = time.perf_counter()
    command = [CLI, "compile", str(weights), "-o", str(MODELS / "weights_100mb.live"), "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds = time.perf_counter() - start
    size, peak = weights.stat().st_size, report["peak_resident_bytes"]
    print(f"compile of {size / 1e6:.0f} MB: {seconds:.2f} s, peak {peak / size:.2f}x the weights")

    subprocess.run([str(BUILD / "bench_spine"), str(MODELS)], check=True)

    per_run = {}
    for name in ("decoder_4096", "decoder_16"):
        per_run[name] = (instructions(name, 3) - instructions(name, 1)) / 2
    ratio = per_run["decoder_4096"] / per_run["decoder_16"]
    print(f"instructions of a run at S=16: bound 4096 against bound 16: ratio {ratio:.5f}")


if __name__ == "__main__":
    main()
