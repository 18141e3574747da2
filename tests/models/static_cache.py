"""Qwen3 with transformers' static KV cache, through every way people export it (G6).

Capacity 32 and an example S of 31 on purpose: 31 is also `max_cache_len - 1`, so anything that
recognises a symbol by its value at export goes wrong here (G1).
"""

import torch
from liveshape.testing import Case

CAPACITY = 32
VOCAB = 256


def model(attention: str, capacity: int = CAPACITY) -> torch.nn.Module:
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=max(512, capacity),
        attn_implementation=attention,
        initializer_range=0.1,
        use_cache=True,
    )
    lm = Qwen3ForCausalLM(config).eval()
    lm.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=capacity,
        cache_config={"batch_size": 1, "max_cache_len": capacity, "device": "cpu"},
    )
    return TorchExportableModuleForDecoderOnlyLM(lm, batch_size=1, max_cache_len=capacity)


def inputs(length: int):
    return {
        "input_ids": torch.arange(length)[None] % VOCAB,
        "cache_position": torch.arange(length),
    }


def shapes(capacity: int = CAPACITY):
    s = torch.export.Dim("S", min=1, max=capacity - 1)
    return {"input_ids": {1: s}, "cache_position": {0: s}}


def exporter(strict: bool, again: bool = False, capacity: int = CAPACITY):
    """`again`: export, take .module(), export that strictly, as optimum-executorch does."""

    def export(exportable):
        example = inputs(capacity - 1)
        dims = shapes(capacity)
        with torch.no_grad():
            ep = exportable.export(**example, dynamic_shapes=dims, strict=strict)
            if again:
                ep = torch.export.export(
                    ep.module(), (), kwargs=example, dynamic_shapes=dims, strict=True
                )
        return ep

    return export


def walk(point, rng):
    """Prefill, 20 decode steps, then a second sequence with a chunk, on the same states."""

    def step(length, position):
        return {
            "input_ids": torch.randint(0, VOCAB, (1, length), generator=rng),
            "cache_position": torch.arange(position, position + length),
        }

    prefill = point["S"]
    decode = min(20, CAPACITY - prefill)
    first = [step(prefill, 0)] + [step(1, prefill + i) for i in range(decode)]
    return [*first, step(5, 0), step(3, 5), step(1, 8)]


NAMES = {"input_ids.1": "S"}
SWEEP = [{"S": 11}, {"S": 31}, {"S": 1}]


def case(name, attention, strict, again=False, **changes):
    return Case(
        name,
        lambda: model(attention),
        sweep=SWEEP,
        make=walk,
        export=exporter(strict, again),
        names=NAMES,
        covers="G1 G4 G6",
        eager=False,
        **changes,
    )


CASES = [
    case(f"static_cache_{attention}_{label}", attention, strict, **changes)
    for attention in ("sdpa", "eager")
    for label, strict, changes in (
        ("nonstrict", False, {}),
        ("strict", True, {}),
        ("strict_dec", True, {"decompose": True}),
        ("again", False, {"again": True}),
    )
]
