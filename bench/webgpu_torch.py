"""The peer of bench/webgpu_bench.py: a Qwen3-0.6B-shaped decoder by eager torch, bf16, on CUDA.

With `transformers`, its Qwen3 with random weights and a DynamicCache; without, a model of the same
shape written here, which does less than transformers does around each layer.
"""

import time

import torch
from torch import nn
from torch.nn.functional import linear, rms_norm, silu
from torch.nn.functional import scaled_dot_product_attention as sdpa

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, VOCABULARY = 28, 1024, 16, 8, 128, 3072, 151_936


class Plain(nn.Module):
    """Eager torch without a framework around it; caches of the capacity, as ours has."""

    def __init__(self, capacity):
        super().__init__()

        def weight(*shape):
            return nn.Parameter(torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02)

        self.table, self.last = weight(VOCABULARY, WIDTH), weight(WIDTH)
        self.layers = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.Module()
            layer.q, layer.o = weight(HEADS * HEAD_DIM, WIDTH), weight(WIDTH, HEADS * HEAD_DIM)
            layer.k, layer.v = (
                weight(KV_HEADS * HEAD_DIM, WIDTH),
                weight(KV_HEADS * HEAD_DIM, WIDTH),
            )
            layer.gate, layer.up = weight(HIDDEN, WIDTH), weight(HIDDEN, WIDTH)
            layer.down = weight(WIDTH, HIDDEN)
            layer.n1, layer.n2 = weight(WIDTH), weight(WIDTH)
            layer.nq, layer.nk = weight(HEAD_DIM), weight(HEAD_DIM)
            cache = torch.zeros(
                1, KV_HEADS, capacity, HEAD_DIM, device="cuda", dtype=torch.bfloat16
            )
            layer.keys, layer.values = cache, cache.clone()
            self.layers.append(layer)
        self.inverse = 1e6 ** (-torch.arange(0, HEAD_DIM, 2, device="cuda").float() / HEAD_DIM)

    def forward(self, ids, pos):
        s = ids.shape[1]
        angle = (torch.arange(s, device="cuda") + pos)[:, None].float() * self.inverse[None]
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()

        def rotate(x):
            left, right = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-right, left), dim=-1) * sin

        def heads(x, w, n):
            return linear(x, w).view(1, s, n, HEAD_DIM)

        x = self.table[ids]
        for y in self.layers:
            h = rms_norm(x, (WIDTH,), y.n1, 1e-6)
            q = rms_norm(heads(h, y.q, HEADS), (HEAD_DIM,), y.nq, 1e-6).transpose(1, 2)
            k = rms_norm(heads(h, y.k, KV_HEADS), (HEAD_DIM,), y.nk, 1e-6).transpose(1, 2)
            y.keys[:, :, pos : pos + s] = rotate(k)
            y.values[:, :, pos : pos + s] = heads(h, y.v, KV_HEADS).transpose(1, 2)
            keys, values = y.keys[:, :, : pos + s], y.values[:, :, : pos + s]
            a = sdpa(rotate(q), keys, values, is_causal=s > 1, enable_gqa=True)
            x = x + linear(a.transpose(1, 2).reshape(1, s, HEADS * HEAD_DIM), y.o)
            h = rms_norm(x, (WIDTH,), y.n2, 1e-6)
            x = x + linear(silu(linear(h, y.gate)) * linear(h, y.up), y.down)
        return linear(rms_norm(x[:, -1:], (WIDTH,), self.last, 1e-6), self.table)


def transformers_model():
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        tie_word_embeddings=True,
        max_position_embeddings=16384,
        attn_implementation="sdpa",
    )
    with torch.device("cuda"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16).eval()

    class Cached:
        """A prefill makes the cache; steps are measured from there."""

        def prefill(self, ids):
            return model(ids, use_cache=True, logits_to_keep=1)

        def decode(self, context):
            """One step after `context`; the cache grows as it does in use."""
            held = model(
                torch.zeros(1, context, dtype=torch.int64, device="cuda"),
                use_cache=True,
                logits_to_keep=1,
            )
            cache = held.past_key_values
            one = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
            return lambda: model(one, past_key_values=cache, use_cache=True, logits_to_keep=1)

    return Cached()


def plain_model():
    model = Plain(8192).eval()

    class Cached:
        def prefill(self, ids):
            return model(ids, 0)

        def decode(self, context):
            one = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
            return lambda: model(one, context - 1)

    return Cached()


def seconds(body, most):
    times = []
    for _ in range(3):
        body()
    torch.cuda.synchronize()
    while len(times) < most and (sum(times) < 1 or len(times) < 5):
        start = time.perf_counter()
        body()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


@torch.no_grad()
def measure(prefills, contexts):
    """(kind, n) -> tokens a second."""
    if not torch.cuda.is_available():
        print("# torch sees no GPU: nothing to compare with")
        return {}
    # cuDNN's attention is planned anew for each length of a growing cache, 1 ms a layer; torch's
    # own flash attention is the better setting for decoding.
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        model, name = transformers_model(), "transformers' Qwen3"
    except ImportError:
        print("# transformers is not installed: compared with plain eager torch of the same shape")
        model, name = plain_model(), "plain torch"
    figures = {}
    for n in prefills:
        ids = torch.zeros(1, n, dtype=torch.int64, device="cuda")
        figures["prefill", n] = n / seconds(lambda ids=ids: model.prefill(ids), 50)
    for n in contexts:
        figures["decode", n] = 1 / seconds(model.decode(n), 200)
    for (kind, n), tokens in figures.items():
        print(f"{name}, eager bf16: {kind} {n}: {tokens:.0f} tokens/s", flush=True)
    return figures
