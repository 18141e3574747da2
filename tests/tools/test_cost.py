"""`liveshape cost` against torch's own FLOP counter, and against the planner at one shape."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from liveshape.prepare import prepare_all
from liveshape.testing import EXPORTS, ROOT, collect
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))
MODELS = sorted(
    name for name, case in collect().items() if Path(case.source).parent.name == "models"
)
COUNTED = [
    "llama_sdpa_raw",
    "llama_eager_dec",
    "qwen3_sdpa_dec",
    "qwen3_padded_sdpa",
    "llama_tied",
    "qwen3_block",
    "mlp_raw",
    "bmm",
    "matmul_raw",
    "sdpa_gqa_causal_raw",
    "sdpa_cross",
]


def attempt(*arguments):
    command = [str(CLI), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def cli(*arguments):
    done = attempt(*arguments)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Case name and further flags -> artifact."""
    folder = tmp_path_factory.mktemp("cost")
    errors = {
        name: error
        for name, _, error in prepare_all([collect()[n] for n in {*MODELS, *COUNTED}])
        if error
    }

    def compiled(name, *flags):
        assert name not in errors, errors[name]
        path = folder / f"{name}{'_static' if flags else ''}.live"
        case_flags = collect()[name].compile_flags()
        cli("compile", EXPORTS / name / "model.pt2", "-o", path, *case_flags, *flags)
        return path

    return compiled


def random_inputs(case, point):
    leaves = {"is_leaf": lambda node: hasattr(node, "example")}
    return pytree.tree_map(lambda i: i.example(point), case.inputs, **leaves).values()


def assigned(flag, values):
    return [part for name, value in values.items() for part in (flag, f"{name}={value}")]


@pytest.mark.parametrize("name", COUNTED)
def test_flops_are_those_of_torch(name, live):
    case, model = collect()[name], live(name)
    for point in case.sweep:
        # torch does not count the CPU's fused attention; what it is made of, it does.
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
            torch.no_grad(),
        ):
            case.build()(*random_inputs(case, point))
        cost = json.loads(cli("cost", model, *assigned("--at", point), "--json"))
        assert cost["total"]["at"]["flops"] == counter.get_total_flops(), point
        assert cost["total"]["at"]["needed_flops"] <= cost["total"]["at"]["flops"]


@pytest.mark.parametrize("name", ["static_cache_sdpa_nonstrict", "static_cache_eager_strict_dec"])
def test_flops_of_a_static_cache(name, live):
    """Attention reads the whole cache by torch's count; `needed` follows the position."""
    model = live(name)
    (host,) = json.loads(cli("dump", model, "--json"))["host_values"]
    module = torch.export.load(EXPORTS / name / "model.pt2").module()
    needed = {}
    for length, position in [(31, 0), (5, 0), (1, 0), (1, 30), (3, 11)]:
        tokens = torch.zeros(1, length, dtype=torch.long)
        with (
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
            torch.no_grad(),
        ):
            module(input_ids=tokens, cache_position=torch.arange(position, position + length))
        point = {"S": length, host["symbol"]: position}
        total = json.loads(cli("cost", model, *assigned("--at", point), "--json"))["total"]["at"]
        assert total["flops"] == counter.get_total_flops(), point
        needed[length, position] = total["needed_flops"]
    assert needed[1, 0] < needed[1, 30] <= total["flops"]


def legal_ends(symbols, model):
    """The smallest and the largest live shape, those of them that the program's guards allow."""
    points = [{symbol["name"]: symbol[end] for symbol in symbols} for end in ("min", "max")]
    return [at for at in points if attempt("cost", model, *assigned("--at", at)).returncode == 0]


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_what_the_planner_gives_at_that_point(name, live):
    model = live(name)
    symbols = json.loads(cli("dump", model, "--json"))["symbols"]
    of_shape = {symbol["name"] for symbol in symbols if symbol["stage"] == 0}
    points = legal_ends(symbols, model)
    assert points
    for at in points:
        fixed = {symbol: value for symbol, value in at.items() if symbol in of_shape}
        static = live(name, *assigned("--static", fixed))
        plans = json.loads(cli("dump", static, "--json"))["plan"]
        for backend, plan in plans.items():
            flags = [*assigned("--at", at), "--backend", backend, "--json"]
            cost = json.loads(cli("cost", model, *flags))
            total = cost["total"]["at"]
            assert cost["planned"] == {k: plan[k] for k in ("bytes", "lower_bound")}, (backend, at)
            assert len(cost["ops"]) == plan["steps"]
            assert total["live_bytes"] == plan["lower_bound"], (backend, at)
            assert backend != "null" or total["scratch_bytes"] == 0


@pytest.mark.parametrize("name", ["llama_sdpa_raw", "bert_eager_dec", "resnet_basic_raw"])
def test_memory_is_what_a_session_has_live(name, live):
    model, sweep = live(name), collect()[name].sweep
    spelled = ";".join(",".join(f"{dim}={size}" for dim, size in at.items()) for at in sweep)
    for threads in (1, 3):
        flags = ["--threads", threads, "--json"]
        bench = json.loads(cli("bench", model, "--sweep", spelled, "--repeat", 1, *flags))
        for row in bench["rows"]:
            cost = json.loads(cli("cost", model, *assigned("--at", row["shape"]), *flags))
            assert cost["total"]["at"]["live_bytes"] == row["live_bytes"], row


def test_shape_is_checked_as_by_bind(live):
    done = attempt("cost", live("llama_sdpa_raw"), "--at", "S=65,B=1")
    assert done.returncode == 2
    assert "bind: symbol `S` would be 65, above its bound 64" in done.stderr


def test_dump_tells_host_values(live):
    """Symbols that are data to torch, but known before the first kernel."""
    dump = json.loads(cli("dump", live("kv_counter"), "--json"))
    (host,) = dump["host_values"]
    symbol = next(s for s in dump["symbols"] if host["symbol"] in (s["name"], s["display"]))
    assert symbol["stage"] == 1 and symbol["min"] <= symbol["max"]
    assert host["element"] == "0"
    assert host["source"] in {state["name"] for state in dump["states"]}
