"""safetensors in and out of the CLI, against the reference package; bad files are refused."""

import json
import os
import struct
import subprocess
from pathlib import Path

import liveshape
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape")
DEMO = ROOT / "models" / "demo"


def cli(*arguments, code=0):
    done = subprocess.run(
        [str(a) for a in (CLI, *arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("safetensors")
    cli("compile", DEMO / "demo.pt2", "-o", folder / "demo.live")
    cli("compile", DEMO / "demo.pt2", "-o", folder / "external.live", "--external", "embed.*")
    return folder


TOKENS = torch.arange(10).reshape(2, 5)


def test_inputs_and_outputs(live, tmp_path):
    save_file({"tokens": TOKENS, "pos": torch.tensor(0)}, tmp_path / "all.safetensors")
    np.save(tmp_path / "tokens.npy", TOKENS.numpy())
    model = live / "demo.live"
    npy = ["--input", f"tokens={tmp_path / 'tokens.npy'}", "--input", "pos=0"]
    cli("run", model, *npy, "--out", tmp_path / "npy")
    want = np.load(tmp_path / "npy" / "00_out.npy")
    archive = tmp_path / "all.safetensors"
    for flags in (
        ["--input", archive],
        ["--input", f"tokens={archive}", "--input", "pos=0"],
        ["--input", archive, "--input", "pos=0"],
    ):
        out = tmp_path / "result.safetensors"
        cli("run", model, *flags, "--out", out)
        result = load_file(out)
        assert list(result) == ["out"]
        np.testing.assert_array_equal(result["out"].numpy(), want)


def test_every_dtype_survives(tmp_path):
    kinds = [
        "float32",
        "float16",
        "bfloat16",
        "float64",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
    ]

    class Same(torch.nn.Module):
        def forward(self, **inputs):
            return {name: value.clone() for name, value in inputs.items()}

    torch.manual_seed(0)
    inputs = {k: (torch.randn(3, 5) * 9).to(getattr(torch, k)) for k in kinds}
    inputs["float32"] = inputs["float32"][:, :0].contiguous()  # a zero extent is legal
    liveshape.export(Same(), (), inputs).save(tmp_path / "same.live")
    save_file(inputs, tmp_path / "in.safetensors", metadata={"made": "by a test"})
    out = tmp_path / "out.safetensors"
    report = cli(
        "run", tmp_path / "same.live", "--input", tmp_path / "in.safetensors", "--out", out
    )
    with safe_open(out, "pt") as written:
        found = [written.get_tensor(name) for name in written.keys()]  # noqa: SIM118
    assert len(found) == len(kinds), report
    by_dtype = {str(value.dtype).removeprefix("torch."): value for value in found}
    for kind in kinds:
        assert torch.equal(by_dtype[kind], inputs[kind]), kind


def test_constants_of_a_checkpoint(live, tmp_path):
    weights = torch.export.load(DEMO / "demo.pt2").state_dict
    save_file({k: v.detach().contiguous() for k, v in weights.items()}, tmp_path / "w.safetensors")
    np.save(tmp_path / "t.npy", TOKENS.numpy())
    inputs = ["--input", f"tokens={tmp_path / 't.npy'}", "--input", "pos=0"]
    cli("run", live / "demo.live", *inputs, "--out", tmp_path / "whole.safetensors")
    want = load_file(tmp_path / "whole.safetensors")["out"]
    for constant in (tmp_path / "w.safetensors", f"embed.weight={tmp_path / 'w.safetensors'}"):
        out = tmp_path / "given.safetensors"
        cli("run", live / "external.live", *inputs, "--constant", constant, "--out", out)
        torch.testing.assert_close(load_file(out)["out"], want)
    wrong = cli(
        "run", live / "demo.live", *inputs, "--constant", tmp_path / "w.safetensors", code=2
    )
    assert "names none of its" in wrong


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="I64", shape=(1, 1), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


BAD = {
    "empty": (b"", "no header length"),
    "short": (b"\x01\x02", "no header length"),
    "beyond the file": (file_of({}, length=1000), "a header of 1000 bytes, 2 are there"),
    "beyond the limit": (file_of({}, length=2**63), "a header of 9223372036854775808 bytes"),
    "no JSON": (file_of(b"{tokens"), "safetensors"),
    "no object": (file_of(b"[1]"), "expected an object"),
    "twice": (file_of(b'{"a":1,"a":1}'), "safetensors"),
    "no dtype": (file_of({"tokens": {}}), "dtype"),
    "unknown dtype": (file_of({"tokens": entry("F8_E4M3")}, bytes(8)), "dtype `F8_E4M3`"),
    "negative dim": (file_of({"tokens": entry(shape=(-1, -1))}, bytes(8)), "negative"),
    "overflow": (file_of({"tokens": entry(shape=(2**62, 2**62))}, bytes(8)), "does not have"),
    "size": (file_of({"tokens": entry(shape=(1, 2))}, bytes(8)), "does not have the 8 bytes"),
    "offsets outside": (file_of({"tokens": entry(offsets=(0, 16))}, bytes(8)), "0 to 16 of 8"),
    "offsets reversed": (file_of({"tokens": entry(offsets=(8, 0))}, bytes(8)), "8 to 0 of 8"),
    "three offsets": (file_of({"tokens": entry(offsets=(0, 4, 8))}, bytes(8)), "3 numbers"),
    "a hole": (file_of({"tokens": entry(offsets=(8, 16))}, bytes(16)), "hole at byte 0"),
    "left over": (file_of({"tokens": entry()}, bytes(9)), "end at byte 8 of 9"),
    "overlap": (file_of({"a": entry(), "b": entry()}, bytes(8)), "overlaps at byte 8"),
    "bool": (file_of({"tokens": entry("BOOL", (1,), (0, 1))}, b"\x02"), "neither 0 nor 1"),
    "not an input": (file_of({"other": entry()}, bytes(8)), "other"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_refused(kind, live, tmp_path):
    data, message = BAD[kind]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    assert message in cli("run", live / "demo.live", "--input", path, "--input", "pos=0", code=2)


def test_wrong_uses(live, tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"z": TOKENS}, path)
    model = live / "demo.live"
    assert "no tensor `tokens`; there are z" in cli(
        "run", model, "--input", f"tokens={path}", "--input", "pos=0", code=2
    )
    assert "with --step it is a directory" in cli(
        "run", model, "--out", path, "--step", "--input", "pos=0", code=2
    )
