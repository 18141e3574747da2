"""Writes fuzz/corpus/pte_fuzz: programs of a few KB with every part that the reader knows.

python tests/import/make_pte_corpus.py    (from .venv; only when the format changes)
"""

from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from pte_programs import CORPUS, PROGRAMS, linear

PARTITIONERS = {"xnnpack": XnnpackPartitioner, "vulkan": VulkanPartitioner}


def main():
    folder = CORPUS / "pte_fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    for name, partitioner in PARTITIONERS.items():
        lowered = to_edge_transform_and_lower(linear(), partitioner=[partitioner()])
        (folder / name).write_bytes(lowered.to_executorch().buffer)
    for name in ("portable", "ours_inline", "ours_with_named_data", "without_header"):
        (folder / name).write_bytes(PROGRAMS[name]())


if __name__ == "__main__":
    main()
