"""Artifacts and sessions: load once, run at every live shape, with NumPy or torch arrays.

>>> artifact = demo()                              # or liveshape.load("model.live").artifact
>>> artifact.symbols, artifact.inputs, artifact.outputs
([Symbol(S in [1, 64])], [Port(x: f32[S, 8])], [Port(out: f32[S, 4])])
>>> session = artifact.session(threads=1)
>>> x = np.ones((5, 8), np.float32)
>>> y = session(x)                                 # NumPy in, NumPy out
>>> y.shape, session.shape
((5, 4), {'S': 5})
>>> t = session(torch.from_numpy(x))               # torch in, torch out
>>> type(t).__name__, bool((t.numpy() == y).all())
('Tensor', True)
>>> session(np.ones((65, 8), np.float32))
Traceback (most recent call last):
IndexError: bind: input 0 `x` dim 0 is 65: symbol `S` would be 65, above its bound 64

Inputs are read where they lie: contiguous, in host memory, of the model's dtype, at any alignment.
NumPy has no bfloat16: there a bf16 tensor is a uint16 array of its bits.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from liveshape import _core

NUMPY_DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.uint16,  # the bits
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
}
TORCH_DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}


def load(
    path: str | os.PathLike[str],
    backend: str = "cpu",
    *,
    constants: Mapping[str, Any] | None = None,
    **options: Any,
) -> Session:
    """A session of the artifact at `path`. Options are those of `Session`.

    >>> demo().save(folder / "model.live")
    >>> session = liveshape.load(folder / "model.live", threads=1)
    >>> session(np.zeros((3, 8), np.float32)).shape
    (3, 4)

    `constants` are arrays for those that the artifact names but does not hold.
    """
    return Artifact.load(path, constants=constants).session(backend, **options)


class Artifact:
    """A compiled model: immutable, shared by its sessions, usable from many threads.

    >>> artifact = demo()
    >>> artifact.save(folder / "model.live")
    >>> same = Artifact.load(folder / "model.live")
    >>> same.graph == artifact.graph
    True

    `report` is what the compiler told (the fields of `compile --json`), where it was just compiled.
    """

    def __init__(self, core: _core.Artifact, path: Path, report: dict | None = None, owner=None):
        self.core = core
        self.report = report
        self._path = path
        self._owner = owner  # of the file, where it is temporary

    @staticmethod
    def load(path: str | os.PathLike[str], constants: Mapping[str, Any] | None = None) -> Artifact:
        path = Path(path)
        return Artifact(_core.Artifact.load(str(path), dict(constants or {})), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact; nothing is half-written."""
        path = Path(path)
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            shutil.copyfile(self._path, scratch)
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)

    def session(self, backend: str = "cpu", **options: Any) -> Session:
        """A session of its own memory and states; the weights are shared."""
        return Session(self, backend, **options)

    @property
    def symbols(self) -> list[_core.Symbol]:
        return self.core.symbols

    @property
    def inputs(self) -> list[_core.Port]:
        return self.core.inputs

    @property
    def outputs(self) -> list[_core.Port]:
        return self.core.outputs

    @property
    def graph(self) -> str:
        """The whole graph, as `liveshape dump` prints it."""
        return self.core.graph

    def __repr__(self) -> str:
        return f"Artifact({self.inputs} -> {self.outputs})"


class States(Mapping):
    """What the model keeps between runs, by name. Reading copies; writing wants the same shape.

    >>> session = counter().session(threads=1)
    >>> dict(session.states)
    {'seen': array([0.], dtype=float32)}
    >>> session(np.ones(3, np.float32)).item(), session(np.ones(2, np.float32)).item()
    (3.0, 5.0)
    >>> before = session.states.snapshot()
    >>> session.states["seen"] = np.array([40], np.float32)
    >>> session(np.ones(2, np.float32)).item()
    42.0
    >>> session.states.restore(before)
    >>> session.states["seen"]
    array([5.], dtype=float32)
    >>> session.states.reset()
    >>> session.states["seen"]
    array([0.], dtype=float32)
    """

    def __init__(self, core: _core.Session):
        self._core = core
        self._names = [state.name for state in core.states]

    def __getitem__(self, name: str) -> np.ndarray:
        return np.from_dlpack(self._core.read_state(name, bits=True))

    def __setitem__(self, name: str, value: Any) -> None:
        self._core.write_state(name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def reset(self) -> None:
        """To the model's initial values."""
        self._core.reset()

    def snapshot(self) -> bytes:
        return self._core.snapshot()

    def restore(self, snapshot: bytes) -> None:
        self._core.restore(snapshot)


class Session:
    """A model ready to run, with its states. As sizes change nothing is rebuilt or moved.

    threads=0 takes one per core; strict=True aborts the process on a broken promise; profile=True
    makes `profile` tell times; machine="machines/tpuv3.yaml", with the backend npu, makes
    `stats.cycles` tell what a run takes on that machine. One thread at a time may use a session
    (others get RuntimeError); many sessions of one artifact may run side by side: the GIL is free
    while they do.
    """

    def __init__(
        self,
        artifact: Artifact,
        backend: str = "cpu",
        *,
        threads: int = 0,
        strict: bool = False,
        profile: bool = False,
        machine: str | os.PathLike[str] = "",
    ):
        self.artifact = artifact
        self.core = _core.Session(
            artifact.core, backend, threads, strict, profile, os.fspath(machine)
        )
        self.inputs = artifact.inputs
        self.outputs = artifact.outputs
        self.states = States(self.core)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run with inputs by position or name. One output comes alone, several as a tuple.

        >>> session = demo().session(threads=1)
        >>> x = np.ones((2, 8), np.float32)
        >>> bool((session(x) == session(x=x)).all())
        True
        """
        results = self.run(self._by_position(args, kwargs))
        return results[0] if len(results) == 1 else tuple(results)

    def run(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        out: Sequence[Any] | Mapping[str, Any] | None = None,
        copy: bool = True,
    ) -> list[Any]:
        """Run with inputs by name or in order; returns the outputs in order (`self.outputs`).

        >>> session = demo().session(threads=1)
        >>> x = np.ones((2, 8), np.float32)
        >>> (y,) = session.run({"x": x})

        Results are torch tensors if an input is one, else NumPy arrays; integers are Python's.
        `out` gives memory of the exact live shape, by name or in order, None where there is none:

        >>> memory = np.empty((2, 4), np.float32)
        >>> session.run([x], out=[memory])[0] is memory, bool((memory == y).all())
        (True, True)

        With copy=False a result is a view of session memory: no byte is copied, it keeps the
        session alive, and its content is valid until the next bind, run or trim.

        >>> (view,) = session.run([x], copy=False)
        >>> _ = session.run([x * 2], copy=False)
        >>> bool((view == y).all())
        False
        """
        values = self._in_order(inputs)
        like_torch = any(_is_torch(value) for value in values)
        results: list[Any] = list(self._given_memory(out))

        def memory(index: int, dims: tuple[int, ...]) -> Any:
            if results[index] is None and copy and not self.outputs[index].is_integer:
                results[index] = _empty(self.outputs[index].dtype, dims, like_torch)
            return results[index]

        # Without `out` and with views there is no memory to give.
        self.core.run(values, memory if copy or out is not None else None)
        for i, port in enumerate(self.outputs):
            if results[i] is None:
                view = _wrap(self.core.output(i, bits=not like_torch), like_torch)
                if port.is_integer:
                    results[i] = int(view)
                else:
                    results[i] = (view.clone() if like_torch else view.copy()) if copy else view
            elif not self.core.output_known_at_bind(i):
                self._copy_late(i, results[i])
        return results

    def bind(self, *args: Any, **symbols: int) -> None:
        """Make a live shape current without running: by symbol, or by inputs as in a call.

        >>> session = demo().session(threads=1)
        >>> session.bind(S=9)
        >>> session.shape, session.output_shapes
        ({'S': 9}, [(9, 4)])

        A refused shape leaves the session as it was.
        """
        if args:
            self.core.bind(self._by_position(args, {}))
        else:
            self.core.bind_symbols(symbols)

    @property
    def shape(self) -> dict[str, int]:
        """The live shape that is current: a value for each symbol."""
        return self.core.symbol_values

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """At the live shape; sizes that come from data are known after a run, and -1 before."""
        return [self.core.output_dims(i) for i in range(len(self.outputs))]

    @property
    def stats(self) -> _core.Stats:
        return self.core.stats

    def profile(self) -> list[_core.ProfileEntry]:
        """Time by op in the order in which they run, where profile=True was asked for.

        >>> session = demo().session(threads=1, profile=True)
        >>> _ = session(np.ones((2, 8), np.float32))
        >>> [(entry.op, entry.calls) for entry in session.profile()]
        [('linear', 1)]
        """
        return self.core.profile()

    def trim(self) -> None:
        """Give memory that the live shape does not need back to the system."""
        self.core.trim()

    def cancel(self, on: bool = True) -> None:
        """From any thread: a run raises RuntimeError. cancel(False) before the next one."""
        self.core.cancel(on)

    def __repr__(self) -> str:
        return f"Session({self.inputs} -> {self.outputs})"

    def _by_position(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names = [port.name for port in self.inputs]
        if twice := set(names[: len(args)]) & set(kwargs):
            raise TypeError(f"input `{min(twice)}` is given by position and by name")
        if not kwargs:
            return list(args)
        return self._in_order({**dict(zip(names, args, strict=False)), **kwargs})

    def _in_order(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
        if not isinstance(inputs, Mapping):
            return list(inputs)
        return _select("input", [port.name for port in self.inputs], inputs)

    def _given_memory(self, out: Sequence[Any] | Mapping[str, Any] | None) -> list[Any]:
        if out is None:
            return [None] * len(self.outputs)
        if isinstance(out, Mapping):
            names = [port.name for port in self.outputs]
            return _select("output", names, {**dict.fromkeys(names), **out})
        if len(out) != len(self.outputs):
            raise ValueError(f"out: {len(out)} given, the model has {len(self.outputs)} outputs")
        return list(out)

    def _copy_late(self, index: int, memory: Any) -> None:
        """The engine is not asked to write there: it learnt the size when the run was under way."""
        like_torch = _is_torch(memory)
        view = _wrap(self.core.output(index, bits=not like_torch), like_torch)
        if tuple(memory.shape) != tuple(view.shape) or memory.dtype != view.dtype:
            raise ValueError(
                f"run: output {index} `{self.outputs[index].name}` is "
                f"{view.dtype}{list(view.shape)}, given {memory.dtype}{list(memory.shape)}"
            )
        memory[...] = view


def _select(what: str, names: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
    if unknown := set(given) - set(names):
        raise KeyError(f"no {what} is called `{min(unknown)}`; there are {', '.join(names)}")
    if missing := [name for name in names if name not in given]:
        raise KeyError(f"{what} `{missing[0]}` is missing")
    return [given[name] for name in names]


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _empty(dtype: str, dims: tuple[int, ...], like_torch: bool) -> Any:
    if like_torch:
        torch = sys.modules["torch"]
        return torch.empty(dims, dtype=getattr(torch, TORCH_DTYPES[dtype]))
    return np.empty(dims, NUMPY_DTYPES[dtype])


def _wrap(view: Any, like_torch: bool) -> Any:
    return sys.modules["torch"].from_dlpack(view) if like_torch else np.from_dlpack(view)
