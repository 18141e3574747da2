"""Maxima that Dynamo itself holds a size to: those of mark_dynamic, and what its guards imply.

A size above one never reaches the region that was built for it: Dynamo traces the function anew.
That is a rebuild like any other, so it is counted and warned of.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import fx
from torch._guards import CompileContext
from torch.utils._sympy.numbers import int_oo

from liveshape.dynamo.exported import entering_sizes, is_symbolic, ranges
from liveshape.dynamo.stats import stats

_known: dict[tuple[int, str, int], int] = {}  # (Dynamo's frame, input, dim) -> its maximum


def follow_maxima(module: fx.GraphModule) -> None:
    """Warns where a size is above the maximum that an earlier graph of this function had."""
    compiling = CompileContext.current_compile_id()
    if compiling is None:
        return
    frame, first = compiling.frame_id, compiling.frame_compile_id == 0
    limits = ranges(module)
    for node in module.graph.find_nodes(op="placeholder"):
        for dim, size in entering_sizes(node):
            if dim < 0:
                continue  # an integer that stands for some tensor's dim
            place = (frame, node.name, dim)
            known = _known.pop(place, None)
            if known is not None and not first and _now(size) > known:
                stats.rebuilds += 1
                warnings.warn(
                    f"liveshape: `{node.name} dim {dim}` is {_now(size)}, above {known}, the"
                    " maximum it was traced with: it is traced and built again",
                    stacklevel=2,
                )
            expr = size.node.expr if is_symbolic(size) else None
            if expr in limits and limits[expr].upper is not int_oo:
                _known[place] = int(limits[expr].upper)


def _now(size: Any) -> int:
    return size.node.hint if is_symbolic(size) else int(size)
