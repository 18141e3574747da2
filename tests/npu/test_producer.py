"""A trace producer library emits the records of the in-process walk, byte for byte (N1, N2).

One library of all kernels of these cases, which between them use every op that has a tile lowering.
`LIVESHAPE_CASES=all pytest tests/npu/test_producer.py` compares every case there is (a minute).
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
# Their sizes come from data: refused by name (N10).
WITHOUT_LOWERING = ("born_", "masked_index", "masked_select", "masked_write", "nonzero", "repeat_")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    cases = collect()
    if os.environ.get("LIVESHAPE_CASES") != "all":
        cases = {name: cases[name] for name in CASES}
    failed = [(name, error) for name, _, error in prepare_all(list(cases.values())) if error]
    assert not failed
    folder = tmp_path_factory.mktemp("models")
    for name, case in cases.items():
        command = [CLI, "compile", EXPORTS / name / "model.pt2", "-o", folder / f"{name}.live"]
        subprocess.run([*command, *case.compile_flags()], check=True, capture_output=True)
    return [folder / f"{name}.live" for name in cases]


def test_library_and_walk_emit_the_same_records(models, tmp_path):
    library = tmp_path / "model.so"
    probe = [CLI.with_name("trace_probe"), library, *models]
    done = subprocess.run(probe, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    refused = {Path(line.split(":")[0]).stem for line in lines if line.startswith("refused")}
    assert all(name.startswith(WITHOUT_LOWERING) for name in refused), done.stdout
    assert f"{len(models) - len(refused)} models" in done.stdout
    assert "records equal" in done.stdout and "unused" not in done.stdout, done.stdout
    imports = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    assert "liveshape" not in imports and "ls_trace" not in imports
