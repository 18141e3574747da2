"""What the passes make of the exported models: one attention a layer, limits in the place of masks.

The graph is read as `pass_probe` prints it: the program of tests/passes, built with the libraries.
"""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from liveshape.prepare import prepare_all
from liveshape.testing import collect

ROOT = Path(__file__).resolve().parents[2]
LAYERS = 2
LANGUAGE_MODELS = [
    f"{model}_{kind}_{form}"
    for model in ("llama", "qwen3")
    for kind in ("sdpa", "eager")
    for form in ("raw", "dec")
]
PADDED = ["qwen3_padded_sdpa", "qwen3_padded_eager"]
ENCODERS = [f"bert_{kind}_{form}" for kind in ("sdpa", "eager") for form in ("raw", "dec")]
STATIC_CACHES = [
    f"static_cache_{kind}_{form}"
    for kind in ("sdpa", "eager")
    for form in ("strict", "strict_dec", "nonstrict", "again")
]


class Recognised:
    def __init__(self, text):
        self.text = text
        nodes = text.split("\nnodes\n")[1].split("\noutputs\n")[0].splitlines()
        self.nodes = [line.split("   #")[0].strip() for line in nodes]
        self.ops = [re.search(r" = (\w+)\(", line).group(1) for line in self.nodes]

    def of(self, op):
        return [node for node, name in zip(self.nodes, self.ops, strict=True) if name == op]

    def attention_inputs(self):
        inputs = [
            re.search(r"attention\(([^)]*)\)", node).group(1) for node in self.of("attention")
        ]
        return [each.split(", ") for each in inputs]

    def limits(self):
        return [re.findall(r"limit=\[(.*?)\]", node) for node in self.of("attention")]


CLI = Path(os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape"))


@pytest.fixture(scope="session")
def recognise(request):
    probe = CLI.with_name("pass_probe")
    assert probe.exists(), f"{probe} is not built: make build"

    params = [getattr(item, "callspec", None) for item in request.session.items]
    named = {each.params.get("case") for each in params if each} | {"rope_interleaved"}
    cases = [case for name, case in collect().items() if name in named]
    failed = {name: error for name, _, error in prepare_all(cases) if error}

    @cache
    def run(case):
        assert case not in failed, failed[case]
        model = ROOT / "build" / "exports" / case / "model.pt2"
        done = subprocess.run([probe, model], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return Recognised(done.stdout)

    return run


@pytest.mark.parametrize("case", LANGUAGE_MODELS + PADDED + STATIC_CACHES)
def test_one_attention_a_layer(recognise, case):
    graph = recognise(case)
    assert len(graph.of("attention")) == LAYERS
    assert not graph.of("softmax")
    assert len(graph.of("rope")) == 2 * LAYERS
    assert len(graph.of("rms_norm")) == (5 if case.startswith("llama") else 9)
    # repeat_kv would expand keys to [B, 2, 2, T, D].
    assert not [node for node in graph.of("expand") if re.search(r"f32\[\w+, 2, 2, ", node)]


@pytest.mark.parametrize("case", ENCODERS)
def test_an_encoder_keeps_its_padding_mask(recognise, case):
    graph = recognise(case)
    assert [len(inputs) for inputs in graph.attention_inputs()] == [4] * LAYERS
    assert not graph.of("softmax") and not graph.of("matmul")


# A layer of a decoder: Q + K + V, output, gate + up, down; of an encoder: Q + K + V and three more.
@pytest.mark.parametrize(
    ("case", "linears"),
    [
        *((case, 4 * LAYERS + 1) for case in LANGUAGE_MODELS + PADDED + STATIC_CACHES),
        *((case, 4 * LAYERS + 1) for case in ENCODERS),
        ("llama_tied", 4 * LAYERS + 1),
    ],
)
def test_linears_of_one_input_are_one(recognise, case, linears):
    assert len(recognise(case).of("linear")) == linears


@pytest.mark.parametrize("case", ["llama_sdpa_raw", "qwen3_eager_dec", "bert_sdpa_raw"])
def test_slices_of_a_merged_linear_are_views(recognise, case, tmp_path):
    assert recognise(case).of("slice")
    model, live = ROOT / "build" / "exports" / case / "model.pt2", tmp_path / "model.live"
    subprocess.run([CLI, "compile", model, "-o", live], check=True, capture_output=True)
    dump = subprocess.run([CLI, "dump", live, "--json"], check=True, capture_output=True)
    assert json.loads(dump.stdout)["plan"]["cpu"]["copies"] == 0


@pytest.mark.parametrize("case", LANGUAGE_MODELS)
def test_causal_masks_are_limits(recognise, case):
    graph = recognise(case)
    assert graph.limits() == [["1"]] * LAYERS
    assert all(len(inputs) == 3 for inputs in graph.attention_inputs())
    assert "bool[" not in graph.text, "the mask's subgraph is dead"


@pytest.mark.parametrize("case", STATIC_CACHES)
def test_static_caches_cost_the_live_context(recognise, case):
    graph = recognise(case)
    assert "h0 = cache_position[0]" in graph.text
    assert graph.limits() == [["h0 + 1"]] * LAYERS
    assert all(len(inputs) == 3 for inputs in graph.attention_inputs())
    assert "bool[" not in graph.text, "the mask's subgraph is dead"
    masked = "mean" if "eager" in case else "zero"
    assert graph.text.count(f'all_masked="{masked}"') == LAYERS


@pytest.mark.parametrize("case", PADDED)
def test_padding_keeps_the_mask_beside_the_limit(recognise, case):
    graph = recognise(case)
    assert graph.limits() == [["1"]] * LAYERS
    assert all(len(inputs) == 4 for inputs in graph.attention_inputs())
    masked = "mean" if "eager" in case else "zero"
    assert graph.text.count(f'all_masked="{masked}"') == LAYERS


@pytest.mark.parametrize(
    ("case", "limit"),
    [
        ("kv_symbol", r"s\d+ \+ 1"),
        ("kv_item", r"u0 \+ 1"),
        ("kv_counter", r"h0 \+ 1"),
        ("sdpa_causal_raw", "1"),
        ("sdpa_causal_dec", "1"),
        ("sdpa_gqa_causal_dec", "1"),
    ],
)
def test_positions_become_limits(recognise, case, limit):
    graph = recognise(case)
    assert [len(inputs) for inputs in graph.attention_inputs()] == [3]
    assert re.fullmatch(limit, graph.limits()[0][0])


@pytest.mark.parametrize("case", ["kv_data", "kv_data_dec", "kv_index_put"])
def test_positions_of_rows_become_row_limits(recognise, case):
    graph = recognise(case)
    (inputs,) = graph.attention_inputs()
    assert len(inputs) == 5 and inputs[3] == "none"
    assert "bool[" not in graph.text


@pytest.mark.parametrize(
    ("case", "masked", "inputs"),
    [
        ("sdpa_raw", "zero", 3),
        ("sdpa_dec", "zero", 3),
        ("sdpa_bool_raw", "zero", 4),
        ("sdpa_bool_dec", "zero", 4),
        ("sdpa_inf_dec", "zero", 4),
        ("sdpa_min_dec", "zero", 4),
        ("attention_plain", "nan", 3),
        ("attention_nan_rows", "nan", 4),
        ("attention_bool_dec", "nan", 4),
        ("attention_gqa_min_raw", "nan", 4),
        ("attention_gqa_min_dec", "nan", 4),
        ("mask_scores_raw", "zero", 4),
        ("mask_scores_dec", "zero", 4),
    ],
)
def test_written_out_attention_is_one_node(recognise, case, masked, inputs):
    graph = recognise(case)
    assert not graph.of("softmax")
    assert [len(each) for each in graph.attention_inputs()] == [inputs]
    assert f'all_masked="{masked}"' in graph.text


@pytest.mark.parametrize("case", ["rms_norm", "rms_norm_builtin_dec", "rms_norm_static"])
def test_a_norm_is_one_node(recognise, case):
    assert recognise(case).ops == ["rms_norm"]


@pytest.mark.parametrize("case", ["rope_raw", "rope_dec", "rope_positions_raw"])
def test_rope_is_one_node_a_tensor(recognise, case):
    assert len(recognise(case).of("rope")) == 2


def test_interleaved_rope_is_another_thing(recognise):
    assert not recognise("rope_interleaved").of("rope")
