"""Cases on the NPU backend (N4, N8): values through tiles, DMA and scratchpad, strict and poisoned.

A case or two of every op with a tile lowering, and whole models; others by
`LIVESHAPE_BACKENDS=npu pytest tests/conformance/test_cases.py -k NAME`.
"""

import subprocess
from pathlib import Path

import pytest
from liveshape.testing import EXPORTS, collect, prepare
from test_cases import CLI, cli

MACHINES = Path(__file__).resolve().parents[2] / "machines"

CASES = [
    "unary_raw",
    "activations_f16",
    "casts_raw",
    "integer_i64_raw",
    "where_raw",
    "broadcast_edges_hint_raw",
    "arange_raw",
    "full_raw",
    "rank6",
    "permute_raw",
    "view_merge_raw",
    "expand_edges_dim_raw",
    "flip_raw",
    "linear_raw",
    "linear_odd",
    "linear_q4_odd",
    "linear_q8_f16",
    "matmul_raw",
    "matmul_transposed",
    "matmul_edges_raw",
    "bmm",
    "softmax_last_raw",
    "softmax_first",
    "log_softmax_raw",
    "softmax_extreme",
    "layer_norm_raw",
    "rms_norm",
    "rms_plus_x",
    "sum_mean_raw",
    "extremes_raw",
    "any_all_raw",
    "argmax_raw",
    "cumsum_i64_raw",
    "conv1d_options_raw",
    "conv2d_raw",
    "max_pool2d_raw",
    "avg_pool2d_raw",
    "adaptive_avg_pool2d_raw",
    "pad_constant_raw",
    "pad_repeating_raw",
    "pad_cut_raw",
    "sort_raw",
    "cat_raw",
    "embedding",
    "embedding_q4_tied",
    "embedding_q8",
    "index_raw",
    "index_written_raw",
    "scatter_raw",
    "rope_raw",
    "sdpa_gqa_causal_raw",
    "attention_bool_raw",
    "attention_nan_rows",
    "state_counter_raw",
    "kv_counter",
    "kv_data",
    "mlp_raw",
    "mlp_static",
    "mlp_f16",
    "qwen3_sdpa_raw",
    "llama_eager_raw",
    "bert_sdpa_raw",
    "resnet_basic_raw",
    "llama_tied_q4",
]


@pytest.mark.parametrize("name", CASES)
def test_case(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    folder, live = EXPORTS / name, tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", "npu")


@pytest.mark.parametrize(
    "name", ["add", "add_2d", "add_3d", "no_padding", "view", "straddle", "regroup"]
)
def test_tiles_that_end_in_the_middle(name, tmp_path):
    folder, live = prepare(collect()[f"tiles_{name}"]), tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live)
    cli("verify", live, "--golden", folder / "golden", "--backends", "cpu,npu:512")


# Scratchpads of so many bytes do not hold a row or an image at the larger sizes of each case; the
# array is so small that every window is cut too.
SMALL = [
    ("softmax_last_raw", 1024),
    ("softmax_first", 1024),
    ("softmax_extreme", 1024),
    ("log_softmax_raw", 1024),
    ("layer_norm_raw", 1024),
    ("rms_norm", 1024),
    ("sum_mean_raw", 1024),
    ("extremes_raw", 1024),
    ("any_all_raw", 1024),
    ("sum_i64", 1024),
    ("argmax_i8", 4096),
    ("max_dim_raw", 4096),
    ("cumsum_raw", 1024),
    ("cumsum_i64_raw", 1024),
    ("topk_raw", 8192),
    ("sort_bf16", 8192),
    ("max_pool2d_raw", 8192),
    ("avg_pool2d_bf16", 8192),
    ("adaptive_avg_pool2d_raw", 65536),
    ("conv2d_channels", 16384),
    ("conv1d_options_raw", 16384),
    ("index_raw", 4096),
]


@pytest.mark.parametrize(("name", "scratchpad"), SMALL)
def test_case_on_a_small_machine(name, scratchpad, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    folder, live, machine = EXPORTS / name, tmp_path / "model.live", tmp_path / "small.yaml"
    text = (MACHINES / "edge.yaml").read_text()
    for old, new in [
        ("scratchpad_bytes: 524288", f"scratchpad_bytes: {scratchpad}"),
        ("rows: 32", "rows: 4"),
        ("columns: 32", "columns: 4"),
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    machine.write_text(text)
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", f"npu:{machine}")
    if not name.startswith("conv"):  # whose tiles, 4 x 4, would take seconds
        cli("simulate", live, "--machine", machine)  # checks what every simulation checks


# Rows of 64 do not fit a tile of 48: norms are kernels of their own, which they are not in CASES.
@pytest.mark.parametrize("name", ["bert_sdpa_raw", "mlp_raw"])
def test_norms_behind_products_whose_rows_do_not_fit_a_tile(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    folder, live = EXPORTS / name, tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", "npu:48")


def test_an_op_without_a_tile_lowering_is_refused_at_load_by_name(tmp_path):
    folder, live = prepare(collect()["nonzero_raw"]), tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live)
    command = [CLI, "verify", live, "--golden", folder / "golden", "--backends", "npu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "no tile lowering for `nonzero`" in done.stderr
