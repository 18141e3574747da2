"""Cases A to S through a .pte: every node ours, every live shape in one loaded Method (X1, W2)."""

import pytest
from liveshape.testing import collect
from lowering import check_step, exported, golden, load, lower, outside, parts, save

# One case for each letter of REQUIREMENTS.md, and where a letter has several forms, those.
NAMES = [
    *("rms_norm", "rms_norm_static", "rms_rms", "rms_plus_x", "rms_times_x"),  # A-D, F, G, H
    *("linear_raw", "linear_q8_plain", "linear_q4_plain", "linear_q4_odd"),  # I
    *("kv_data", "kv_item", "kv_index_put", "kv_counter"),  # J
    *("embedding_q4", "embedding_q4_tied"),  # K
    *("rope_raw", "activations_raw", "select_raw", "conv1d_raw", "gelu_large"),  # L M N O P
    *("qwen3_block", "diamond", "conv2d_raw", "mlp_raw"),  # Q R S, and G5
]
# The same on a GPU, which the compile spec asks for: one form of each letter.
OTHER_FORMS = {"linear_q8_plain", "linear_q4_odd", "kv_item", "kv_index_put", "kv_counter"}
ON_GPU = [name for name in NAMES if name not in OTHER_FORMS | {"embedding_q4_tied", "mlp_raw"}]


@pytest.mark.parametrize("names", [NAMES, ON_GPU])
def test_every_letter_is_here(names):
    covered = {letter for name in names for letter in collect()[name].covers.split()}
    assert set("ABCDFGHIJKLMNOPQRS") <= covered


@pytest.mark.parametrize("name", NAMES)
def test_case(name, prepared, tmp_path):
    check_case(name, prepared, tmp_path)


@pytest.mark.parametrize("name", ON_GPU)
def test_case_on_webgpu(name, prepared, tmp_path):
    check_case(name, prepared, tmp_path, backend="webgpu")


def check_case(name, prepared, tmp_path, **options):
    assert name not in prepared, prepared[name]
    case = collect()[name]
    edge = lower(exported(case), quant=case.quant, **options)
    assert outside(edge) == []
    assert parts(edge) == 1
    path = save(edge, tmp_path / "model.pte")
    points, tolerance = golden(case)["points"], golden(case)["tolerance"]
    if any(len(point["steps"]) > 1 for point in points):
        for point in points:  # a point begins with the states of the file
            method = load(path)
            for step in point["steps"]:
                check_step(method, case, step, tolerance)
        return
    method = load(path)
    again = reversed(points) if "backend" not in options else points[:1]  # a software GPU is slow
    for point in [*points, *again]:
        check_step(method, case, point["steps"][0], tolerance)
