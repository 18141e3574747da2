"""Liveshape inside ExecuTorch: a partitioner for export, a backend for its runtime.

    from executorch.exir import to_edge_transform_and_lower
    from liveshape.executorch import LiveshapePartitioner

    ep = torch.export.export(model, (x,), dynamic_shapes=({0: Dim("S", min=1, max=128)},))
    edge = to_edge_transform_and_lower(ep, partitioner=[LiveshapePartitioner()])
    edge.to_executorch().save("model.pte")

    method = Runtime.get().load_program("model.pte").load_method("forward")
    method.execute([x[:17]])        # exact at every live shape, from one Method

Importing this module registers the backend with the runtime of this process.
"""

from liveshape.executorch.library import LIBRARY, load

load()  # first: where the library is missing, that is said before torch is imported

from liveshape.executorch.partitioner import LiveshapePartitioner  # noqa: E402
from liveshape.executorch.preprocess import LiveshapeBackend  # noqa: E402

__all__ = ["LIBRARY", "LiveshapeBackend", "LiveshapePartitioner"]
