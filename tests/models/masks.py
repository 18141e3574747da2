"""The causal-mask subgraph as graph (G3): comparisons, logic, cumsum, any, integer arithmetic.

All of it must run on live data. The shapes follow what transformers traces: positions from a
cumulative sum of the padding mask, a causal comparison, and the fix-up of rows that see nothing.
"""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, over, variants
from torch import nn


class PaddingMask(nn.Module):
    """Positions, a boolean mask and an additive one, out of a 0/1 padding mask."""

    def forward(self, padding):
        s = padding.shape[1]
        positions = (padding.cumsum(-1) - 1).masked_fill(padding == 0, 1)
        queries = torch.arange(s)[None, None, :, None]
        keys = torch.arange(s)[None, None, None, :]
        causal = keys <= queries
        seen = causal & padding[:, None, None, :].bool()
        blind = ~torch.any(seen, dim=-1, keepdim=True)
        added = torch.where(seen | blind, 0.0, torch.finfo(torch.float32).min)
        return positions, seen, added, blind.sum()


class SlidingWindow(nn.Module):
    """Window and packed-sequence masks: integer arithmetic and logical ops on comparisons."""

    def forward(self, document):
        s = document.shape[1]
        q, k = torch.arange(s)[:, None], torch.arange(s)[None]
        near = (q - k < 4) & (k <= q)
        same = document[:, :, None] == document[:, None, :]
        chunk = torch.div(q, 3, rounding_mode="floor") == k // 3
        mask = torch.logical_and(near | chunk, same)
        return mask, mask.sum(-1), torch.logical_not(mask).any(-1), (q + k) % 5 == 0


class MaskedScores(nn.Module):
    """The mask meets scores: softmax rows that see nothing become zero, never NaN."""

    def forward(self, x, padding):
        s = x.shape[1]
        seen = torch.ones(s, s, dtype=torch.bool).tril()[None] & padding.bool()[:, None]
        scores = (x @ x.transpose(1, 2)).masked_fill(~seen, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        weights = torch.where(seen.any(-1, keepdim=True), weights, torch.zeros_like(weights))
        return weights @ x


class Offset(nn.Module):
    """cache_position style: the live context comes from data."""

    def forward(self, positions):
        keys = torch.arange(32)
        mask = keys[None] <= positions[:, None]
        count = mask.sum(-1)
        return mask, count, positions.max() + 1, torch.where(mask, 0.0, float("-inf"))


def left_padded(point, rng):
    b, s = point["B"], point["S"]
    padding = (torch.arange(s)[None] >= torch.arange(b)[:, None] * 2).long()
    return {"padding": padding}


def scored(point, rng):
    x = torch.randn(point["B"], point["S"], 8, generator=rng)
    return {"x": x} | left_padded(point, rng)


BS = {"B": (1, 4), "S": (1, 32)}
SWEEP = [*over(B=[4, 1], S=[32, 3, 1]), {"B": 2, "S": 7}]
CASES = [
    *variants(
        Case(
            "mask_padding",
            PaddingMask,
            {"padding": i64("B", "S", low=0, high=1)},
            BS,
            SWEEP,
            left_padded,
            covers="G3",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("mask_window", SlidingWindow, {"document": i64("B", "S", high=2)}, BS, SWEEP, covers="G3"),
    *variants(
        Case(
            "mask_scores",
            MaskedScores,
            {"x": f32("B", "S", 8), "padding": i64("B", "S", low=0, high=1)},
            BS,
            SWEEP,
            scored,
            covers="G3 G7",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "mask_offset", Offset, {"positions": i64("S", high=31)}, {"S": (1, 32)}, over(S=[32, 5, 1])
    ),
]
