"""Archives that were changed, cut or corrupted are refused with a reason, harmless ones not."""

import json
import zipfile

import pytest
import torch
from pt2_print import read, refused
from pt2_programs import Mlp, R, S, exported
from torch.export import export


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
