"""The .pt2 reader sees what torch.export saved: every case is exported here, printed by `pt2_print`
and compared with torch's own view of the same file."""

import functools
import json
import math
import os
import pathlib
import subprocess
import zipfile
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch.export import Dim, export
from torch.utils._sympy.numbers import int_oo

BUILD = pathlib.Path(os.environ.get("LIVESHAPE_BUILD", "build/release"))
PRINT = BUILD / "pt2_print"
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
S = Dim("S", min=1, max=64)


def read(path, *flags):
    """The reader's JSON; fails the test with the reader's message if it refuses."""
    done = subprocess.run([PRINT, "--crc", *flags, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout if "--text" in flags else json.loads(done.stdout)


def refused(path):
    done = subprocess.run([PRINT, path], capture_output=True, text=True)
    assert done.returncode == 2, "the reader accepted it"
    return done.stderr


class Fn(torch.nn.Module):
    """A function as a module, for cases without weights."""

    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


# ---- modules ----------------------------------------------------------------------------------


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8, bias=False)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


class Views(torch.nn.Module):
    """Weights that are views of one storage, transposed and with an offset."""

    def __init__(self):
        super().__init__()
        base = torch.arange(24, dtype=torch.float32)
        self.register_buffer("whole", base.view(4, 6))
        self.register_buffer("turned", base.view(4, 6).t())
        self.register_buffer("tail", base[20:])
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("scratch", torch.ones(4), persistent=False)
        self.register_buffer("wide", torch.ones(1).expand(4))

    def forward(self, x):
        y = x @ self.whole @ self.turned + self.tail + self.scratch
        return y + self.wide + self.empty.sum()


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(2, 16, 4))

    def forward(self, x):
        self.count.add_(1)
        self.cache[:, : x.shape[1]].copy_(x)
        return x + self.cache[:, : x.shape[1]], self.count


class Nested(torch.nn.Module):
    def forward(self, x, d, l, n: int, *, scale=None, flag: bool = True):
        y = x + d["q"]["x"] * n
        if scale is not None and flag:
            y = y * scale
        return {"y": y, "parts": [l[0] + 1, l[1]], "n": n + x.shape[0]}


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.shape[0] > 5, lambda a: a.sin(), lambda a: a.cos(), (x,))


class NoGrad(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.exp()
        return y + 1


class Constants(torch.nn.Module):
    def forward(self, x):
        return x + torch.tensor([1.0, 2.0]) + float("inf") - 1e-30, x.masked_fill(
            x > 0, float("-inf")
        )


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair, serialized_type_name="test.Pair")
Point = namedtuple("Point", ["px", "py"])
torch.utils._pytree._register_namedtuple(Point, serialized_type_name="test.Point")


def case(model, args, shapes=None, kwargs=None, **options):
    return lambda: export(model(), args, kwargs, dynamic_shapes=shapes, **options)


def fn(function, args, shapes=None, **options):
    return case(lambda: Fn(function), args, None if shapes is None else (shapes,), **options)


R = torch.randn
NESTED_ARGS = (R(4, 3), {"q": {"x": R(4, 3)}}, [R(2), R(3)], 7)
NESTED_SHAPES = {
    "x": {0: S},
    "d": {"q": {"x": {0: S}}},
    "l": [None, None],
    "n": Dim.DYNAMIC,
    "scale": {0: S},
    "flag": None,
}
NESTED_KWARGS = {"scale": R(4, 1), "flag": True}

CASES = {
    "mlp": case(Mlp, (R(4, 8),), ({0: S},)),
    "mlp_strict": case(Mlp, (R(4, 8),), ({0: S},), strict=True),
    "mlp_bf16": lambda: export(Mlp().to(torch.bfloat16), (R(2, 8).to(torch.bfloat16),)),
    "tied": case(Tied, (torch.arange(6).view(2, 3),), ({0: Dim("B", max=8), 1: S},)),
    "views": case(Views, (R(5, 4),), ({0: S},)),
    "counter": case(Counter, (R(2, 4, 4),), ({1: Dim("T", max=15)},)),
    "counter_strict": case(Counter, (R(2, 4, 4),), ({1: Dim("T", max=15)},), strict=True),
    "nested": case(Nested, NESTED_ARGS, NESTED_SHAPES, NESTED_KWARGS),
    "nested_strict": case(Nested, NESTED_ARGS, NESTED_SHAPES, NESTED_KWARGS, strict=True),
    "cond": case(Cond, (R(8, 2),), ({0: S},)),
    "no_grad": case(NoGrad, (R(8, 2),), ({0: S},)),
    "constants": case(Constants, (R(3, 2),), ({0: S},)),
    "derived_dim": fn(lambda x: x.view(4, -1), (R(8),), ({0: 4 * Dim("q", max=9)},)),
    "guards": fn(lambda x: x.view(x.shape[0] // 4, 4), (R(8),), ({0: Dim.AUTO},)),
    "expressions": fn(
        lambda x: (x[: x.shape[0] // 2], torch.cat([x, x[1:]]), x[: 64 - x.shape[0]]),
        (R(40),),
        ({0: Dim("n", min=33, max=62)},),
    ),
    "unbacked": fn(lambda x: (x.nonzero() + 1, x[x > 0]), (R(8),), ({0: S},)),
    "item": fn(lambda x: x.new_zeros(x[0].item()), (torch.tensor([3, 4]),)),
    "sym_float": fn(lambda x: x * (x.shape[0] ** 0.5) / x.shape[0], (R(8, 2),), ({0: S},)),
    "index": fn(lambda x, i: x[:, i, None], (R(4, 5), torch.tensor([0, 2])), ({0: S}, None)),
    "lists": fn(
        lambda x: [*torch.split(x, 2, -1), *torch.topk(x, 2), x.max(dim=-1)[0]],
        (R(4, 6),),
        ({0: S},),
    ),
    "dtypes": fn(
        lambda x: (x.to(torch.int32), x.bool(), torch.zeros(2, dtype=torch.float64), x.half()),
        (R(4),),
        ({0: S},),
    ),
    "input_mutation": fn(lambda x: x.add_(1), (R(4),), ({0: S},)),
    "passthrough": fn(lambda x, y: (x, x, x.shape[0], None, 3), (R(4), R(2)), ({0: S}, None)),
    "none_input": fn(lambda x, y, s: x + 1, (R(4), None, "mode"), ({0: S}, None, None)),
    "scalar": fn(lambda x: x.sum(), (R(4),), ({0: S},)),
    "rank6": fn(lambda x: x.permute(5, 4, 3, 2, 1, 0), (R(2, 3, 1, 2, 4, 5),), ({0: S},)),
    "containers": fn(
        lambda p, t, o: (Pair(p.left, o["b"]), Point(t.px + 1, t.py)),
        (Pair(R(2), R(3)), Point(R(1), R(2)), OrderedDict(a=R(2), b=R(2))),
    ),
    "channels_last": fn(
        lambda x: x.to(memory_format=torch.channels_last) + 1, (R(2, 3, 4, 4),), ({0: S},)
    ),
    "attention": fn(
        torch.nn.functional.scaled_dot_product_attention,
        (R(2, 4, 6, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)),
        ({2: S}, {2: S}, {2: S}),
    ),
    "map": fn(
        lambda x: torch._higher_order_ops.map(lambda a, b: a + b, x, R(3)), (R(4, 3),), ({0: S},)
    ),
}
# transformers' own models, tiny and with random weights.


def tiny(name, **extra):
    transformers = pytest.importorskip("transformers")
    sizes = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 64,
    }
    config = getattr(transformers, f"{name}Config")(**sizes, **extra)
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def decoder(name):
    shapes = {"input_ids": {0: Dim("B", max=4), 1: S}, "use_cache": None}
    ids = torch.arange(10).view(2, 5)
    return export(tiny(name), (), {"input_ids": ids, "use_cache": False}, dynamic_shapes=shapes)


def static_cache(strict):
    executorch = pytest.importorskip("transformers.integrations.executorch")
    model = tiny("Qwen3")
    model.generation_config = type(model.generation_config)(
        use_cache=True,
        cache_implementation="static",
        max_length=32,
        cache_config={"batch_size": 1, "max_cache_len": 32, "device": "cpu"},
    )
    module = executorch.TorchExportableModuleForDecoderOnlyLM(model, 1, 32)
    seq = Dim("seq", min=2, max=31)
    return module.export(
        input_ids=torch.arange(5).view(1, 5),
        cache_position=torch.arange(5),
        dynamic_shapes={"input_ids": {1: seq}, "cache_position": {0: seq}},
        strict=strict,
    )


CASES |= {
    "llama": lambda: decoder("Llama"),
    "qwen3": lambda: decoder("Qwen3"),
    "qwen3_static_cache": lambda: static_cache(False),
    "qwen3_static_cache_strict": lambda: static_cache(True),
}
# torch itself fails on these: mutated constants, and what its own functionalisation refuses.
NOT_DECOMPOSED = {"qwen3_static_cache", "map"}


@functools.cache
def program(name):
    return CASES[name]()


# ---- comparison -------------------------------------------------------------------------------


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


# ---- particulars ------------------------------------------------------------------------------


def exported(name, tmp_path, rename="model.pt2"):
    path = tmp_path / rename
    torch.export.save(program(name), path)
    return path


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
    assert linear["source"].startswith("test_pt2_reader.py:")
    assert "self.up(self.norm(x))" in linear["source_text"]
    assert (linear["module"], linear["module_type"]) == ("up", "torch.nn.modules.linear.Linear")


# ---- refusals ---------------------------------------------------------------------------------


def rewritten(path, target, change, compression=zipfile.ZIP_STORED):
    """A copy of the archive in which change(member name below the root, bytes) -> bytes or None."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", compression) as new:
        for name in old.namelist():
            data = change(name.split("/", 1)[1], old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def edit_json(member, edit):
    def change(name, data):
        if name != member:
            return data
        document = json.loads(data)
        edit(document)
        return json.dumps(document).encode()

    return change


MODEL = "models/model.json"
REFUSALS = {
    "newer major": (
        edit_json(MODEL, lambda m: m["schema_version"].update(major=9)),
        "schema version 9.20; this build reads 8.x",
    ),
    "older major": (
        edit_json(MODEL, lambda m: m["schema_version"].update(major=7)),
        "export it again",
    ),
    "unknown argument": (
        edit_json(
            MODEL,
            lambda m: m["graph_module"]["graph"]["nodes"][1]["inputs"][0].update(
                arg={"as_thing": 1}
            ),
        ),
        "unknown kind of argument `as_thing`",
    ),
    "wrong type": (
        edit_json(MODEL, lambda m: m["graph_module"]["graph"]["nodes"][0].update(target=3)),
        "graph_module.graph.nodes[0].target: expected a string, found an integer",
    ),
    "undefined value": (
        edit_json(MODEL, lambda m: m["graph_module"]["graph"]["nodes"].pop(0)),
        "is used before it is defined",
    ),
    "pickle": (
        edit_json(
            "data/weights/model_weights_config.json",
            lambda c: c["config"]["up.bias"].update(use_pickle=True),
        ),
        "`up.bias` is stored as a Python pickle",
    ),
    "out of storage": (
        edit_json(
            "data/weights/model_weights_config.json",
            lambda c: c["config"]["up.bias"]["tensor_meta"].update(storage_offset={"as_int": 1}),
        ),
        "needs 68 bytes of its storage `data/weights/weight_1`, which has 64",
    ),
    "missing weight": (
        edit_json(
            "data/weights/model_weights_config.json", lambda c: c["config"].pop("down.weight")
        ),
        "parameter `down.weight` of the program is not among the archive's weights",
    ),
    "missing member": (
        lambda name, data: None if name.endswith("weight_0") else data,
        "no member `data/weights/weight_0`",
    ),
    "no model": (lambda name, data: None if name == MODEL else data, "models/model.json"),
    "big endian": (lambda name, data: b"big" if name == "byteorder" else data, "byte order"),
    "layout version": (
        lambda name, data: b"1" if name == "archive_version" else data,
        "layout version is `1`",
    ),
}


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return exported("mlp", tmp_path_factory.mktemp("mlp"))


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_why(name, mlp, tmp_path):
    change, message = REFUSALS[name]
    assert message in refused(rewritten(mlp, tmp_path / "bad.pt2", change))


def test_unchanged_copy_still_reads(mlp, tmp_path):
    # Python's zip has no data descriptors and no padding, and the pickle is not needed.
    keep = rewritten(mlp, tmp_path / "other.pt2", lambda n, d: None if "sample_inputs" in n else d)
    assert read(keep) == read(mlp)


def test_compressed_member_is_refused_by_name(mlp, tmp_path):
    bad = rewritten(mlp, tmp_path / "z.pt2", lambda n, d: d, zipfile.ZIP_DEFLATED)
    assert "data/weights/weight_0` is compressed" in refused(bad)


def test_corrupt_json_and_weights_are_found(mlp, tmp_path):
    data = bytearray(mlp.read_bytes())
    at = data.index(b'"torch.ops.aten.linear.default"')
    data[at + 11] ^= 1
    (tmp_path / "bad.pt2").write_bytes(data)
    assert "is corrupt: its CRC-32" in refused(tmp_path / "bad.pt2")


def test_truncated_file(mlp, tmp_path):
    data = mlp.read_bytes()
    for size in range(0, len(data), 997):
        (tmp_path / "cut.pt2").write_bytes(data[:size])
        assert "no end-of-directory record" in refused(tmp_path / "cut.pt2")


def test_meta_export_is_named_unless_weights_were_dropped(tmp_path):
    with torch.device("meta"):
        model, x = Mlp(), R(4, 8)
    ep = export(model, (x,), dynamic_shapes=({0: S},))
    torch.export.save(ep, tmp_path / "meta.pt2")
    message = refused(tmp_path / "meta.pt2")
    assert "exported on meta or fake tensors" in message and "`up.weight`" in message
    torch.export.save(
        ep, tmp_path / "meta.pt2", extra_files={"liveshape.json": '{"weights_dropped": true}'}
    )
    seen = read(tmp_path / "meta.pt2")
    assert seen["weights_dropped"] and all(w["dropped"] for w in seen["weights"])


def test_renamed_archive(mlp, tmp_path):
    (tmp_path / "other name.pt2").write_bytes(mlp.read_bytes())
    assert read(tmp_path / "other name.pt2")["graph"]
