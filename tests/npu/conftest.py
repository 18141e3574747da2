"""Cases that between them use every op with a tile lowering, compiled once.

LIVESHAPE_CASES=all takes every case there is: a minute or two.
"""

import os
import subprocess
from pathlib import Path

import pytest
from liveshape.prepare import prepare_all
from liveshape.testing import EXPORTS, ROOT, collect

CLI = Path(os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape"))
CASES = [
    "adaptive_avg_pool2d_raw",
    "argmax_raw",
    "attention_bool_raw",
    "bert_sdpa_raw",
    "cat_raw",
    "conv1d_options_raw",
    "conv2d_raw",
    "cumsum_i64_raw",
    "embedding_q4_tied",
    "flip_raw",
    "index_raw",
    "index_written_raw",
    "kv_data",
    "kv_symbol",
    "layer_norm_raw",
    "linear_q4_odd",
    "linear_q8_f16",
    "llama_eager_raw",
    "matmul_broadcast_raw",
    "matmul_transposed",
    "max_pool2d_raw",
    "pad_repeating_raw",
    "permute_raw",
    "qwen3_sdpa_raw",
    "rank6",
    "resnet_basic_raw",
    "scatter_raw",
    "sdpa_gqa_causal_raw",
    "softmax_first",
    "sort_raw",
    "state_sliced_raw",
    "sum_mean_raw",
    "tiles_straddle",
    "trap31_raw",
    "view_zero",
]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Case name -> artifact."""
    cases = collect()
    if os.environ.get("LIVESHAPE_CASES") != "all":
        cases = {name: cases[name] for name in CASES}
    failed = [(name, error) for name, _, error in prepare_all(list(cases.values())) if error]
    assert not failed
    folder = tmp_path_factory.mktemp("models")
    for name, case in cases.items():
        command = [CLI, "compile", EXPORTS / name / "model.pt2", "-o", folder / f"{name}.live"]
        subprocess.run([*command, *case.compile_flags()], check=True, capture_output=True)
    return {name: folder / f"{name}.live" for name in cases}


@pytest.fixture(scope="session")
def cli():
    """cli("simulate", ...): the finished process, whatever it returned."""

    def run(*arguments):
        command = [CLI, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run
