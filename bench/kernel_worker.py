"""One side of bench/kernels_bench.py: a process that runs cases of kernel_cases.py when told to.

    python kernel_worker.py torch|liveshape THREADS [--cpu-time]

It reads one JSON request a line and answers each with one line:

    {"prepare": [case, n], "live": PATH}   ->  {"ways": 1 or 2}      inputs, model, a first call
    {"time": way, "repeats": r}            ->  {"seconds": of one call}

The liveshape side checks its first output against torch, which runs there on one thread and starts
no other.
"""

import copy
import ctypes
import json
import os
import sys
import time
from pathlib import Path

import torch
from kernel_cases import CASES
from torch import nn

WARM_SECONDS = 4e-3
BUILD = Path(__file__).resolve().parents[1] / "build" / "release"


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


def torch_ways(module, inputs):
    """As it is, and with channels last, which is told to be faster."""
    ways = [lambda: module(*inputs)]
    if isinstance(module, (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d, nn.BatchNorm2d, nn.GroupNorm)):
        last = copy.deepcopy(module).to(memory_format=torch.channels_last)
        moved = [t.to(memory_format=torch.channels_last) for t in inputs]
        ways.append(lambda: last(*moved))
    return ways


class TorchSide:
    def __init__(self, threads):
        torch.set_num_threads(threads)

    def prepare(self, name, module, inputs, live):
        return torch_ways(module, inputs)


class LiveshapeSide:
    def __init__(self, threads):
        torch.set_num_threads(1)
        self.threads, self.model, self.inputs = threads, None, None
        self.library = ctypes.CDLL(str(next(BUILD.rglob("libliveshape.so"))))

    def prepare(self, name, module, inputs, live):
        if self.model:
            self.model.close()
        self.model = model = Model(self.library, live, self.threads)
        self.inputs, given = inputs, model.bind(inputs)
        model.run(given)
        wanted = module(*inputs)
        allowed = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}.get(wanted.dtype, 1e-4)
        got, wanted = model.output(0, wanted).double(), wanted.double()
        error = (got - wanted).abs().max() / max(1, wanted.abs().max())
        assert error < allowed, f"{name}: wrong by {error}"
        return [lambda: model.run(given)]


def seconds(call, repeats):
    clock = time.thread_time if "--cpu-time" in sys.argv else time.perf_counter
    # Caches hold what the other side left. And threads that were stopped together may be continued
    # on one core: it takes the scheduler some ms to see that another is idle.
    warm = time.perf_counter() + WARM_SECONDS
    call()
    while time.perf_counter() < warm:
        call()
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def main():
    which, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    side = {"torch": TorchSide, "liveshape": LiveshapeSide}[which](threads)
    ways = []
    with torch.inference_mode():
        for line in sys.stdin:
            asked = json.loads(line)
            if "prepare" in asked:
                index, n = asked["prepare"]
                name, module, make, _ = CASES[index]
                torch.manual_seed(n)
                ways = side.prepare(name, module.eval(), make(n), asked["live"])
                answer = {"ways": len(ways)}
            else:
                answer = {"seconds": seconds(ways[asked["time"]], asked["repeats"])}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
