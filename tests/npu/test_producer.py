"""A trace producer library emits the records of the in-process walk, byte for byte (N1, N2)."""

import os
import subprocess
from pathlib import Path

import pytest
from liveshape.testing import EXPORTS, ROOT, collect

CLI = Path(os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape"))

# Between them, every op that has a tile lowering.
CASES = [
    "qwen3_sdpa_raw",
    "llama_eager_raw",
    "bert_sdpa_raw",
    "kv_data",
    "index_raw",
    "linear_q4_odd",
    "attention_bool_raw",
    "argmax_raw",
    "cumsum_i64_raw",
    "layer_norm_raw",
    "sum_mean_raw",
]


@pytest.mark.parametrize("name", CASES)
def test_library_and_walk_emit_the_same_records(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    live, library = tmp_path / "model.live", tmp_path / "model.so"
    flags = collect()[name].compile_flags()
    subprocess.run([CLI, "compile", EXPORTS / name / "model.pt2", "-o", live, *flags], check=True)
    done = subprocess.run(
        [CLI.with_name("trace_probe"), live, library], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "records equal" in done.stdout
    imports = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    assert "liveshape" not in imports and "ls_trace" not in imports
