"""Cases on the WebGPU backend (X4): `verify` as on the CPU, poisoned, strict, bit-identical.

On a software GPU a pipeline takes 30 ms to build, so CI runs a case or two of every op that is
served; others by `LIVESHAPE_BACKENDS=webgpu pytest tests/conformance/test_cases.py -k NAME`.
"""

import subprocess

import pytest
from liveshape.testing import EXPORTS, collect, prepare
from test_cases import CLI, cli

CASES = [
    "unary_raw",
    "activations_f16",
    "rounding_raw",
    "where_raw",
    "integer_i64_raw",
    "compare_i64_raw",
    "casts_raw",
    "softmax_last_raw",
    "softmax_first",
    "rms_norm",
    "rms_plus_x",
    "layer_norm_raw",
    "linear_raw",
    "linear_odd",
    "linear_q4_odd",
    "linear_q8_f16",
    "matmul_raw",
    "matmul_transposed",
    "embedding",
    "embedding_q4_tied",
    "embedding_q4_bf16",
    "rope_raw",
    "cat_raw",
    "cat_i64",
    "sdpa_gqa_causal_raw",
    "attention_nan_rows",
    "sum_mean_raw",
    "any_all_raw",
    "cumsum_i64_raw",
    "index_raw",
    "scatter_raw",
    "state_counter_raw",
    "state_scattered_raw",
    "kv_counter",
    "kv_data",
    "kv_index_put",
    "llama_tied_q4",
    "nested",
    "numbers_beside_halves",
]


@pytest.mark.parametrize("name", CASES)
def test_case(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    folder, live = EXPORTS / name, tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", "webgpu")


def test_an_op_without_a_kernel_is_refused_at_load_by_name(tmp_path):
    folder, live = prepare(collect()["sort_raw"]), tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live)
    command = [CLI, "verify", live, "--golden", folder / "golden", "--backends", "webgpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "no kernel for `sort`" in done.stderr
