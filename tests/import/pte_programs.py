"""ExecuTorch programs for the tests of the .pte reader, as ExecuTorch's own writer makes them.

The two with foreign delegates lie in fuzz/corpus/pte_fuzz, since the partitioners that made them
(make_pte_corpus.py) take 12 s; the others are written afresh."""

import functools
import warnings
from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir._serialize._flatbuffer_program import _program_to_flatbuffer
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from executorch.exir.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    DataLocation,
    DelegateCall,
    Instruction,
    JumpFalseCall,
    MoveCall,
)

CORPUS = Path(__file__).resolve().parents[2] / "fuzz/corpus"
ARTIFACT = CORPUS / "artifact_fuzz/sample_1.1.live"


class Linear(torch.nn.Module):
    """Lowered in part: no backend takes a sort."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.sort(self.linear(x).relu())[0]


class Counter(torch.nn.Module):
    """A buffer with a value that is written: initial values have a segment of their own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.arange(3.0))
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float16))

    def forward(self, x, flag: bool):
        self.count.add_(x.sum())
        return self.count * self.weight


def exported(model, arguments, dynamic=None):
    return torch.export.export(model.eval(), arguments, dynamic_shapes=dynamic)


@functools.cache
def linear():
    return exported(Linear(), (torch.ones(3, 4),), ({0: torch.export.Dim("S", min=2, max=8)},))


def xnnpack():
    return (CORPUS / "pte_fuzz/xnnpack").read_bytes()


def vulkan():
    return (CORPUS / "pte_fuzz/vulkan").read_bytes()


@functools.cache
def portable():
    """Two methods, an initial value."""
    counter = exported(Counter(), (torch.ones(2, 3), True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge({"forward": linear(), "count": counter})
        # Without this pass a buffer that is written begins with zeros, whatever it held.
        config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["count"])])
        return edge.to_executorch(config).buffer


def ours(*, segments, named=False):
    """The XNNPACK program with a second delegate: ours, which holds an artifact, with a spec."""
    program = deserialize_pte_binary(xnnpack()).program
    plan = program.execution_plan[0]
    program.backend_delegate_data.append(BackendDelegateInlineData(ARTIFACT.read_bytes()))
    last = len(program.backend_delegate_data) - 1
    where = BackendDelegateDataReference(DataLocation.INLINE, last)
    specs = [CompileSpec("quant", b"q8"), CompileSpec("raw", bytes([0, 255]))]
    plan.delegates.append(BackendDelegate("LiveshapeBackend", where, specs))
    plan.chains[0].instructions += [
        Instruction(DelegateCall(len(plan.delegates) - 1, [0])),
        Instruction(DelegateCall(len(plan.delegates) - 1, [0])),
        Instruction(MoveCall(0, 1)),
        Instruction(JumpFalseCall(0, 0)),
    ]
    data = None
    if named:
        store = NamedDataStore()
        store.add_named_data("weight", bytes(range(80)))
        store.add_named_data("bias", b"again", alignment=256)
        store.add_named_data("tied", bytes(range(80)))
        data = store.get_named_data_store_output()
    file = PTEFile(program, None, data)
    return bytes(serialize_pte_binary(file, extract_delegate_segments=segments))


def without_header():
    """As files were before segments: constants inline, nothing after the FlatBuffer."""
    program = deserialize_pte_binary(portable()).program
    program.segments, program.mutable_data_segments = [], None
    return _program_to_flatbuffer(program).data


def with_old_header():
    """A header of 24 bytes, which does not tell how many bytes the segments have."""
    data = bytearray(xnnpack())
    assert data[8:12] == b"eh00" and data[12] == 32
    data[12] = 24
    data[32:40] = b"\xff" * 8  # no longer the header's
    return bytes(data)


PROGRAMS = {
    "xnnpack": xnnpack,
    "vulkan": vulkan,
    "portable": portable,
    "ours_inline": functools.partial(ours, segments=False),
    "ours_in_segment": functools.partial(ours, segments=True),
    "ours_with_named_data": functools.partial(ours, segments=True, named=True),
    "without_header": without_header,
    "with_old_header": with_old_header,
}
