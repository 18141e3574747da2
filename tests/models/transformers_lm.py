"""Tiny Llama and Qwen3 from `transformers`, exported unmodified, batch and sequence dynamic."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, i64, over, variants

VOCAB, WIDTH, LAYERS = 256, 64, 2


def language_model(family: str, attention: str, **changes) -> torch.nn.Module:
    """A causal LM of random weights; norms are shaken, since all ones would hide a lost weight."""
    import transformers

    config = getattr(transformers, f"{family}Config")(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=changes.pop("positions", 512),
        attn_implementation=attention,
        tie_word_embeddings=changes.pop("tied", False),
        initializer_range=0.1,
        **changes,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


class Logits(torch.nn.Module):
    """Only unpacks the output object and switches off the cache that generation would add."""

    def __init__(self, family, attention, **changes):
        super().__init__()
        self.model = language_model(family, attention, **changes)

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


class MaskedLogits(Logits):
    def forward(self, input_ids, attention_mask):
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False
        ).logits


def padded(point, rng):
    """Left padding: row b sees its last S - b tokens, so early rows of the mask are empty."""
    b, s = point["B"], point["S"]
    mask = (torch.arange(s)[None] >= torch.arange(b)[:, None]).long()
    return {
        "input_ids": torch.randint(0, VOCAB, (b, s), generator=rng),
        "attention_mask": mask,
    }


DIMS = {"B": (1, 4), "S": (1, 64)}
SWEEP = [*over(B=[1, 4], S=[64, 1]), {"B": 2, "S": 17}, {"B": 3, "S": 5}]
IDS = i64("B", "S", high=VOCAB - 1)
MASK = i64("B", "S", low=1, high=1)

CASES = [
    *(
        copy
        for family in ("Llama", "Qwen3")
        for attention in ("sdpa", "eager")
        for copy in variants(
            Case(
                f"{family.lower()}_{attention}",
                lambda family=family, attention=attention: Logits(family, attention),
                {"input_ids": IDS},
                DIMS,
                SWEEP,
                covers="S G3 G7",
            ),
            decompose=RAW_AND_DECOMPOSED,
        )
    ),
    *(
        Case(
            f"qwen3_padded_{attention}",
            lambda attention=attention: MaskedLogits("Qwen3", attention),
            {"input_ids": IDS, "attention_mask": MASK},
            DIMS,
            SWEEP,
            make=padded,
            covers="G3 G7",
        )
        for attention in ("sdpa", "eager")
    ),
    Case(
        "llama_tied",
        lambda: Logits("Llama", "sdpa", tied=True),
        {"input_ids": IDS},
        DIMS,
        over(B=[2], S=[64, 3]),
    ),
    *(
        Case(
            f"llama_tied_{quant}",
            lambda: Logits("Llama", "sdpa", tied=True),
            {"input_ids": IDS},
            DIMS,
            over(B=[2], S=[64, 3, 1]),
            covers="I K",
            quant=quant,
        )
        for quant in ("q8", "q4")
    ),
    Case(
        "qwen3_strict",
        lambda: Logits("Qwen3", "sdpa"),
        {"input_ids": IDS},
        DIMS,
        over(B=[2], S=[64, 3]),
        strict=True,
    ),
]
