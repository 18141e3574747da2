"""Views: sizes come from the view's own expressions, never from a guess at element counts (W7).

`[4, 128] -> 256 elements` has several divisible dims; a zero extent is legal; an output may be a
view of an input, with no op in between.
"""

import torch
from liveshape.testing import RAW_AND_DECOMPOSED, Case, f32, i64, over, variants
from torch import nn


class Guess(nn.Module):
    """Two live dims, both divisible: only the expressions tell [2, 128] from [4, 64]."""

    def forward(self, x):
        a, b = x.shape
        y = x * 2
        return (
            y.view(a * b),
            y.view(a, 2, b // 2),
            y.view(b, a),
            y.reshape(a * 2, -1),
            y.view(1, -1),
        )


class Merge(nn.Module):
    """(B, S, H*D) <-> (B, H, S, D): transposed, so a reshape must copy, and a view must not."""

    def forward(self, x):
        b, s, _ = x.shape
        heads = x.view(b, s, 4, 6).transpose(1, 2)
        return heads.reshape(b * 4, s, 6), heads.swapaxes(1, 2).flatten(2), heads.contiguous()


class Alias(nn.Module):
    """Outputs that are inputs, or plain views of them, or each other."""

    def forward(self, x):
        return x, x.view(-1), x.unsqueeze(0), x.view(-1), x.detach()


class Slices(nn.Module):
    def forward(self, x):
        s = x.shape[0]
        return (
            x[1:],
            x[:-1],
            x[: s // 2],
            x[s // 2 :],
            x[::2],
            x[-1:],
            x[..., 2:6:3],
            x[:100],
            x.narrow(1, 1, 3),
        )


class Selects(nn.Module):
    def forward(self, x):
        return x[0], x[-1], x[:, 3], x.select(1, -1) * 2


class Permuted(nn.Module):
    def forward(self, x):
        y = x.permute(2, 0, 1)
        moved = x.movedim(0, -1), x.movedim((0, 1), (2, 0)), x.ravel(), (x * 2).view_as(x)
        return *moved, y, y + 1, x.mT.contiguous(), x.transpose(0, 1).sum(-1), y.flatten(1)


class Expanded(nn.Module):
    def forward(self, x, like):
        s = like.shape[0]
        wide = x.expand(s, 5)
        return wide, wide + 1, x[:, None].expand(-1, s, -1).reshape(s, 5), x.expand_as(like) * like


class Edges(nn.Module):
    """One row or column to all, and none of an empty x: its size is Min(S, 1)."""

    def forward(self, x):
        s = x.shape[0]
        wide = x[:1].expand(s, -1)
        filled = (x + 1).copy_(x[-1:])
        return (
            wide,
            wide * 2,
            x[:1].expand_as(x) - x,
            wide.reshape(-1),
            filled,
            x[:, :1].expand_as(x),
        )


class Squeezed(nn.Module):
    def forward(self, x):
        y = x.unsqueeze(1)
        return y, y.squeeze(1) + 1, x[None, :, None].squeeze(0), x.unsqueeze(-1).squeeze(-1)


class FirstSqueezed(nn.Module):
    def forward(self, x):
        return x[:1].squeeze(0), x[-1:].squeeze() + x


class Splits(nn.Module):
    def forward(self, x):
        a, b, c = x.split([2, 3, 4], dim=-1)
        d, e = x.chunk(2, dim=-1)
        p, q, r = x[:, :3].unbind(-1)
        each = (*x.split(4, dim=-1), *x.chunk(4, dim=-1), *torch.stack((x, -x)).unbind())
        return a + 1, b, c * 2, d, e, p + q * r, *each


class Empties(nn.Module):
    """What is always of size 0: not squeezed, split into one piece, chunked into what is asked."""

    def forward(self, x):
        none = x[:, 9:]
        return none.squeeze(), none.squeeze(1) + 1, *none.split(3, dim=1), *none.chunk(2, dim=1)


class Converted(nn.Module):
    """Integers written into a part of floats."""

    def forward(self, x):
        order = torch.sort(x, dim=0, descending=True, stable=True)[1]
        return torch.slice_scatter(x, order, 0, 0, x.shape[0]), torch.select_scatter(
            x, order[0], 0, 0
        )


class TensorSplits(nn.Module):
    """Of a fixed size: torch cannot export a part whose size depends on a live one."""

    def forward(self, x):
        at = *x.tensor_split((2, -3, 20), dim=1), *x.tensor_split((4, 1), dim=1)
        return *x.tensor_split(4, dim=1), *(part + 1 for part in at), *x.tensor_split(12, dim=-1)


class Grids(nn.Module):
    def forward(self, x, y):
        a, b = torch.meshgrid(x, y, indexing="ij")
        c, d = torch.meshgrid(x, y, indexing="xy")
        return a + b * 2, c + d * 2, *torch.meshgrid(y, x * 2, y[:2], indexing="xy")


class Repeats(nn.Module):
    def forward(self, x):
        return x.repeat(2, 1), x.repeat(1, 3), x.repeat_interleave(2, dim=1), x.tile(2, 2)


class Rank6(nn.Module):
    def forward(self, x):
        a, b, c, d, e, f = x.shape
        y = x.permute(5, 3, 1, 4, 2, 0) * 2
        return y, y.sum((0, 2)), x.reshape(a * b, c, d * e, f) + 1, x[:, :, 0, ..., 1:] - 1


class ZeroExtent(nn.Module):
    """Views of nothing: the divisor of -1 may be 0 live elements, never a live 0 divisor."""

    def forward(self, x):
        s = x.shape[0]
        return x.view(s, 2, 3), x.view(s * 6), x.transpose(0, 1).reshape(6 * s), x[:0], x[s:]


class Flattened(nn.Module):
    def forward(self, n):
        return n.flatten(), n.flatten(1), n.unflatten(-1, (2, -1)), n.reshape(-1, 2)


BS = {"B": (0, 3), "S": (0, 17)}
SWEEP = [*over(B=[3, 1], S=[17, 4, 1]), {"B": 0, "S": 3}, {"B": 2, "S": 0}]
S32 = {"S": (1, 32)}
ST = {"S": (0, 9), "T": (0, 7)}
CASES = [
    *variants(
        Case(
            "view_guess",
            Guess,
            # torch needs b even to divide it: the Dim is h, the size is 2*h
            {"x": f32("a", "2*h")},
            {"a": (1, 8), "h": (1, 64)},
            [{"a": a, "h": h} for a, h in ((8, 64), (4, 32), (2, 64), (1, 1), (4, 1), (1, 64))],
            covers="W7 G2",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("view_merge", Merge, {"x": f32("B", "S", 24)}, BS, SWEEP, covers="W7 G2"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case("view_alias", Alias, {"x": f32("B", "S")}, BS, SWEEP, covers="W7 W2"),
    Case(
        "view_zero", ZeroExtent, {"x": f32("S", 6)}, {"S": (0, 9)}, over(S=[9, 1, 0]), covers="W7"
    ),
    *variants(
        Case(
            "slice",
            Slices,
            {"x": f32("S", 8)},
            S32,
            over(S=[32, 9, 2, 1]),
            covers="G2 X3",
            hints=True,
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("select", Selects, {"x": f32("S", 5)}, S32, over(S=[32, 3, 1]), covers="G2 N"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("permute", Permuted, {"x": f32("B", "S", 5)}, BS, SWEEP, covers="G2"),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "expand",
            Expanded,
            {"x": f32(1, 5), "like": f32("S", 5)},
            {"S": (0, 12)},
            over(S=[12, 1, 0]),
            covers="G2",
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("expand_edges", Edges, {"x": f32("S", "T")}, ST, over(S=[9, 2, 1, 0], T=[7, 1, 0])),
        hints=[("dim", False), ("hint", True)],
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("squeeze", Squeezed, {"x": f32("S", 3)}, {"S": (0, 12)}, over(S=[12, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    # Of an empty x torch keeps the dim: another rank, which is refused.
    Case("squeeze_edges", FirstSqueezed, {"x": f32("S", 3)}, {"S": (0, 12)}, over(S=[12, 1])),
    *variants(
        Case("split", Splits, {"x": f32("S", 9)}, {"S": (0, 12)}, over(S=[12, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("always_empty", Empties, {"x": f32("S", 9)}, {"S": (2, 12)}, over(S=[12, 2])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("scatter_converted", Converted, {"x": f32("S", 3)}, {"S": (1, 12)}, over(S=[12, 1])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case("tensor_split", TensorSplits, {"x": f32("S", 9)}, {"S": (0, 12)}, over(S=[12, 1, 0])),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "meshgrid",
            Grids,
            {"x": f32("A"), "y": f32("B")},
            {"A": (0, 9), "B": (2, 7)},
            over(A=[9, 1, 0], B=[7, 2]),
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    *variants(
        Case(
            "repeat", Repeats, {"x": f32("S", 3)}, {"S": (0, 12)}, over(S=[12, 1, 0]), covers="G2"
        ),
        decompose=RAW_AND_DECOMPOSED,
    ),
    Case(
        "rank6",
        Rank6,
        {"x": f32("a", 2, "c", 3, "e", 2)},
        {"a": (1, 4), "c": (1, 5), "e": (1, 6)},
        over(a=[4, 1], c=[5, 1], e=[6, 1]),
        covers="G9",
    ),
    Case(
        "flatten_i64",
        Flattened,
        {"n": i64("B", "S", 4)},
        BS,
        over(B=[3, 1], S=[17, 1]),
    ),
]
