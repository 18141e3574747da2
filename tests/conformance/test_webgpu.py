"""Cases on the WebGPU backend (X4): `verify` as on the CPU, poisoned, strict, bit-identical.

On a software GPU a pipeline takes 30 ms to build, so CI runs a case or two of every op, and some
of them on the smallest device that WebGPU allows. LIVESHAPE_WEBGPU_CASES=all runs every case.
"""

import json
import os
import subprocess

import numpy as np
import pytest
import torch
from liveshape.testing import EXPORTS, collect, prepare
from test_cases import CLI, cli

CASES = [
    "unary_raw",
    "activations_f16",
    "rounding_raw",
    "where_raw",
    "broadcast_edges_hint_raw",
    "expand_edges_dim_raw",
    "integer_i64_raw",
    "compare_i64_raw",
    "casts_raw",
    "softmax_last_raw",
    "softmax_first",
    "log_softmax_raw",
    "rms_norm",
    "rms_plus_x",
    "layer_norm_raw",
    "linear_raw",
    "linear_odd",
    "linear_q4_odd",
    "linear_q8_f16",
    "matmul_raw",
    "matmul_transposed",
    "matmul_edges_raw",
    "argmax_f16",
    "max_dim_bool",
    "conv1d_options_raw",
    "conv1d_causal_raw",
    "conv2d_bf16",
    "max_pool2d_raw",
    "avg_pool2d_bf16",
    "adaptive_avg_pool2d_raw",
    "pool_ceil",
    "pad_repeating_raw",
    "pad_cut_raw",
    "pad_dtypes",
    "sort_raw",
    "sort_i8",
    "topk_raw",
    "embedding",
    "embedding_q4_tied",
    "embedding_q4_bf16",
    "rope_raw",
    "cat_raw",
    "cat_i64",
    "symbols_300",
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
    "qwen3_decoder",
    "qwen3_decoder_f16",
    "qwen3_decoder_q4",
]

# What a case needs that this backend refuses: sizes from the middle of a run, and f64.
BORN = ("nonzero", "masked_", "born_", "repeat_interleave", "item_")
WIDE = ("symbolic_floats", "spread")
# A GEMM, a chain of many operands, an arena of many slots, a cache, workgroup memory, four dtypes.
SMALLEST = ["linear_odd", "where_raw", "sdpa_gqa_causal_raw", "kv_data", "sort_i8", "casts_raw"]
if os.environ.get("LIVESHAPE_WEBGPU_CASES") == "all":
    CASES = SMALLEST = [n for n in collect() if not n.startswith(BORN + WIDE)]


def check(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    folder, live = EXPORTS / name, tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", "webgpu")


@pytest.mark.parametrize("name", CASES)
def test_case(name, prepared, tmp_path):
    check(name, prepared, tmp_path)


@pytest.mark.parametrize("name", SMALLEST)
def test_case_on_the_smallest_device(name, prepared, tmp_path, monkeypatch):
    monkeypatch.setenv("LIVESHAPE_WEBGPU_LIMITS", "smallest")
    check(name, prepared, tmp_path)


@pytest.mark.parametrize("name", ["kv_data", "sdpa_gqa_causal_raw", "qwen3_decoder_f16"])
def test_a_long_context_is_split_over_workgroups(name, prepared, tmp_path, monkeypatch):
    """Whenever there are two blocks of keys, so that what long contexts do happens at dozens."""
    monkeypatch.setenv("LIVESHAPE_WEBGPU_TUNING", "whole_keys=8")
    check(name, prepared, tmp_path)


@pytest.mark.parametrize("name", ["linear_q8_f16", "linear_raw"])
def test_products_do_without_subgroups(name, prepared, tmp_path, monkeypatch):
    monkeypatch.setenv("LIVESHAPE_WEBGPU_TUNING", "subgroups=0")
    check(name, prepared, tmp_path)


def test_an_embedding_beyond_a_binding_is_bound_in_parts(prepared, tmp_path, monkeypatch):
    """4800 bytes of weights: what 151,936 x 1024 are where 128 MiB are bound."""
    monkeypatch.setenv("LIVESHAPE_WEBGPU_LIMITS", "smallest,binding_bytes=2048")
    check("embedding", prepared, tmp_path)


def refusal(*command):
    done = subprocess.run(
        [CLI, *map(str, command)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


def test_a_size_born_from_data_is_refused_at_load_by_name(tmp_path):
    folder, live = prepare(collect()["nonzero_raw"]), tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live)
    golden = folder / "golden"
    assert "no kernel for `" in refusal("verify", live, "--golden", golden, "--backends", "webgpu")


class Select(torch.nn.Module):
    def forward(self, x, i):
        return x.index_select(0, i)


@pytest.mark.parametrize("at", [-1, 5, -(2**40), 2**32])
def test_an_index_out_of_range_fails_the_run_naming_the_node(at, tmp_path):
    """index_select takes no negative index, as torch has it; a word alone would look in range."""
    program = torch.export.export(Select(), (torch.randn(5, 3), torch.tensor([0, 1])))
    torch.export.save(program, tmp_path / "m.pt2")
    cli("compile", tmp_path / "m.pt2", "-o", tmp_path / "m.live")
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    np.save(tmp_path / "i.npy", np.array([2, at]))
    files = [f"--input={name}={tmp_path / name}.npy" for name in ("x", "i")]
    said = refusal("run", tmp_path / "m.live", "--backend", "webgpu", *files)
    assert "node `index_select`" in said and "an index is out of range" in said


@pytest.mark.parametrize(("context", "most"), [(4, 6), (70, 7)])
def test_a_decoder_layer_is_few_dispatches_at_one_token(context, most, tmp_path, monkeypatch):
    """Norms, programs and caches are folded in: each dispatch that waits for another costs. A
    context that is split over workgroups takes one more."""
    monkeypatch.setenv("LIVESHAPE_WEBGPU_TUNING", "whole_keys=64")
    folder, live = prepare(collect()["qwen3_decoder_f16"]), tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live)
    np.save(tmp_path / "ids.npy", np.array([[5]]))
    command = [CLI, "run", live, "--backend", "webgpu", "--profile", "--json"]
    command += ["--input", f"ids={tmp_path / 'ids.npy'}", "--input", f"pos={context - 1}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    dispatches = sum(op["calls"] for op in json.loads(done.stdout)["profile"])
    layers, around = 2, 7  # angles beside the embedding, last norm, head
    assert dispatches <= most * layers + around
