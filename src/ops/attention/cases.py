"""Attention as one node and decomposed; every kind of mask, and rows that see nothing (G7)."""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, Input, boolean, f32, i64, over, variants
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

WIDTH, HEADS, HEAD_DIM = 64, 4, 16


class Projected(nn.Module):
    """Q/K/V projections, attention, output projection."""

    def __init__(self, kv_heads=HEADS, **options):
        super().__init__()
        self.kv_heads, self.options = kv_heads, options
        self.q, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, kv_heads * HEAD_DIM)
        self.v = nn.Linear(WIDTH, kv_heads * HEAD_DIM)

    def forward(self, x, mask=None):
        b, s, _ = x.shape
        q = self.q(x).view(b, s, HEADS, HEAD_DIM).transpose(1, 2)
        k = self.k(x).view(b, s, self.kv_heads, HEAD_DIM).transpose(1, 2)
        v = self.v(x).view(b, s, self.kv_heads, HEAD_DIM).transpose(1, 2)
        y = self.attend(q, k, v, mask)
        return self.o(y.transpose(1, 2).reshape(b, s, WIDTH))

    def attend(self, q, k, v, mask):
        return sdpa(q, k, v, attn_mask=mask, **self.options)


class WrittenOut(Projected):
    """matmul, scale, mask, softmax, matmul, with repeat_kv: as transformers' eager attention."""

    def attend(self, q, k, v, mask):
        b, kv, s, d = k.shape
        groups = HEADS // self.kv_heads
        k = k[:, :, None].expand(b, kv, groups, s, d).reshape(b, HEADS, s, d)
        v = v[:, :, None].expand(b, kv, groups, s, d).reshape(b, HEADS, s, d)
        scores = torch.matmul(q, k.transpose(2, 3)) * HEAD_DIM**-0.5
        if mask is not None and mask.dtype == torch.bool:
            scores = torch.where(mask, scores, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(weights, v)


class Bare(nn.Module):
    """Attention alone; Q and K/V lengths are two symbols."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v):
        return sdpa(q, k, v, **self.options)


class SelfBare(Bare):
    def forward(self, q, k, v):
        return sdpa(q, k, v, is_causal=True, **self.options)


class InDoubles(nn.Module):
    """The fused op computes in f32, so that this stays products and a softmax."""

    def forward(self, q, k, v):
        return torch.softmax(q @ k.mT * 0.25, -1) @ v


class Across(nn.Module):
    """Leading dims broadcast: K and V of another rank, one batch, one head; Q of one head."""

    def forward(self, q, k):
        mask = torch.ones(q.shape[-2], k.shape[-2]).tril() > 0
        return (
            sdpa(q, k, k),
            sdpa(q, k, k, attn_mask=mask),
            sdpa(q, k[:1], k[None]),
            sdpa(q[:, :1], k, k),
            sdpa(q[0, 0], k, k, attn_mask=mask),
            sdpa(q[0], k[:1], k[:1]),
        )


class FirstRow(nn.Module):
    """A mask of the first image for all, and a limit that the first query alone decides."""

    def forward(self, q, mask, reach):
        s = q.shape[2]
        keys = torch.arange(s)
        near = keys[None, :] <= reach[:1, None] + keys[:, None]
        return sdpa(q, q, q, attn_mask=mask[:1]), sdpa(q, q, q, attn_mask=near)


def masked(kind, hidden_rows=True):
    """A causal mask behind left padding: row b hides its first b keys, so its first b queries
    see nothing at all, unless hidden_rows is False (then they see themselves)."""

    def make(point, rng):
        b, s = point["B"], point["S"]
        keys = torch.arange(s)
        seen = (keys[None, :] <= keys[:, None]) & (keys >= torch.arange(b)[:, None, None])
        if not hidden_rows:
            seen = seen | torch.eye(s, dtype=torch.bool)
        seen = seen[:, None]
        x = torch.randn(b, s, WIDTH, generator=rng)
        if kind == "bool":
            return {"x": x, "mask": seen}
        low = float("-inf") if kind == "inf" else torch.finfo(torch.float32).min
        return {"x": x, "mask": torch.zeros(seen.shape).masked_fill(~seen, low)}

    return make


X = {"x": f32("B", "S", WIDTH)}
BOOL = X | {"mask": boolean("B", 1, "S", "S")}
ADDED = X | {"mask": f32("B", 1, "S", "S")}
DIMS = {"B": (1, 4), "S": (1, 32)}
SWEEP = [*over(B=[1, 4], S=[32, 1]), {"B": 3, "S": 7}]


def both(case):
    return variants(case, decompose=RAW_AND_DECOMPOSED)


CASES = [
    *both(Case("sdpa", Projected, X, DIMS, SWEEP, covers="G7")),
    *both(Case("sdpa_causal", lambda: Projected(is_causal=True), X, DIMS, SWEEP, covers="G7")),
    *both(
        Case(
            "sdpa_gqa_causal",
            lambda: Projected(kv_heads=2, is_causal=True, enable_gqa=True),
            X,
            DIMS,
            SWEEP,
            covers="G7 W5",
        )
    ),
    *both(Case("sdpa_bool", Projected, BOOL, DIMS, SWEEP, masked("bool"), covers="G7 W5")),
    *both(Case("sdpa_inf", Projected, ADDED, DIMS, SWEEP, masked("inf"), covers="G7 W5")),
    *both(Case("sdpa_min", Projected, ADDED, DIMS, SWEEP, masked("min"), covers="G7 W5")),
    Case("sdpa_scaled", lambda: Projected(scale=0.5), X, DIMS, SWEEP, covers="G7"),
    Case("attention_plain", WrittenOut, X, DIMS, SWEEP, covers="G7"),
    # torch's softmax of a row that is all -inf is NaN; goldens say so, and so must we.
    Case("attention_nan_rows", WrittenOut, BOOL, DIMS, SWEEP, masked("bool"), covers="G7"),
    *both(
        Case(
            "attention_bool",
            WrittenOut,
            BOOL,
            DIMS,
            SWEEP,
            masked("bool", hidden_rows=False),
            covers="G7",
        )
    ),
    *both(
        Case(
            "attention_gqa_min",
            lambda: WrittenOut(kv_heads=2),
            ADDED,
            DIMS,
            SWEEP,
            masked("min"),
            covers="G7",
        )
    ),
    *both(
        Case(
            "sdpa_first_row",
            FirstRow,
            {
                "q": f32("B", 4, "S", 16),
                "mask": boolean("B", 1, "S", "S"),
                "reach": i64("S", high=3),
            },
            {"B": (0, 3), "S": (0, 20)},
            over(B=[3, 1, 0], S=[20, 2, 1, 0]),
        )
    ),
    Case(
        "sdpa_cross",
        Bare,
        {"q": f32(2, 4, "Q", 16), "k": f32(2, 4, "K", 16), "v": f32(2, 4, "K", 24)},
        {"Q": (1, 32), "K": (1, 48)},
        over(Q=[32, 1], K=[48, 5, 1]),
        covers="W5",
    ),
    *both(
        Case(
            "sdpa_across",
            Across,
            {"q": f32("B", 4, "S", 16), "k": f32(4, "T", 16)},
            {"B": (1, 4), "S": (1, 9), "T": (1, 9)},
            [{"B": 4, "S": 9, "T": 7}, {"B": 4, "S": 2, "T": 9}, {"B": 1, "S": 1, "T": 1}],
        )
    ),
    Case(
        "sdpa_live_heads",
        Bare,
        {name: f32(2, "S", 3, 16) for name in "qkv"},
        {"S": (0, 9)},
        over(S=[9, 1, 0]),
    ),
    Case(
        "attention_f64",
        InDoubles,
        {name: Input((2, "S", 16), torch.float64) for name in "qkv"},
        {"S": (1, 32)},
        over(S=[32, 1]),
        tolerance=1e-12,
    ),
    Case(
        "sdpa_bare_causal",
        SelfBare,
        {"q": f32("B", 4, "S", 16), "k": f32("B", 4, "S", 16), "v": f32("B", 4, "S", 16)},
        {"B": (1, 3), "S": (1, 64)},
        over(B=[1, 3], S=[64, 9, 1]),
        covers="W5",
    ),
]
