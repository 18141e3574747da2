"""Our kernels beside torch's, in one process: runs are interleaved, ratios are of medians.

    make bench                                    # this and the others
    python bench/kernels_bench.py                 # one thread
    python bench/kernels_bench.py --only softmax --threads 1 --pairs 50

Every row is a module exported once with a dynamic first dim and run through the C library, as a
user would. torch runs the same module in inference mode; convolutions in both memory formats, of
which the faster counts. A ratio above 1 means that we are slower. Nothing here is an assertion:
machines differ, and this one may be shared.

One thread by default. With more, torch's OpenMP workers spin on the cores that our pool needs, for
longer than a pause between the two can wait: ratios then say more about that than about kernels
(OMP_WAIT_POLICY=passive stops it, and slows torch down).
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
BUILD = ROOT / "build" / "release"
CLI = os.environ.get("LIVESHAPE", str(BUILD / "liveshape"))

from liveshape.save import save  # noqa: E402

BATCH = torch.export.Dim("N", min=1, max=1 << 20)


class Tensor(ctypes.Structure):
    """ls_tensor of include/liveshape/c_api.h."""

    _fields_ = [
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
    ]


class SessionOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("backend", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
        ("strict", ctypes.c_int32),
        ("profile", ctypes.c_int32),
    ]


DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int64: 4, torch.bool: 9}


class Model:
    """A .live on the CPU backend; `run` leaves the outputs in session memory."""

    def __init__(self, library, path, threads):
        self.library, self.artifact, self.session = library, ctypes.c_void_p(), ctypes.c_void_p()
        self.check(
            library.ls_artifact_load_file(str(path).encode(), None, ctypes.byref(self.artifact))
        )
        options = SessionOptions(ctypes.sizeof(SessionOptions), b"cpu", threads, 1, 0)
        self.check(
            library.ls_session_create(
                self.artifact, ctypes.byref(options), ctypes.byref(self.session)
            )
        )

    def check(self, status):
        if status != 0:
            self.library.ls_last_error.restype = ctypes.c_char_p
            raise RuntimeError(self.library.ls_last_error().decode())

    def bind(self, tensors):
        """Inputs as the library takes them; keep the tensors alive."""
        made = (Tensor * len(tensors))()
        for slot, t in zip(made, tensors, strict=True):
            dims = (ctypes.c_int64 * t.dim())(*t.shape)
            size = t.numel() * t.element_size()
            slot.dtype, slot.rank, slot.data, slot.bytes = (
                DTYPES[t.dtype],
                t.dim(),
                t.data_ptr(),
                size,
            )
            slot.dims = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
        return made

    def run(self, inputs):
        self.check(self.library.ls_session_run(self.session, inputs, len(inputs), None, 0))

    def output(self, index, like):
        out = Tensor()
        self.check(self.library.ls_session_output(self.session, index, ctypes.byref(out)))
        assert [out.dims[i] for i in range(out.rank)] == list(like.shape)
        buffer = (ctypes.c_char * out.bytes).from_address(out.data)
        return torch.frombuffer(buffer, dtype=like.dtype).reshape(like.shape)

    def close(self):
        self.library.ls_session_free(self.session)
        self.library.ls_artifact_free(self.artifact)


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] == k.shape[2])


def rows(*shape):
    return lambda n: [torch.randn(n, *shape)]


def heads(h, s, t, d):
    return lambda n: [torch.randn(n, h, s, d), torch.randn(n, h, t, d), torch.randn(n, h, t, d)]


def conv(cin, cout, kernel, size, **options):
    return nn.Conv2d(cin, cout, kernel, **options), lambda n: [torch.randn(n, cin, size, size)]


def chain(x, y):
    return F.silu(x) * y + x


# name, module, inputs for a first dim of n, the values of n
CASES = [
    ("softmax [n, 1024]", Apply(lambda x: x.softmax(-1)), rows(1024), [16, 256, 4096]),
    ("softmax [n, 128]", Apply(lambda x: x.softmax(-1)), rows(128), [128, 8192]),
    ("layer norm [n, 768]", nn.LayerNorm(768), rows(768), [32, 512, 4096]),
    ("rms norm [n, 1024]", nn.RMSNorm(1024), rows(1024), [16, 256, 4096]),
    (
        "add [n, 4096]",
        Apply(lambda x, y: x + y),
        lambda n: rows(4096)(n) * 1 + rows(4096)(n),
        [4, 64, 1024],
    ),
    (
        "silu(x) * y + x [n, 4096]",
        Apply(chain),
        lambda n: rows(4096)(n) + rows(4096)(n),
        [4, 64, 1024],
    ),
    ("gelu erf [n, 4096]", nn.GELU(), rows(4096), [4, 64, 1024]),
    ("gelu tanh [n, 4096]", nn.GELU("tanh"), rows(4096), [4, 64, 1024]),
    ("exp [n, 4096]", Apply(torch.exp), rows(4096), [4, 64, 1024]),
    ("tanh [n, 4096]", Apply(torch.tanh), rows(4096), [4, 64, 1024]),
    ("sum of rows [n, 4096]", Apply(lambda x: x.sum(-1)), rows(4096), [16, 1024]),
    ("sum of columns [n, 4096]", Apply(lambda x: x.sum(0)), rows(4096), [16, 1024]),
    ("attention prefill [n, 12, 256, 64]", Apply(attention), heads(12, 256, 256, 64), [1, 4]),
    ("attention decode [n, 12, 1 of 1024, 64]", Apply(attention), heads(12, 1, 1024, 64), [1, 8]),
    ("linear 1024 -> 1024", nn.Linear(1024, 1024), rows(1024), [1, 16, 128, 1024]),
    ("linear 1024 -> 4096", nn.Linear(1024, 4096), rows(1024), [1, 8, 128, 512]),
    (
        "matmul [n, 256, 256] @ same",
        Apply(torch.matmul),
        lambda n: rows(256, 256)(n) + rows(256, 256)(n),
        [4, 16],
    ),
    (
        "transpose [n, 256, 256]",
        Apply(lambda x: x.transpose(1, 2).contiguous()),
        rows(256, 256),
        [4, 64],
    ),
    (
        "cat [n, 4096] twice",
        Apply(lambda x, y: torch.cat([x, y], 1)),
        lambda n: rows(4096)(n) + rows(4096)(n),
        [4, 64, 1024],
    ),
    ("conv 3x3 64 -> 64, 56", *conv(64, 64, 3, 56, padding=1), [1, 4]),
    ("conv 3x3 256 -> 256, 14", *conv(256, 256, 3, 14, padding=1), [1, 4]),
    ("conv 1x1 256 -> 64, 56", *conv(256, 64, 1, 56), [1, 4]),
    ("conv 7x7 / 2, 3 -> 64, 224", *conv(3, 64, 7, 224, stride=2, padding=3), [1]),
    ("conv 3x3 / 2, 64 -> 128, 56", *conv(64, 128, 3, 56, stride=2, padding=1), [1, 4]),
    ("conv depthwise 3x3 128, 56", *conv(128, 128, 3, 56, padding=1, groups=128), [1, 4]),
    ("max pool 3x3 / 2, 64, 112", nn.MaxPool2d(3, 2, 1), rows(64, 112, 112), [1, 4]),
]


def compile_case(module, example, folder):
    ep = torch.export.export(
        module,
        tuple(example),
        dynamic_shapes=tuple({0: BATCH} for _ in example)
        if not isinstance(module, Apply)
        else (tuple({0: BATCH} for _ in example),),
    )
    save(ep, folder / "model.pt2")
    subprocess.run(
        [CLI, "compile", folder / "model.pt2", "-o", folder / "model.live"],
        check=True,
        capture_output=True,
    )
    return folder / "model.live"


def seconds(call, repeats):
    time.sleep(0.01)  # OpenMP's threads spin for a while after a parallel region: on our cores
    call()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def peers(module, inputs):
    """torch's ways to run it: as it is, and with channels last, which is told to be faster."""
    ways = [lambda: module(*inputs)]
    if isinstance(module, (nn.Conv2d, nn.MaxPool2d)):
        import copy

        last = copy.deepcopy(module).to(memory_format=torch.channels_last)
        moved = [t.to(memory_format=torch.channels_last) for t in inputs]
        ways.append(lambda: last(*moved))
    return ways


def measure(name, module, make, n, path, library, threads, pairs):
    torch.set_num_threads(threads)
    inputs = make(n)
    model = Model(library, path, threads)
    given = model.bind(inputs)
    with torch.inference_mode():
        model.run(given)
        wanted = module(*inputs)
        error = (model.output(0, wanted) - wanted).abs().max() / max(1, wanted.abs().max())
        assert error < 1e-4, f"{name}: wrong by {error}"
        calls = [lambda: model.run(given), *peers(module, inputs)]
        repeats = [max(1, int(2e-3 / max(seconds(c, 3), 1e-7))) for c in calls]
        times = [[seconds(c, r) for c, r in zip(calls, repeats, strict=True)] for _ in range(pairs)]
    model.close()
    ours, *theirs = (statistics.median(column) for column in zip(*times, strict=True))
    best = min(theirs)
    bytes_in = sum(t.numel() * t.element_size() for t in inputs)
    return {
        "case": name,
        "n": n,
        "kb": bytes_in / 1024,
        "threads": threads,
        "us": ours * 1e6,
        "torch_us": best * 1e6,
        "ratio": ours / best,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", help="write the rows to this file")
    args = parser.parse_args()
    library = ctypes.CDLL(str(next(BUILD.rglob("libliveshape.so"))))
    for call in ("ls_session_run", "ls_session_output"):
        getattr(library, call).argtypes = None
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, medians of {args.pairs} pairs")
    print(
        f"{'case':42} {'n':>5} {'KB in':>8} {'threads':>7} {'us':>10} {'torch us':>10} {'ratio':>6}"
    )
    found = []
    for name, module, make, sizes in CASES:
        if args.only not in name:
            continue
        module.eval()
        with tempfile.TemporaryDirectory() as folder:
            path = compile_case(module, make(3), Path(folder))
            for threads in args.threads:
                for n in sizes:
                    row = measure(name, module, make, n, path, library, threads, args.pairs)
                    found.append(row)
                    slower = "  slower" if row["ratio"] > 1 and row["kb"] > 64 else ""
                    print(
                        f"{name:42} {n:5} {row['kb']:8.0f} {threads:7} {row['us']:10.1f} "
                        f"{row['torch_us']:10.1f} {row['ratio']:6.2f}{slower}",
                        flush=True,
                    )
    behind = [row for row in found if row["ratio"] > 1 and row["kb"] > 64]
    print(f"{len(found)} rows, {len(behind)} above 64 KB where torch is faster")
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
