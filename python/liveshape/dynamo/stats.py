"""What the backend did: `stats.artifacts == 1` after fifty shapes, no `stats.eager`: all ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Stats:
    graphs: int = 0  # handed over by Dynamo
    artifacts: int = 0  # built, rebuilds included
    rebuilds: int = 0  # for a size above its bound, or a changed weight
    # On a simulated NPU (options machine=...): of the last call of a compiled graph, and of all.
    last_cycles: int = 0
    cycles: int = 0
    nodes: Counter[str] = field(default_factory=Counter)  # run by Liveshape, by ATen target
    eager: Counter[str] = field(default_factory=Counter)  # left to torch
    reasons: list[str] = field(default_factory=list)  # why

    def count_cycles(self, cycles: int) -> None:
        """Of one region; a graph that torch has parts of has several."""
        self.last_cycles += cycles
        self.cycles += cycles

    def reset(self) -> None:
        self.__init__()


stats = Stats()
