"""`liveshape dump model.pte` sees what ExecuTorch's own reader sees in the same bytes (G8)."""

import collections
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from executorch.exir import schema
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir._serialize._program import _get_extended_header
from pte_programs import ARTIFACT, PROGRAMS, ours, portable, xnnpack

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))
DTYPES = {"FLOAT": "f32", "LONG": "i64", "HALF": "f16", "BOOL": "bool"}
CALLS = {
    "KernelCall": "kernel_calls",
    "DelegateCall": "delegate_calls",
    "MoveCall": "moves",
    "JumpFalseCall": "jumps",
    "FreeCall": "frees",
}


def dump(path, *flags, code=0):
    done = subprocess.run([CLI, "dump", path, *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    # The name tells nothing: the content does.
    folder = tmp_path_factory.mktemp("pte")
    for name, make in PROGRAMS.items():
        (folder / name).write_bytes(make())
    return folder


def value(values, index):
    val = values[index].val
    if isinstance(val, schema.Tensor):
        return {
            "kind": "tensor",
            "dtype": DTYPES[val.scalar_type.name],
            "sizes": val.sizes,
            "dynamism": val.shape_dynamism.name.removeprefix("DYNAMIC_").lower(),
        }
    return {"kind": {"Int": "int", "Bool": "bool", "Null": "none"}[type(val).__name__]}


def chain(instructions):
    counts = collections.Counter(CALLS[type(i.instr_args).__name__] for i in instructions)
    return {name: counts[name] for name in (*CALLS.values(), "unknown")}


def calls(plan, kind, index_of):
    return collections.Counter(
        index_of(i.instr_args)
        for c in plan.chains
        for i in c.instructions
        if isinstance(i.instr_args, kind)
    )


def method(plan, program, data, base):
    tensors = [v.val for v in plan.values if isinstance(v.val, schema.Tensor)]
    kernels = calls(plan, schema.KernelCall, lambda call: call.op_index)
    delegated = calls(plan, schema.DelegateCall, lambda call: call.delegate_index)
    delegates = []
    for index, delegate in enumerate(plan.delegates):
        at = delegate.processed.index
        if delegate.processed.location is schema.DataLocation.SEGMENT:
            segment = program.segments[at]
            place = {"in": "segment", "offset": base + segment.offset, "size": segment.size}
        else:
            blob = bytes(program.backend_delegate_data[at].data)
            place = {"in": "inline", "offset": data.index(blob), "size": len(blob)}
        delegates.append(
            {
                "id": delegate.id,
                "calls": delegated[index],
                "index": at,
                "compile_specs": [
                    {"key": spec.key, "hex": bytes(spec.value).hex()}
                    for spec in delegate.compile_specs
                ],
                **place,
            }
        )
    return {
        "name": plan.name,
        "values": len(plan.values),
        "tensors": len(tensors),
        "constant_tensors": sum(t.data_buffer_idx > 0 and not t.allocation_info for t in tensors),
        "external_tensors": 0,
        "inputs": [value(plan.values, i) for i in plan.inputs],
        "outputs": [value(plan.values, i) for i in plan.outputs],
        "memory": plan.non_const_buffer_sizes,
        "chains": [chain(c.instructions) for c in plan.chains],
        "operators": [
            {"name": f"{op.name}.{op.overload}" if op.overload else op.name, "calls": kernels[i]}
            for i, op in enumerate(plan.operators)
        ],
        "delegates": delegates,
    }


def tensors_of(subsegments):
    return {"segment": subsegments.segment_index, "tensors": len(subsegments.offsets) - 1}


def expected(data):
    """ExecuTorch's view of the bytes, in the words of our JSON."""
    header = _get_extended_header(data)
    program = _flatbuffer_to_program(data[: header.program_size] if header else data)
    base = header.segment_base_offset if header else len(data)
    seen = None
    if header:
        seen = {
            "length": header.length,
            "program_size": header.program_size,
            "segment_base_offset": header.segment_base_offset,
        }
        if header.length >= 32:
            seen["segment_data_size"] = header.segment_data_size
    constants = program.constant_segment
    inline = program.constant_buffer or []
    return {
        "format": "pte",
        "version": program.version,
        "bytes": len(data),
        "extended_header": seen,
        "segments": [{"offset": base + s.offset, "size": s.size} for s in program.segments],
        "constants": tensors_of(constants) if constants and constants.offsets else None,
        "inline_constants": max(len(inline) - 1, 0),
        "inline_constant_bytes": sum(len(bytes(buffer.storage)) for buffer in inline),
        "initial_values": [tensors_of(s) for s in program.mutable_data_segments or []],
        "named_data": [
            {"key": named.key, "segment": named.segment_index} for named in program.named_data or []
        ],
        "methods": [method(plan, program, data, base) for plan in program.execution_plan],
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_sees_what_executorch_sees(files, name):
    seen = json.loads(dump(files / name, "--json"))
    for delegate in (d for m in seen["methods"] for d in m["delegates"]):
        assert ("artifact" in delegate) == (delegate["id"] == "LiveshapeBackend")
        delegate.pop("artifact", None)
    assert seen == expected((files / name).read_bytes())


def test_the_programs_differ_where_they_should(files):
    """The comparison above would say little if every file had the same parts."""
    seen = {name: json.loads(dump(files / name, "--json")) for name in PROGRAMS}
    ids = {d["id"] for s in seen.values() for m in s["methods"] for d in m["delegates"]}
    assert ids == {"XnnpackBackend", "VulkanBackend", "LiveshapeBackend"}
    places = {d["in"] for s in seen.values() for m in s["methods"] for d in m["delegates"]}
    assert places == {"inline", "segment"}
    assert seen["portable"]["initial_values"] and len(seen["portable"]["methods"]) == 2
    assert seen["without_header"]["extended_header"] is None
    assert seen["without_header"]["inline_constant_bytes"] > 0
    assert "segment_data_size" not in seen["with_old_header"]["extended_header"]
    assert [n["key"] for n in seen["ours_with_named_data"]["named_data"]] == [
        "weight",
        "bias",
        "tied",
    ]
    assert {i["kind"] for i in seen["portable"]["methods"][0]["inputs"]} == {"tensor", "bool"}


@pytest.mark.parametrize("name", ["ours_inline", "ours_in_segment"])
def test_our_blob_is_dumped_as_the_artifact_is(files, name):
    delegates = json.loads(dump(files / name, "--json"))["methods"][0]["delegates"]
    assert delegates[1]["artifact"] == json.loads(dump(ARTIFACT, "--json"))
    text, alone = dump(files / name), dump(ARTIFACT)
    assert "".join(f"    {line}\n" for line in alone.splitlines()) in text
    assert dump(files / name, "--format", "dot") == dump(ARTIFACT, "--format", "dot")


def test_text(files):
    text = dump(files / "ours_with_named_data")
    for line in [
        r"method forward: \d+ values, \d+ of them tensors",
        r"  input 0: f32\[<=8, <=4\]",
        r"  outside delegates: 1 x aten::sort\.values",
        r"  delegate 0: XnnpackBackend, 1 calls, \d+ bytes at \d+ \(segment \d\)",
        r'    compile spec quant: 2 bytes, "q8"',
        r"    compile spec raw: 2 bytes, 0x00ff",
        r"named data bias: 5 bytes in segment \d",
    ]:
        assert re.search(f"^{line}", text, re.MULTILINE), (line, text)


def refused(tmp_path, data, *flags):
    path = tmp_path / "x.pte"
    path.write_bytes(data)
    return dump(path, *flags, code=2)


def patched(data, offset, replacement):
    return data[:offset] + replacement + data[offset + len(replacement) :]


def test_refusals_tell_where(tmp_path):
    data = xnnpack()
    size = len(data)

    def u64(number):
        return number.to_bytes(8, "little")

    assert "extended header at 8" in refused(tmp_path, patched(data, 12, b"\x08\0\0\0"))
    assert f"a program of {size + 1} bytes" in refused(tmp_path, patched(data, 16, u64(size + 1)))
    assert f"begin at {size + 1}" in refused(tmp_path, patched(data, 24, u64(size + 1)))
    assert "bytes of segments" in refused(tmp_path, patched(data, 32, u64(2**63)))
    assert "not a well-formed FlatBuffer" in refused(tmp_path, patched(data, 0, b"\xff\xff\0\0"))
    assert "format ET99" in refused(tmp_path, patched(data, 4, b"ET99"))
    assert re.search(r"segment 1 at \d+: has", refused(tmp_path, patched(data, 32, u64(1))))
    assert "no delegate LiveshapeBackend" in refused(tmp_path, portable(), "--format", "dot")
    mine = ours(segments=True)
    at = mine.index(b"LIVESHAP\1")
    message = refused(tmp_path, patched(mine, at + 80, bytes(64)))
    assert f"the blob of LiveshapeBackend at {at}" in message


def test_every_cut_is_refused(tmp_path):
    data = ours(segments=True, named=True)
    for size in [0, 4, 7, 8, 20, 39, 64, len(data) // 2, len(data) - 1]:
        refused(tmp_path, data[:size])
