"""The C++ engine, as Python sees it. `liveshape` wraps it; backends for other runtimes build on it.

    report = _core.compile("model.pt2", "model.live", bounds={"S": 4096})
    session = _core.Session(_core.Artifact.load("model.live"))
    session.run([tokens, 0])
    logits = torch.from_dlpack(session.output(0))        # session memory, until the next run

Arrays are anything with `__dlpack__` (NumPy, torch, ...) in host memory, dense and row-major, at
any alignment; they are read where they lie. NumPy has no bfloat16: its bits travel as uint16 there.

Errors carry the engine's message: ValueError (wrong arguments, damaged files), IndexError (a size
or index out of range), KeyError or FileNotFoundError, NotImplementedError (an op, a newer file),
MemoryError, RuntimeError (the rest). The GIL is not held while compiling, loading and running.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, SupportsIndex

__version__: str

class Array(Protocol):
    """Only for annotations; the module has no such name."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def compile(
    input: str,
    output: str,
    *,
    bounds: Mapping[str, int] = {},
    mins: Mapping[str, int] = {},
    statics: Mapping[str, int] = {},
    externals: Sequence[str] = [],
    quant: str = "",
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, Any]:
    """`liveshape compile`: a .pt2 file to a .live file. Returns the fields of `compile --json`.

    progress(pass, milliseconds) is called after each pass; what it raises is raised at the end.
    """

def compile_bytes(
    pt2: bytes | bytearray | memoryview,
    *,
    bounds: Mapping[str, int] = {},
    mins: Mapping[str, int] = {},
    statics: Mapping[str, int] = {},
    externals: Sequence[str] = [],
    quant: str = "",
    progress: Callable[[str, float], None] | None = None,
    detach: Callable[[str, bytes], str | None] | None = None,
) -> tuple[bytes, dict[str, Any]]:
    """The same from and to memory: the artifact, and the report.

    `detach` is asked of each constant, with its name and its bytes as they would be stored: the
    name under which the caller keeps them and gives them at load, or None.
    """

def supported_targets() -> list[str]:
    """Operators that the importer reads: "torch.ops.aten.add.Tensor", ..."""

def is_supported(target: str) -> bool:
    """Whether a node of this target is read; also in-place forms and arithmetic on sizes."""

class Symbol:
    """A named size with its range."""

    name: str  # the Dim's name, else torch's
    torch_name: str
    min: int
    max: int
    stage: int  # 0: known at bind; 1: read from data before a run; more: born during it
    enters: list[str]  # "ids.1": dim 1 of input `ids`

class Port:
    """An input or output."""

    name: str
    dtype: str  # "f32", "bf16", "i64", "bool", ...
    dims: list[str]  # expressions over the symbols: "B", "2*S + 1", "64"
    is_integer: bool  # a Python integer of the model, not a tensor

class Artifact:
    """A loaded model: immutable, shared by its sessions, usable from many threads."""

    @staticmethod
    def load(path: str, constants: Mapping[str, Array] = {}) -> Artifact:
        """Maps the file. `constants`: those that the artifact names but does not hold."""

    @staticmethod
    def from_bytes(
        data: bytes | bytearray | memoryview, constants: Mapping[str, Array] = {}
    ) -> Artifact: ...
    def random_inputs(
        self, values: Mapping[str, int], ints: Mapping[str, tuple[int, int]] = {}
    ) -> list[Array | int]:
        """At a live shape: normal floats, coin-flip bools, integers within `ints`, else 0 or 1."""

    @property
    def symbols(self) -> list[Symbol]: ...
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...
    @property
    def externals(self) -> list[str]: ...
    @property
    def graph(self) -> str:
        """The whole graph, as `liveshape dump` prints it."""

    @property
    def copied_constant_bytes(self) -> int:
        """Bytes that were copied because what was given did not lie on 64 bytes."""

class State:
    """What the model keeps between runs; dims are its capacity."""

    name: str
    dtype: str
    dims: list[int]

class Stats:
    allocations_observed: bool  # False in Python: `allocations` says nothing
    allocations: int
    rebuilds: int
    moved_addresses: int
    binds: int  # to a new shape
    runs: int
    last_bind_us: float
    last_run_ms: float
    cycles: int  # of the last run, where a machine was given; else 0
    arena_reserved: int  # bytes at the bound
    arena_resident: int  # physical now
    arena_live: int  # most bytes live at one time, at the live shape

class ProfileEntry:
    op: str
    node: str
    source: str
    us: float  # over all runs
    calls: int

class Machine:
    """An NPU, as a file of machines/ describes it."""

    name: str
    frequency_mhz: int
    cores: int

def read_machine(path: str) -> Machine:
    """ValueError, with line and column, for a key or a value that no machine has."""

class Session:
    """A model ready to run, with its states.

    One thread at a time: a call while another is inside raises RuntimeError (cancel excepted).
    Sessions of one artifact run side by side.
    """

    def __init__(
        self,
        artifact: Artifact,
        backend: str = "cpu",
        threads: int = 0,
        strict: bool = False,
        profile: bool = False,
        machine: str = "",
        poison: str = "",
    ) -> None:
        """threads=0: one per core. strict: a rebuild or moved address aborts the process.
        machine: a file that describes an NPU, which makes stats tell cycles. poison: "nan" or
        "large" fills every dead byte before a run, so that a stale read shows (for tests)."""

    def bind(self, inputs: Sequence[Array | SupportsIndex]) -> None:
        """Makes the inputs' shape current, all or nothing; data is read of integers only."""

    def bind_symbols(self, values: Mapping[str, int] | Sequence[int]) -> None:
        """The same by value: by name, or one a symbol in the artifact's order."""

    def run(
        self,
        inputs: Sequence[Array | SupportsIndex],
        outputs: Sequence[Array | None]
        | Callable[[int, tuple[int, ...]], Array | None]
        | None = None,
    ) -> None:
        """Binds the inputs' shape and executes.

        outputs: None leaves all of them in session memory (`output`). A list has one array an
        output, of its exact live shape, or None. A function is asked for an array with an output's
        index and live dims, before anything runs; not for outputs whose size only the run tells.
        """

    def output(self, index: int, bits: bool = False) -> Array:
        """Of the last run, without a copy: valid until the next bind, run or trim.

        It keeps the session alive. bits: bfloat16 as uint16, for NumPy.
        """

    def output_dims(self, index: int) -> tuple[int, ...]:
        """The live dims; -1 where only data would tell and nothing is computed."""

    def output_known_at_bind(self, index: int) -> bool:
        """False: its dims are right after a run only."""

    @property
    def symbol_values(self) -> dict[str, int]:
        """The live shape that is current."""

    @property
    def states(self) -> list[State]: ...
    def read_state(self, name: str, bits: bool = False) -> Array:
        """A copy."""

    def write_state(self, name: str, value: Array) -> None: ...
    def reset(self) -> None:
        """All states to the model's initial values."""

    def snapshot(self) -> bytes:
        """All states."""

    def restore(self, snapshot: bytes | bytearray | memoryview) -> None: ...
    @property
    def needs_reset(self) -> bool:
        """A run failed after it had begun to change states: reset or restore first."""

    @property
    def stats(self) -> Stats: ...
    def profile(self) -> list[ProfileEntry]:
        """Time by step, where the session was made with profile=True."""

    def trim(self) -> None:
        """Gives memory that the live shape does not need back to the system."""

    def cancel(self, on: bool = True) -> None:
        """From any thread: the run raises RuntimeError. cancel(False) before the next run."""
