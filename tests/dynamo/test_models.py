"""Models of transformers, unmodified: equal to eager, every node ours, one build for all sizes."""

import torch
import transformers
from liveshape.dynamo import stats

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 97}


def compiled(model):
    return torch.compile(model, backend="liveshape", dynamic=True, options={"bound": 64})


def all_ours(graphs=1):
    assert not stats.eager, stats.reasons
    assert (stats.graphs, stats.artifacts, stats.rebuilds) == (graphs, graphs, 0)


def ids(batch, length):
    return torch.randint(0, 97, (batch, length))


def test_bert(agree):
    model = transformers.BertModel(transformers.BertConfig(**SMALL, intermediate_size=64)).eval()
    fast = compiled(model)
    for batch, length in [(2, 7), (3, 12), (5, 64), (2, 2)]:
        tokens = ids(batch, length)
        mask = (torch.arange(length) < torch.arange(1, batch + 1)[:, None]).long()
        agree(model, fast, input_ids=tokens, attention_mask=mask)
    all_ours()


def test_resnet(agree):
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    model = transformers.ResNetModel(config).eval()
    fast = compiled(model)
    for batch, height, width in [(2, 32, 48), (3, 37, 61), (15, 64, 33)]:
        agree(model, fast, torch.randn(batch, 3, height, width))
    all_ours()


def test_llama(agree):
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, intermediate_size=64)
    model = transformers.LlamaForCausalLM(config).eval()
    fast = compiled(model)
    for batch, length in [(2, 7), (3, 12), (4, 33), (2, 64)]:
        agree(model, fast, input_ids=ids(batch, length), use_cache=False)
    all_ours()


def test_a_llama_block(agree):
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, intermediate_size=64)
    config._attn_implementation = "sdpa"
    layer, rotary = LlamaDecoderLayer(config, 0).eval(), LlamaRotaryEmbedding(config)
    fast = compiled(layer)
    for batch, length in [(2, 5), (3, 17), (2, 64)]:
        x = torch.randn(batch, length, 32)
        where = rotary(x, torch.arange(length)[None])
        agree(layer, fast, x, position_embeddings=where)
    all_ours()
