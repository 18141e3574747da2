"""Judges a random program: exported, compiled, run in fresh sessions and in one, beside torch.

Results may differ by TOLERANCE of each element, and by what rounding alone does to them: torch
runs the graph again with noise of a few ulp on every op that rounds, and what moves may move.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from liveshape import _core
from liveshape.program import Program
from liveshape.save import save
from random_cases import Case
from torch.utils import _pytree as pytree

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}  # an ulp; else 1e-5
ROUNDS = re.compile(  # what is not here is exact, or rounded once from an exact result
    r"a?(sin|cos|tan)h?|atan2|exp2?|expm1|log(2|10|1p)?|r?sqrt|sigmoid|erfc?|reciprocal|hypot|pow|xlogy|logaddexp|"
    r"silu|gelu|[sc]?elu|mish|softplus|log_sigmoid|softsign|sum|mean|prod|var|std|(var|std)_mean|cumsum|logsumexp|"
    r"(linalg_vector_)?norm|_?(log_)?softmax|matmul|mm|bmm|mv|dot|addmm|baddbmm|linear|einsum|(native_)?layer_norm|"
    r"rms_norm|addc(mul|div)|lerp|glu|scaled_dot_product_attention|_safe_softmax|scatter_(add|reduce)"
)
# A squeeze is refused where it would change the rank; a -1 beside a size of 0 is what the export
# says; guards are kept (docs/decisions/002).
BY_DESIGN = (
    "squeeze would change the rank",
    "any value and is ambiguous",
    "the program requires L[",
    "divides by zero at",  # of such a guard
)
LIMIT_S = 120
UNBOUND = re.compile(r"`compile --bound (\w+)=N`")

Verdict = dict[str, Any]  # "kind": ok, again, unsupported, or what is wrong; "text"


class Judge:
    """`judge` in a child that lives on from program to program: a crash or a hang is a verdict too.

    What torch learns while exporting (caches, imports) is half of the time, so the child is kept.
    """

    def __init__(self):
        self._child: Any = None

    def __call__(self, case: Case) -> Verdict:
        if self._child is None:
            self._start()
        self._pipe.send(case)
        try:
            if self._pipe.poll(LIMIT_S):
                return self._pipe.recv()
            text = f"nothing after {LIMIT_S} s"
        except EOFError:
            self._child.join()
            said = Path(self._said.name).read_text(errors="replace")[-1000:]
            text = f"exit status {self._child.exitcode}; {said}"
        self.close()
        return {"kind": "crash", "text": text}

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child = None

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        self._pipe, theirs = spawn.Pipe()
        self._said = tempfile.NamedTemporaryFile(prefix="liveshape-random-")  # noqa: SIM115
        self._child = spawn.Process(target=_serve, args=(theirs, self._said.name), daemon=True)
        self._child.start()
        theirs.close()


def _serve(pipe: Any, said: str) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    log = os.open(said, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):  # torch prints graphs that it could not export
        os.dup2(log, stream)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(judge(pipe.recv()))


def judge(case: Case) -> Verdict:
    try:
        exported, pt2 = _export(case)
        reference = Program(exported)
        wanted = {i: _expected(case, reference, p) for i, p in enumerate(case.points)}
    except Exception as error:
        return {"kind": "again", "text": f"{type(error).__name__}: {error}"[:300]}
    try:
        artifact = _compile(pt2)
    except NotImplementedError as error:
        return {"kind": "unsupported", "text": str(error)}
    except Exception as error:
        return {"kind": "compile", "text": f"{type(error).__name__}: {error}"}
    fresh: dict[int, Any] = {}
    for i, point in enumerate(case.points):
        fresh[i] = _run(case, _core.Session(artifact, threads=1, strict=True), point)
        if wrong := _compare(case, exported, point, fresh[i], wanted[i]):
            return wrong
    order = [*range(len(case.points)), *reversed(range(len(case.points) - 1))]
    for poison in ("nan", "large"):
        session = _core.Session(artifact, threads=1, strict=True, poison=poison)
        for i in order:
            again = _run(case, session, case.points[i])
            if not _same(again, fresh[i]):
                where = f"{case.points[i]} reused, poison {poison}: {again} fresh: {fresh[i]}"
                return {"kind": "bits", "text": where[:2000]}
    return _beyond(case, session)


def _export(case: Case) -> tuple[torch.export.ExportedProgram, bytes]:
    exported, shapes = case.export()
    if any("USER_INPUT_MUTATION" in str(o.kind) for o in exported.graph_signature.output_specs):
        raise ValueError("writes to an input")
    with tempfile.TemporaryDirectory(prefix="liveshape-random-") as folder:
        save(exported, Path(folder, "model.pt2"), names=shapes)
        return exported, Path(folder, "model.pt2").read_bytes()


def _compile(pt2: bytes) -> _core.Artifact:
    try:
        live, _ = _core.compile_bytes(pt2)
    except ValueError as error:  # a size that data decides needs a bound of the caller's
        bounds = dict.fromkeys(UNBOUND.findall(str(error)), 60_000)
        live, _ = _core.compile_bytes(pt2, bounds=bounds)
    artifact = _core.Artifact.from_bytes(live)
    _core.Session(artifact, threads=1)  # a kernel that is missing is known at load
    return artifact


def _run(case: Case, session: Any, point: dict[str, int]) -> Any:
    """The outputs of each step, or the refusal."""
    session.reset()
    steps = []
    try:
        for step in range(2 if case.states else 1):
            session.run(list(case.values(point, step).values()))
            outputs = [session.output(i) for i in range(len(case.outputs))]
            steps.append([torch.from_dlpack(out).clone() for out in outputs])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return steps


def _expected(case: Case, program: Program, point: dict[str, int]) -> Any:
    program.reset()
    try:
        return [
            [value for _, value in program.run(case.values(point, step))]
            for step in range(2 if case.states else 1)
        ]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _compare(case: Case, exported: Any, point: Any, found: Any, wanted: Any) -> Verdict | None:
    def wrong(kind: str, text: str) -> Verdict:
        return {"kind": kind, "text": f"at {point}: {text}", "point": point}

    if isinstance(found, str) or isinstance(wanted, str):
        if isinstance(found, str) and isinstance(wanted, str):
            return None
        if any(phrase in f"{found} {wanted}" for phrase in BY_DESIGN):
            return None
        text = f"liveshape: {str(found)[:1500]}\n  torch: {str(wanted)[:1500]}"
        return wrong("refuses" if isinstance(found, str) else "accepts", text)
    torch.manual_seed(0)
    noisy = None
    for step, pair in enumerate(zip(found, wanted, strict=True)):
        for o, (a, b) in enumerate(zip(*pair, strict=True)):
            where = f"step {step}, {case.outputs[o]}"
            if a.dtype != b.dtype or a.shape != b.shape:
                text = f"{where} is {a.dtype} {list(a.shape)}, torch {b.dtype} {list(b.shape)}"
                return wrong("type", text)
            if agree(a, b, []):
                continue
            noisy = noisy or [_expected(case, Program(exported, Noisy), point) for _ in range(4)]
            shaken = [n[step][o] for n in noisy if not isinstance(n, str)]
            if not agree(a, b, shaken):
                return wrong("value", f"{where}: {_first_difference(a, b)}")
    return None


def agree(a: torch.Tensor, b: torch.Tensor, shaken: Sequence[torch.Tensor]) -> bool:
    if any(s.shape != b.shape for s in shaken):
        return True  # rounding decides the size itself
    tolerance = TOLERANCE.get(b.dtype, 1e-5 if b.is_floating_point() else 0.0)
    stable = torch.ones_like(b, dtype=torch.bool)
    allowed = tolerance * b.double().abs().clamp(min=1)
    for s in shaken:
        stable &= (
            (s == b) | (s.isfinite() & b.isfinite() & b.is_floating_point()) | (s != s) & (b != b)
        )
        allowed = torch.maximum(allowed, 16 * (s.double() - b.double()).abs())
    same = (a == b) | ((a != a) & (b != b)) | ((a.double() - b.double()).abs() <= allowed)
    return bool((same | ~stable).all())


def _first_difference(a: torch.Tensor, b: torch.Tensor) -> str:
    differs = ~((a == b) | ((a != a) & (b != b)))
    gaps = torch.where(differs, (a.double() - b.double()).abs().nan_to_num(1e300, 1e300), -1.0)
    at = int(gaps.argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(at), b.shape)] if b.dim() else []
    return (
        f"{int(differs.sum())} of {b.numel()} differ, most at {place}: "
        f"{a.reshape(-1)[at].item()!r}, torch {b.reshape(-1)[at].item()!r} ({b.dtype})"
    )


def _same(a: Any, b: Any) -> bool:
    """Bit for bit, of every step and output; two refusals are the same."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    pairs = [pair for one, two in zip(a, b, strict=True) for pair in zip(one, two, strict=True)]
    return all(x.shape == y.shape and torch.equal(_bits(x), _bits(y)) for x, y in pairs)


def _bits(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1).view(torch.uint8)


def _beyond(case: Case, session: Any) -> Verdict:
    """One above a bound, one below a minimum: refused, and the session is as before."""
    for name, (low, high) in case.dims.items():
        for value in (high + 1, low - 1):
            point = {**case.example(), name: value}
            if value >= 0 and not isinstance(_run(case, session, point), str):
                return {"kind": "beyond", "text": f"{point} is outside {case.dims} and served"}
    return {"kind": "ok", "text": ""}


class Noisy(torch.fx.Interpreter):
    """Each op that rounds gets and gives a few ulp of noise; memory without content has another."""

    def run_node(self, node: torch.fx.Node) -> Any:
        target = getattr(getattr(node.target, "_schema", None), "name", "").removeprefix("aten::")
        self.rounds = ROUNDS.fullmatch(target) is not None
        result = super().run_node(node)
        if target in ("empty", "empty_like", "new_empty"):
            return result.fill_(99)  # what is never written may be anything
        return pytree.tree_map(_shaken, result) if self.rounds else result

    def fetch_args_kwargs_from_env(self, node: torch.fx.Node) -> Any:
        given = super().fetch_args_kwargs_from_env(node)
        return pytree.tree_map(_shaken, given) if self.rounds else given


def _shaken(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    info = torch.finfo(value.dtype)
    noise = 2 * torch.rand(value.shape, dtype=torch.float64) - 1
    relative = (1 + 2 * info.eps * noise).to(value.dtype)
    least = (64 * info.tiny * info.eps * noise).to(value.dtype) * (value != 0)  # subnormal
    return value * relative + least
