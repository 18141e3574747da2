"""Makes the models that bench/ measures, into build/bench (never committed).

    python bench/models.py                     # all of them
    python bench/models.py decoder_16 -o DIR   # one

decoder_4096, decoder_16    one two-layer decoder at two bounds. At S = 4096 gate and up alone are
                            2 x 4096 x 12800 x 4 B = 419 MB of arena, so physical memory that does
                            not follow the live shape shows; at S = 16 both must cost the same.
decoder_small               the same at width 64: bind time, where kernels cost nothing.
static_cache_4096, _64      Qwen3 through transformers' static cache at two capacities.
weights_100mb               109 MB of weights: import, compile and load times.
qwen3_512, _1024, _8192     a Qwen3-0.6B-shaped decoder in f16 with a KV cache of that capacity,
                            without weights (compile --random-weights). Not made by default.
chain_f32, chain_f16        16 products of 1024 x 1024, one after the other: GEMM.
gemv_f16, normed_f16        4 pairs of 1024 -> 3072 -> 1024; with a norm before each.
head_f16                    1024 -> 151,936. All of these without weights, too.
minilm                      a sentence encoder with its real weights, 3 to 256 tokens.
"""

import argparse
import importlib.util
import itertools
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from liveshape import save  # noqa: E402

HEAD_DIM = 64


class Layer(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.v, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        b, s, width = x.shape
        h = self.norm1(x)
        heads = [p(h).view(b, s, -1, HEAD_DIM).transpose(1, 2) for p in (self.q, self.k, self.v)]
        y = scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, width))
        h = self.norm2(x)
        return x + self.down(silu(self.gate(h)) * self.up(h))


def decoder(bound, width, hidden):
    """Two layers; the weights do not depend on the bound."""
    torch.manual_seed(0)
    model = nn.Sequential(Layer(width, hidden), Layer(width, hidden)).eval()
    s = torch.export.Dim("S", min=1, max=bound)
    shapes = ({1: s},)
    ep = torch.export.export(model, (torch.randn(1, 7, width),), dynamic_shapes=shapes)
    return ep, shapes


def cases_of(name):
    """The module tests/models/<name>.py."""
    file = ROOT / "tests" / "models" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def minilm():
    """Batch 1: what a caller with one sentence at a time has."""
    s = torch.export.Dim("S", min=3, max=256)
    shapes = ({1: s}, {1: s})
    ids = torch.arange(17)[None]
    model = cases_of("text_encoders").Sentences().eval()
    return torch.export.export(model, (ids, torch.ones_like(ids)), dynamic_shapes=shapes), shapes


def static_cache(capacity):
    """The conformance case's own model, at another capacity."""
    module = cases_of("static_cache")
    torch.manual_seed(0)
    ep = module.exporter(strict=True, capacity=capacity)(module.model("sdpa", capacity))
    return ep, module.NAMES


def qwen3(capacity, shape=None):
    """(ids, pos) -> logits of the last token. Prefill is at most 2048 long."""
    module = cases_of("qwen3_decoder")
    with torch.device("meta"):
        model = module.Qwen3Decoder(shape or module.QWEN3_06B, capacity)
    inverse = module.inverse_frequencies((shape or module.QWEN3_06B)["head_dim"])
    model = model.to_empty(device="cpu").eval()
    model.inverse.copy_(inverse)
    for name, buffer in model.named_buffers():
        if name.endswith("_cache"):
            buffer.zero_()
    s = torch.export.Dim("S", min=1, max=min(2048, capacity - 1))
    shapes = ({1: s}, torch.export.Dim.DYNAMIC)
    return torch.export.export(
        model, (torch.zeros(1, 7, dtype=torch.int64), 6), dynamic_shapes=shapes
    ), shapes


def chain(sizes, dtype, normed=False):
    """x[M, sizes[0]] through products to each of the next sizes."""
    layers = []
    for rows, columns in itertools.pairwise(sizes):
        layers += [nn.RMSNorm(rows, eps=1e-6)] if normed else []
        layers += [nn.Linear(rows, columns, bias=False)]
    model = nn.Sequential(*layers).to(dtype).eval()
    shapes = ({0: torch.export.Dim("M", min=1, max=4096)},)
    x = torch.zeros(7, sizes[0], dtype=dtype)
    return torch.export.export(model, (x,), dynamic_shapes=shapes), shapes


PAIRS = [1024, 3072] * 4 + [1024]
SHAPES = {
    "qwen3_512": lambda: qwen3(512),
    "qwen3_1024": lambda: qwen3(1024),
    "qwen3_8192": lambda: qwen3(8192),
    "qwen3_tiny": lambda: qwen3(96, cases_of("qwen3_decoder").SMALL),
    "chain_f32": lambda: chain([1024] * 17, torch.float32),
    "chain_f16": lambda: chain([1024] * 17, torch.float16),
    "gemv_f16": lambda: chain(PAIRS, torch.float16),
    "normed_f16": lambda: chain(PAIRS, torch.float16, normed=True),
    "head_f16": lambda: chain([1024, 151_936], torch.float16),
}
MODELS = {
    "decoder_4096": lambda: decoder(4096, 512, 12800),
    "decoder_16": lambda: decoder(16, 512, 12800),
    "decoder_small": lambda: decoder(4096, 64, 128),
    "static_cache_4096": lambda: static_cache(4096),
    "static_cache_64": lambda: static_cache(64),
    "weights_100mb": lambda: decoder(256, 1024, 3072),
    "minilm": minilm,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*MODELS, *SHAPES]))
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "bench")
    args = parser.parse_args()
    if unknown := set(args.names) - {*MODELS, *SHAPES}:
        parser.error(f"no model is called {', '.join(sorted(unknown))}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or MODELS:
        with torch.no_grad():
            ep, names = (MODELS | SHAPES)[name]()
        save(ep, args.out / f"{name}.pt2", names=names, weights=name in MODELS)
        size = (args.out / f"{name}.pt2").stat().st_size
        print(f"{name}.pt2 {size / 1e6:.1f} MB", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
