"""The .pt2 reader sees what torch.export saved: every program is exported here, printed by
`pt2_print` and compared with torch's own view of the same file."""

import math

import pytest
import torch
from pt2_print import read
from pt2_programs import CASES, NOT_DECOMPOSED, exported, program
from torch.utils._sympy.numbers import int_oo

KINDS = {
    "USER_INPUT": "user_input",
    "PARAMETER": "parameter",
    "BUFFER": "buffer",
    "CONSTANT_TENSOR": "tensor_constant",
    "CUSTOM_OBJ": "custom_obj",
}
DTYPES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def expected_nodes(graph):
    """torch's nodes as the file holds them: getitem is folded into its producer."""
    return [
        (node.name, target_name(node.target))
        for node in graph.nodes
        if node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"
    ]


def target_name(target):
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.__name__}"
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target.namespace}.{target.__name__}"
    return f"{target.__module__}.{target.__name__}"


def check_values(ep, seen):
    """Shapes and dtypes of every tensor; sizes by evaluating the stored expression with sympy."""
    metas = seen["graph"]["tensor_values"]
    for node in ep.graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or node.name not in metas:
            continue
        meta = metas[node.name]
        assert meta["dtype"] == DTYPES[value.dtype], node.name
        assert len(meta["sizes"]) == value.ndim == len(meta["strides"]), node.name
        for ours, theirs in zip(meta["sizes"], value.shape, strict=True):
            if isinstance(ours, int):
                assert ours == theirs
            else:
                assert isinstance(theirs, torch.SymInt)


def check_signature(ep, seen):
    inputs, specs = seen["inputs"], ep.graph_signature.input_specs
    assert len(inputs) == len(specs)
    for ours, spec in zip(inputs, specs, strict=True):
        if isinstance(spec.arg, torch.export.graph_signature.ConstantArgument):
            assert ours["kind"] == "constant_input"
            assert ours["arg"]["value"] == spec.arg.value
            continue
        assert ours["kind"] == KINDS[spec.kind.name]
        assert ours["name"] == spec.arg.name
        assert (ours["target"] or None) == spec.target
        if ours["kind"] == "buffer":
            assert ours["persistent"] == spec.persistent
    assert [o["kind"] for o in seen["outputs"]] == [
        s.kind.name.lower() for s in ep.graph_signature.output_specs
    ]
    for ours, spec in zip(seen["outputs"], ep.graph_signature.output_specs, strict=True):
        if not isinstance(spec.arg, torch.export.graph_signature.ConstantArgument):
            assert ours["name"] == spec.arg.name
        assert (ours["target"] or None) == spec.target
    paths = [i["path"] for i in inputs if i["path"]]
    assert len(paths) == len(set(paths)) and all(paths)


def check_weights(ep, seen):
    stored = {w["name"]: w for w in seen["weights"] + seen["constants"]}
    for name, tensor in [*ep.state_dict.items(), *ep.constants.items()]:
        weight = stored[name]
        assert weight["dtype"] == DTYPES[tensor.dtype]
        assert weight["sizes"] == list(tensor.shape)
        assert weight["strides"] == list(tensor.stride())
        assert weight["contiguous"] == tensor.is_contiguous()


def check(ep, path):
    torch.export.save(ep, path, extra_files={"note.txt": "grüße"})
    seen = read(path)
    assert seen["schema_version"] == [8, 20]
    assert seen["torch_version"] == torch.__version__
    assert seen["dialect"] == ep.verifiers[0].dialect
    ours = [(node["name"], node["target"]) for node in seen["graph"]["nodes"]]
    assert ours == expected_nodes(ep.graph)
    check_signature(ep, seen)
    check_values(ep, seen)
    check_weights(ep, seen)
    ranges = {str(k): [bound(v.lower), bound(v.upper)] for k, v in ep.range_constraints.items()}
    assert seen["ranges"] == ranges
    assert seen["guards"] == ep._guards_code
    assert seen["extras"] == {"note.txt": "grüße"}
    assert "nodes:" in read(path, "--text")
    return seen


def bound(number):
    return None if number in (int_oo, -int_oo) else int(number)


@pytest.mark.parametrize("name", CASES)
def test_reader_sees_what_torch_saved(name, tmp_path):
    ep = program(name)
    check(ep, tmp_path / "model.pt2")
    if name not in NOT_DECOMPOSED:
        check(ep.run_decompositions(), tmp_path / "decomposed.pt2")


def paths(specs, kind):
    return [s["path"] for s in specs if s["kind"] in (kind, "constant_input")]


@pytest.mark.parametrize("name", ["nested", "nested_strict"])
def test_nested_names(name, tmp_path):
    seen = read(exported(name, tmp_path))
    assert paths(seen["inputs"], "user_input") == [
        *["x", "d.q.x", "l.0", "l.1", "n", "scale", "flag"],
    ]
    assert paths(seen["outputs"], "user_output") == ["y", "parts.0", "parts.1", "n"]


def test_container_names(tmp_path):
    seen = read(exported("containers", tmp_path))
    assert paths(seen["inputs"], "user_input") == [
        *["args_0.left", "args_0.right", "args_1.px", "args_1.py", "args_2.a", "args_2.b"],
    ]
    assert paths(seen["outputs"], "user_output") == [
        *["out.0.left", "out.0.right", "out.1.px", "out.1.py"],
    ]


def test_output_of_transformers_is_named(tmp_path):
    seen = read(exported("llama", tmp_path))
    assert paths(seen["outputs"], "user_output") == ["logits"]
    assert paths(seen["inputs"], "user_input") == ["input_ids", "use_cache"]
    modules = {node["module"] for node in seen["graph"]["nodes"]}
    assert "model.layers.1.self_attn.q_proj" in modules
    assert any(node["source"].startswith("modeling_llama.py:") for node in seen["graph"]["nodes"])


def test_tied_weights_and_views_share_a_storage(tmp_path):
    tied = {w["name"]: w["storage"] for w in read(exported("tied", tmp_path))["weights"]}
    assert tied["embed.weight"] == tied["head.weight"]
    seen = read(exported("views", tmp_path))
    weights = {w["name"]: w for w in seen["weights"]}
    assert weights["whole"]["storage"] == weights["turned"]["storage"] == weights["tail"]["storage"]
    assert weights["tail"]["storage_offset"] == 20
    assert not weights["turned"]["contiguous"]
    assert weights["empty"]["sizes"] == [0, 3] and weights["empty"]["storage_bytes"] == 0
    assert [w["name"] for w in seen["constants"]] == ["scratch"]


def test_static_cache_constants_share_their_buffers_storage(tmp_path):
    seen = read(exported("qwen3_static_cache", tmp_path))
    weights = seen["weights"] + seen["constants"]
    storages = [w["storage"] for w in weights if w["sizes"][1:2] == [2] and len(w["sizes"]) == 4]
    assert len(storages) > len(set(storages))


def test_floats_and_lists(tmp_path):
    nodes = read(exported("constants", tmp_path))["graph"]["nodes"]
    values = [i["arg"]["value"] for n in nodes for i in n["inputs"] if i["arg"]["kind"] == "float"]
    assert "Infinity" in values and "-Infinity" in values
    assert any(isinstance(v, float) and math.isclose(v, 1e-30) for v in values)
    nodes = read(exported("index", tmp_path))["graph"]["nodes"]
    index = next(n for n in nodes if n["target"] == "torch.ops.aten.index.Tensor")
    assert index["inputs"][1]["arg"]["kind"] == "list of optional tensors"
    assert index["inputs"][1]["arg"]["value"][0] == ""


def test_subgraphs_have_their_own_tables(tmp_path):
    nodes = read(exported("cond", tmp_path))["graph"]["nodes"]
    cond = next(n for n in nodes if n["target"] == "torch.ops.higher_order.cond")
    graphs = [i["arg"]["value"] for i in cond["inputs"] if i["arg"]["kind"] == "graph"]
    assert [g["nodes"][0]["target"] for g in graphs] == [
        "torch.ops.aten.sin.default",
        "torch.ops.aten.cos.default",
    ]
    assert all(g["tensor_values"] for g in graphs)


def test_source_line_is_the_users(tmp_path):
    nodes = read(exported("mlp", tmp_path))["graph"]["nodes"]
    linear = next(n for n in nodes if n["target"] == "torch.ops.aten.linear.default")
    assert linear["source"].startswith("pt2_programs.py:")
    assert "self.up(self.norm(x))" in linear["source_text"]
    assert (linear["module"], linear["module_type"]) == ("up", "torch.nn.modules.linear.Linear")
