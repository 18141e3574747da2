"""Makes demo.pt2 and its goldens: a small GQA transformer with a KV cache, all sizes live.

    python models/demo/make_demo.py            # writes demo.pt2 and golden/ beside this file

`make demo` walks these shapes in one session without torch. B (batch), S (new tokens) and `pos`
(tokens already cached) are symbols; the caches are states at their capacity, [4, 2, 128, 16]
each. Weights are random and seeded: what the demo shows is shapes, not wit.
"""

import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

from liveshape import save  # noqa: E402
from liveshape.golden import write_goldens  # noqa: E402

VOCAB, WIDTH, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, LAYERS = 256, 64, 4, 2, 16, 128, 2
CAPACITY, BATCH = 128, 4
NAMES = {"tokens.0": "B", "tokens.1": "S", "pos": "P"}


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, HEADS * HEAD_DIM, bias=False)
        self.k = nn.Linear(WIDTH, KV_HEADS * HEAD_DIM, bias=False)
        self.v = nn.Linear(WIDTH, KV_HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, WIDTH, bias=False)
        for cache in ("k_cache", "v_cache"):
            self.register_buffer(cache, torch.zeros(BATCH, KV_HEADS, CAPACITY, HEAD_DIM))

    def forward(self, x, pos, cos, sin, mask):
        b, s, _ = x.shape
        q = rotate(self.q(x).view(b, s, HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        k = rotate(self.k(x).view(b, s, KV_HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
        v = self.v(x).view(b, s, KV_HEADS, HEAD_DIM).transpose(1, 2)
        self.k_cache[:b, :, pos : pos + s].copy_(k)
        self.v_cache[:b, :, pos : pos + s].copy_(v)
        y = nn.functional.scaled_dot_product_attention(
            q,
            self.k_cache[:b, :, : pos + s],
            self.v_cache[:b, :, : pos + s],
            attn_mask=mask,
            enable_gqa=True,
        )
        return self.o(y.transpose(1, 2).reshape(b, s, HEADS * HEAD_DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, *place):
        x = x + self.attention(self.norm1(x), *place)
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Demo(nn.Module):
    """Logits of the last token; `pos` tokens of each row are in the caches already."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()
        inverse = 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM)
        self.register_buffer("inverse_frequency", inverse)

    def forward(self, tokens, pos: int):
        s = tokens.shape[1]
        torch._check(pos >= 0)
        # Below, not up to: for a full cache torch would add a guard of its own, on strides.
        torch._check(pos + s < CAPACITY)
        x = self.embed(tokens)
        here = torch.arange(s) + pos
        angle = here[:, None].float() * self.inverse_frequency[None]
        angle = torch.cat((angle, angle), dim=-1)
        mask = torch.arange(pos + s)[None] <= here[:, None]
        for layer in self.layers:
            x = layer(x, pos, angle.cos(), angle.sin(), mask)
        last = self.norm(x[:, -1])
        return last @ self.embed.weight.T


def export(model):
    b = torch.export.Dim("B", min=1, max=BATCH)
    # At S = CAPACITY torch would specialise: a full slice has the strides of the whole cache.
    s = torch.export.Dim("S", min=1, max=CAPACITY - 1)
    shapes = {"tokens": {0: b, 1: s}, "pos": torch.export.Dim.DYNAMIC}
    example = (torch.randint(0, VOCAB, (3, 7)), 5)
    with torch.no_grad():
        ep = torch.export.export(model, example, dynamic_shapes=shapes)
    tidy(ep)
    return ep


def tidy(ep):
    """Keep of each node's history only its line in this file: smaller, and free of our paths."""
    for node in ep.graph.nodes:
        trace = node.meta.get("stack_trace") or ""
        frames = [line for line in trace.splitlines() if str(HERE) in line]
        lines = trace.splitlines()
        code = lines[lines.index(frames[-1]) + 1].strip() if frames else ""
        where = frames[-1].strip().replace(f"{HERE}/", "") if frames else ""
        for key in set(node.meta) - {"val"}:
            del node.meta[key]
        if frames:
            node.meta["stack_trace"] = f"  {where}\n    {code}\n"


def walk(point, rng):
    """Up and down through prefill lengths, decode and batches, on states that live on."""

    def step(batch, length, pos):
        tokens = torch.randint(0, VOCAB, (batch, length), generator=rng)
        return {"tokens": tokens, "pos": torch.tensor(pos)}

    def sequence(batch, prefill, decode):
        decoded = [step(batch, 1, prefill + i) for i in range(decode)]
        return [step(batch, prefill, 0), *decoded]

    steps = sequence(1, 5, 4) + sequence(1, 125, 1) + sequence(1, 100, 8) + sequence(4, 1, 3)
    steps += [*sequence(4, 64, 4), step(4, 16, 68), step(4, 1, 84), *sequence(2, 33, 6)]
    return [*steps, step(2, 88, 39), *sequence(3, 17, 3), *sequence(1, 1, 6), *sequence(4, 127, 0)]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    save(export(Demo().eval()), HERE / "demo.pt2", names=NAMES)
    write_goldens(HERE / "demo.pt2", [{}], HERE / "golden", make=walk)


if __name__ == "__main__":
    main()
