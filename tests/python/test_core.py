"""liveshape._core: arrays in and out without copies, errors as exceptions, threads."""

import ast
import gc
import json
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from liveshape import _core

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    path = tmp_path_factory.mktemp("core") / "demo.live"
    report = _core.compile(str(DEMO / "demo.pt2"), str(path))
    assert {s["display"] for s in report["symbols"]} == {"P", "S", "B"}
    return path


@pytest.fixture(scope="module")
def artifact(demo):
    return _core.Artifact.load(str(demo))


@pytest.fixture
def session(artifact):
    return _core.Session(artifact, threads=1)


def tokens(batch=1, length=5):
    return np.arange(batch * length, dtype=np.int64).reshape(batch, length)


def exported(module, args, shapes=None, **options):
    """A module as an artifact in memory."""
    import io

    buffer = io.BytesIO()
    torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes), buffer)
    data, _ = _core.compile_bytes(buffer.getvalue(), **options)
    return _core.Artifact.from_bytes(data)


class Twice(torch.nn.Module):
    def forward(self, x):
        return x * 2


def twice(dtype):
    size = torch.export.Dim("N", min=1, max=64)
    return exported(Twice(), (torch.ones(3, 4, dtype=dtype),), ({0: size},))


def test_the_stub_tells_of_every_name():
    def public(names):
        return {n for n in names if not n.startswith("_") or n in ("__version__", "__init__")}

    tree = ast.parse((ROOT / "python/liveshape/_core.pyi").read_text())
    declared = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            declared[node.name] = public(
                n.target.id if isinstance(n, ast.AnnAssign) else n.name
                for n in node.body
                if isinstance(n, ast.AnnAssign | ast.FunctionDef)
            )
        elif isinstance(node, ast.FunctionDef):
            declared[node.name] = set()
        elif isinstance(node, ast.AnnAssign):
            declared[node.target.id] = set()
    del declared["Array"]
    assert set(declared) == public(dir(_core))
    for name, members in declared.items():
        if isinstance(getattr(_core, name), type):
            assert members - {"__init__"} == public(dir(getattr(_core, name))) - {"__init__"}, name


def test_the_demo_agrees_with_torch(session):
    golden = json.loads((DEMO / "golden/golden.json").read_text())
    for point in golden["points"][:3]:
        session.reset()
        for step in point["steps"]:
            ids, position = (np.load(DEMO / "golden" / e["file"]) for e in step["inputs"])
            session.run([ids, int(position)])
            want = np.load(DEMO / "golden" / step["outputs"][0]["file"])
            got = np.from_dlpack(session.output(0))
            assert got.shape == want.shape == session.output_dims(0)
            np.testing.assert_allclose(got, want, atol=golden["tolerance"] * 10)


def test_describes_the_model(artifact):
    assert {s.name: (s.min, s.max) for s in artifact.symbols} == {
        "P": (0, 125),
        "S": (1, 127),
        "B": (1, 4),
    }
    assert [(p.name, p.dtype, p.dims, p.is_integer) for p in artifact.inputs] == [
        ("tokens", "i64", ["B", "S"], False),
        ("pos", "i64", [], True),
    ]
    assert artifact.outputs[0].dims == ["B", "256"]
    assert "attention" in artifact.graph


def test_output_memory_outlives_the_session_object(artifact):
    session = _core.Session(artifact, threads=1)
    session.run([tokens(), 0])
    view = np.from_dlpack(session.output(0))
    copy = view.copy()
    del session
    gc.collect()
    np.testing.assert_array_equal(view, copy)


def test_session_memory_is_not_copied(session):
    session.run([tokens(), 0])
    a, b = torch.from_dlpack(session.output(0)), np.from_dlpack(session.output(0))
    assert a.data_ptr() == b.ctypes.data


def test_outputs_in_the_callers_memory(session):
    session.run([tokens(2), 0])
    want = np.from_dlpack(session.output(0)).copy()
    session.reset()
    out = torch.full((2, 256), float("nan"))
    session.run([torch.from_numpy(tokens(2)), 0], [out])
    np.testing.assert_array_equal(out.numpy(), want)
    with pytest.raises(RuntimeError, match="not in session memory"):
        session.output(0)
    session.reset()
    asked = []

    def make(index, dims):
        asked.append((index, dims, np.empty(dims, np.float32)))
        return asked[-1][2]

    session.run([tokens(2), 0], make)
    assert [a[:2] for a in asked] == [(0, (2, 256))]
    np.testing.assert_array_equal(asked[0][2], want)


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_any_alignment(session, shift):
    memory = np.zeros(5 * 8 + shift, np.uint8)[shift:]
    unaligned = memory.view(np.int64).reshape(1, 5)
    unaligned[:] = tokens()
    session.run([tokens(), 0])
    want = np.from_dlpack(session.output(0)).copy()
    session.reset()
    session.run([unaligned, 0])
    np.testing.assert_array_equal(np.from_dlpack(session.output(0)), want)


def test_read_only_arrays_are_read(session):
    frozen = tokens()
    frozen.flags.writeable = False
    session.run([frozen, 0])
    want = np.from_dlpack(session.output(0)).copy()
    session.reset()
    session.run([np.frombuffer(frozen.tobytes(), np.int64).reshape(1, 5), 0])
    np.testing.assert_array_equal(np.from_dlpack(session.output(0)), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8])
def test_dtypes_through_torch(dtype):
    session = _core.Session(twice(dtype), threads=1)
    x = torch.arange(20).reshape(5, 4).to(dtype)
    session.run([x])
    assert torch.equal(torch.from_dlpack(session.output(0)), x * 2)


def test_numpy_has_no_bfloat16_so_its_bits_travel():
    session = _core.Session(twice(torch.bfloat16), threads=1)
    x = torch.arange(20).reshape(5, 4).bfloat16()
    out = np.empty((5, 4), np.uint16)
    session.run([x.view(torch.uint16).numpy()], [out])
    assert torch.equal(torch.from_numpy(out).view(torch.bfloat16), x * 2)
    session.run([x.view(torch.uint16).numpy()])
    np.testing.assert_array_equal(np.from_dlpack(session.output(0, bits=True)), out)


class BadDevice:
    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **options):
        raise AssertionError("not asked for")


WRONG = {
    "dtype": (lambda: tokens().astype(np.int32), ValueError, "i32"),
    "unknown dtype": (lambda: tokens().astype(np.complex64), ValueError, "not known"),
    "big endian": (lambda: tokens().astype(">i8"), ValueError, "input 0 `tokens`"),
    "rank": (lambda: tokens()[0], ValueError, "rank"),
    "device": (BadDevice, ValueError, r"device.*copy it to the CPU"),
    "meta": (lambda: torch.empty(1, 5, dtype=torch.int64, device="meta"), ValueError, "tokens"),
    "transposed": (lambda: tokens(2, 2).T, ValueError, "not contiguous"),
    "strided": (lambda: torch.from_numpy(tokens(1, 10))[:, ::2], ValueError, "not contiguous"),
    "above the bound": (
        lambda: tokens(1, 128),
        IndexError,
        "`S` would be 128, above its bound 127",
    ),
    "below the minimum": (lambda: tokens(1, 0), IndexError, "`S`"),
    "no array": (lambda: [[1, 2]], TypeError, "list is no array"),
    "a number": (lambda: 5, TypeError, "int is no array"),
    "None": (lambda: None, TypeError, "NoneType"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_input_raises_and_changes_nothing(session, kind):
    make, error, message = WRONG[kind]
    session.run([tokens(), 0])
    before = session.snapshot(), session.symbol_values
    with pytest.raises(error, match=message):
        session.run([make(), 0])
    assert (session.snapshot(), session.symbol_values) == before
    session.run([tokens(), 0])


def test_requires_grad_says_what_to_do():
    session = _core.Session(twice(torch.float32), threads=1)
    with pytest.raises(ValueError, match=r"input 0 `x`: .*detach"):
        session.run([torch.ones(2, 4, requires_grad=True)])


@pytest.mark.parametrize(
    "value, error",
    [(1.5, TypeError), ("1", TypeError), (None, TypeError), (2**70, IndexError), (-1, IndexError)],
)
def test_wrong_integers(session, value, error):
    with pytest.raises(error, match=r"pos|`P`"):
        session.run([tokens(), value])


@pytest.mark.parametrize("value", [3, np.int32(3), np.array(3), torch.tensor(3)])
def test_integers_of_every_kind(session, value):
    session.bind([tokens(), value])
    assert session.symbol_values["P"] == 3


def test_wrong_outputs(session):
    x = np.zeros((1, 256), np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    for out, message in [
        (np.zeros((2, 256), np.float32), r"is f32\[1, 256\], given f32\[2, 256\]"),
        (np.zeros((1, 256)), "given f64"),
        (frozen, "read-only"),
        (np.zeros((1, 512), np.float32)[:, ::2], "not contiguous"),
    ]:
        with pytest.raises(ValueError, match=message):
            session.run([tokens(), 0], [out])
    with pytest.raises(ValueError, match="2 outputs given"):
        session.run([tokens(), 0], [x, x])
    with pytest.raises(ValueError, match="1 inputs given, the model has 2"):
        session.run([tokens()])
    with pytest.raises(ZeroDivisionError):
        session.run([tokens(), 0], lambda index, dims: 1 // 0)
    session.run([tokens(), 0], [x])  # and the session lives on


def test_an_output_over_an_input_is_refused():
    session = _core.Session(twice(torch.float32), threads=1)
    x = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="shares memory with an input"):
        session.run([x], [x])


def test_what_is_not_there(session, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _core.Artifact.load(str(tmp_path / "nowhere.live"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _core.compile(str(tmp_path / "nowhere.pt2"), str(tmp_path / "x.live"))
    with pytest.raises(KeyError, match="no state `cache`"):
        session.read_state("cache")
    with pytest.raises(KeyError, match="no constant has such a name"):
        _core.compile(str(DEMO / "demo.pt2"), str(tmp_path / "x.live"), externals=["none.*"])
    session.bind([tokens(), 0])
    with pytest.raises(IndexError, match="output 1: there are 1"):
        session.output_dims(1)
    with pytest.raises(RuntimeError):
        session.output(0)  # bound, but not run


def test_files_that_are_no_artifacts(demo):
    data = bytearray(demo.read_bytes())
    with pytest.raises(ValueError):
        _core.Artifact.from_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError):
        _core.Artifact.from_bytes(b"hello")
    with pytest.raises(ValueError):
        _core.Artifact.from_bytes(b"")
    with pytest.raises(ValueError):
        _core.compile_bytes(b"PK\x03\x04 not a zip")
    version = data.index(b"\x01\x00", 8)
    assert version < 16, "the header moved: see docs/artifact.md"
    struct.pack_into("<H", data, version, 9)
    with pytest.raises(NotImplementedError, match="newer"):
        _core.Artifact.from_bytes(data)


def test_bind_by_symbol(session):
    with pytest.raises(RuntimeError, match="nothing is bound"):
        session.output_dims(0)
    session.bind_symbols({"B": 3, "S": 7, "P": 0})
    assert session.output_dims(0) == (3, 256)
    values = session.symbol_values
    assert values == {"B": 3, "S": 7, "P": 0}
    session.bind_symbols([{**values, "B": 2}[name] for name in values])
    assert session.output_dims(0) == (2, 256)
    with pytest.raises(IndexError, match="`B` would be 5"):
        session.bind_symbols({"B": 5, "S": 7, "P": 0})
    with pytest.raises((KeyError, ValueError), match="Q"):
        session.bind_symbols({"Q": 5})


def test_states(session):
    initial = session.snapshot()
    session.run([tokens(), 0])
    name = session.states[0].name
    cache = np.from_dlpack(session.read_state(name))
    assert list(cache.shape) == session.states[0].dims
    after = session.snapshot()
    assert after != initial
    session.write_state(name, torch.zeros(cache.shape))
    assert not np.from_dlpack(session.read_state(name)).any()
    session.restore(after)
    np.testing.assert_array_equal(np.from_dlpack(session.read_state(name)), cache)
    session.reset()
    assert session.snapshot() == initial
    with pytest.raises(ValueError, match="bytes"):
        session.restore(after[:-1])
    with pytest.raises(ValueError, match="given f32"):
        session.write_state(name, np.zeros(3, np.float32))


def test_external_constants_are_borrowed(tmp_path):
    weight = torch.export.load(DEMO / "demo.pt2").state_dict["embed.weight"].detach()
    path = str(tmp_path / "external.live")
    report = _core.compile(str(DEMO / "demo.pt2"), path, externals=["embed.*"])
    assert report["externals"] == ["embed.weight"]
    with pytest.raises(ValueError, match=r"embed\.weight"):
        _core.Artifact.load(path)
    with pytest.raises(ValueError, match="f64"):
        _core.Artifact.load(path, {"embed.weight": weight.double()})
    whole = _core.Session(_core.Artifact.load(str(_demo_copy(tmp_path))), threads=1)
    whole.run([tokens(), 0])
    # The array's only owner is the artifact, and then only the session.
    lent = _core.Artifact.load(path, {"embed.weight": weight.clone()})
    session = _core.Session(lent, threads=1)
    del lent
    gc.collect()
    session.run([tokens(), 0])
    np.testing.assert_array_equal(
        np.from_dlpack(session.output(0)), np.from_dlpack(whole.output(0))
    )


def _demo_copy(folder):
    _core.compile(str(DEMO / "demo.pt2"), str(folder / "demo.live"))
    return folder / "demo.live"


def test_sizes_that_only_data_tells():
    class Pick(torch.nn.Module):
        def forward(self, x):
            return x[x > 0]

    size = torch.export.Dim("N", min=1, max=64)
    artifact = exported(Pick(), (torch.randn(9),), ({0: size},))
    session = _core.Session(artifact, threads=1)
    assert not session.output_known_at_bind(0)
    x = np.array([1, -1, 2, 3], np.float32)
    session.run([x], lambda index, dims: pytest.fail("asked before the run"))
    np.testing.assert_array_equal(np.from_dlpack(session.output(0)), [1, 2, 3])
    out = np.zeros(3, np.float32)
    session.run([x], [out])
    np.testing.assert_array_equal(out, [1, 2, 3])
    with pytest.raises(ValueError, match=r"is f32\[3\], given f32\[2\]"):
        session.run([x], [np.zeros(2, np.float32)])
    null = _core.Session(artifact, "null")
    null.run([x])
    assert null.output_dims(0) == (-1,)
    with pytest.raises(RuntimeError, match="only data would tell"):
        null.output(0)


class Long(torch.nn.Module):
    """Long enough that another thread meets it at work."""

    def forward(self, x):
        for _ in range(40):
            x = torch.tanh(x @ x)
        return x


@pytest.fixture(scope="module")
def long():
    size = torch.export.Dim("N", min=2, max=512)
    return exported(Long(), (torch.randn(8, 8),), ({0: size, 1: size},))


def test_a_session_serves_one_thread_at_a_time_and_others_raise(long):
    session = _core.Session(long, threads=1)
    x = np.zeros((384, 384), np.float32)
    met = 0
    for _ in range(20):
        worker = threading.Thread(target=session.run, args=([x],))
        worker.start()
        while worker.is_alive() and not met:
            try:
                session.stats  # noqa: B018
            except RuntimeError as error:
                assert "in use by another thread" in str(error)
                met += 1
        worker.join()
        if met:
            break
    assert met, "run held the GIL: no other thread could look"
    session.run([x])


def test_sessions_of_one_artifact_run_side_by_side(artifact):
    def serve(length, results):
        session = _core.Session(artifact, threads=1)
        for _ in range(20):
            session.reset()
            session.run([tokens(1, length), 0])
            results.append(np.from_dlpack(session.output(0)).copy())

    results = {n: [] for n in (3, 5, 64, 127)}
    workers = [threading.Thread(target=serve, args=item) for item in results.items()]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for length, found in results.items():
        session = _core.Session(artifact, threads=1)
        session.run([tokens(1, length), 0])
        assert len(found) == 20
        for array in found:
            np.testing.assert_array_equal(array, np.from_dlpack(session.output(0)))


def test_cancel_from_another_thread(long):
    session = _core.Session(long, threads=1)
    x = np.zeros((512, 512), np.float32)
    raised = []

    def work():
        try:
            while True:
                session.run([x])
        except RuntimeError as error:
            raised.append(str(error))

    worker = threading.Thread(target=work)
    worker.start()
    time.sleep(0.01)
    session.cancel()
    worker.join(timeout=60)
    assert raised and "cancel" in raised[0].lower()
    session.cancel(False)
    session.run([x])


def test_progress_and_what_it_raises(tmp_path):
    seen = []
    arguments = str(DEMO / "demo.pt2"), str(tmp_path / "x.live")
    _core.compile(*arguments, progress=lambda name, ms: seen.append((name, ms)))
    assert seen[0][0] == "read" and seen[-1][0] == "write"
    with pytest.raises(ZeroDivisionError):
        _core.compile(*arguments, progress=lambda name, ms: 1 // 0)


def test_compile_options(tmp_path):
    data = (DEMO / "demo.pt2").read_bytes()
    _, report = _core.compile_bytes(data, bounds={"S": 16}, statics={"B": 2}, quant="q8")
    ranges = {s["display"]: (s["min"], s["max"]) for s in report["symbols"]}
    assert ranges["S"] == (1, 16) and ranges["B"] == (2, 2)
    assert report["quantised"]["encoding"] == "q8"
    with pytest.raises(ValueError, match="quant `q3`"):
        _core.compile_bytes(data, quant="q3")


def test_supported_targets():
    targets = _core.supported_targets()
    assert targets == sorted(set(targets)) and len(targets) > 200
    assert all(_core.is_supported(target) for target in targets)
    assert _core.is_supported("torch.ops.aten.add_.Tensor")
    assert not _core.is_supported("torch.ops.aten.svd.default")


def test_profile_and_stats(artifact):
    session = _core.Session(artifact, threads=1, profile=True)
    for length in (5, 3, 5):
        session.run([tokens(1, length), 0])
    stats = session.stats
    assert (stats.binds, stats.runs, stats.rebuilds, stats.moved_addresses) == (3, 3, 0, 0)
    assert {entry.calls for entry in session.profile()} == {3}
    assert "attention" in {entry.op for entry in session.profile()}
    session.trim()
    with pytest.raises(ValueError, match="backend"):
        _core.Session(artifact, "tpu")
    with pytest.raises(ValueError, match="threads"):
        _core.Session(artifact, threads=-1)


def test_detached_constants_are_given_at_load():
    import io

    linear, x = torch.nn.Linear(64, 64), torch.randn(3, 64)
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(linear, (x,)), buffer)
    whole, _ = _core.compile_bytes(buffer.getvalue())
    kept = {}

    def detach(name, data):
        if len(data) < 1024:
            return None  # the bias stays
        kept["key"] = np.frombuffer(data, np.uint8)
        return "key"

    small, report = _core.compile_bytes(buffer.getvalue(), detach=detach)
    assert report["externals"] == ["key"] and len(small) < len(whole) - 64 * 64 * 4 + 64
    with pytest.raises(ValueError, match="external constants that were not given: `key`"):
        _core.Artifact.from_bytes(small)
    with pytest.raises(ValueError, match=r"as they are stored \(plain, panel16\): u8\[16384\]"):
        _core.Artifact.from_bytes(small, {"key": kept["key"][:-1]})
    results = []
    for artifact in (_core.Artifact.from_bytes(whole), _core.Artifact.from_bytes(small, kept)):
        session = _core.Session(artifact, threads=1)
        session.run([x])
        results.append(torch.from_dlpack(session.output(0)).clone())
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], linear(x).detach(), rtol=0, atol=1e-5)


def test_an_exception_of_detach_reaches_the_caller():
    def detach(name, data):
        raise LookupError("no room")

    with pytest.raises(LookupError, match="no room"):
        _core.compile_bytes((DEMO / "demo.pt2").read_bytes(), detach=detach)
