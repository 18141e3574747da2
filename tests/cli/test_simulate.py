"""liveshape simulate: cycles at every size from one artifact."""

import json
import os
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from liveshape import save
from torch.export import Dim

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))
TPU, EDGE, QUAD = (ROOT / "machines" / f"{name}.yaml" for name in ("tpuv3", "edge", "quad"))


def cli(*arguments, code=0):
    done = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}\n{done.stdout}{done.stderr}"
    return done


def simulate(model, *arguments, machine=TPU):
    return json.loads(cli("simulate", model, "--machine", machine, *arguments, "--json").stdout)


class Add(torch.nn.Module):
    def forward(self, a, b):
        return a + b


class Matmul(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def compiled(folder, name, module, inputs, shapes):
    program = torch.export.export(module, inputs, dynamic_shapes=shapes)
    save(program, folder / f"{name}.pt2", shapes)
    cli("compile", folder / f"{name}.pt2", "-o", folder / f"{name}.live")
    return folder / f"{name}.live"


@pytest.fixture(scope="module")
def add(tmp_path_factory):
    n = Dim("N", min=1, max=4096)
    inputs = (torch.randn(8), torch.randn(8))
    return compiled(tmp_path_factory.mktemp("add"), "add", Add(), inputs, ({0: n}, {0: n}))


@pytest.fixture(scope="module")
def gemm(tmp_path_factory):
    m, k, n = (Dim(name, min=1, max=4096) for name in "MKN")
    inputs, shapes = (torch.randn(8, 9), torch.randn(9, 7)), ({0: m, 1: k}, {0: k, 1: n})
    return compiled(tmp_path_factory.mktemp("gemm"), "gemm", Matmul(), inputs, shapes)


def test_an_add_of_tiles_of_512(add):
    """N5: 7 records a tile, from one producer."""
    runs = simulate(add, "--tile", 512, "--sweep", "N=1024,2048,1000")["runs"]
    assert [(r["shape"]["N"], r["tiles"], r["records"]) for r in runs] == [
        (1024, 2, 14),
        (2048, 4, 28),
        (1000, 2, 14),
    ]
    assert runs[0]["cycles"] < runs[1]["cycles"]
    assert runs[2]["bytes"] == {"loaded": 8000, "stored": 4000, "bursts": 3 * 63 * 64}


def test_without_a_sweep_the_bound_is_said(add):
    report = simulate(add)
    assert report["shapes"] == "bound" and report["runs"][0]["shape"] == {"N": 4096}
    assert "at the bound" in cli("simulate", add, "--machine", EDGE).stdout


def test_dynamic_and_static_take_the_same_cycles(gemm, tmp_path):
    """N9."""
    for m, k, n in [(64, 64, 64), (37, 129, 65)]:
        inputs = (torch.randn(m, k), torch.randn(k, n))
        static = compiled(tmp_path, f"static{m}", Matmul(), inputs, None)
        report = simulate(static)
        assert report["shapes"] == "static"
        dynamic = simulate(gemm, "--sweep", f"M={m},K={k},N={n}")
        assert dynamic["runs"][0]["cycles"] == report["runs"][0]["cycles"]


def test_a_producer_library_gives_the_same_run(gemm):
    sweep = ["--sweep", "M=100,K=40,N=300;M=1,K=1,N=1"]
    assert simulate(gemm, *sweep)["runs"] == simulate(gemm, *sweep, "--producer", "so")["runs"]


def test_sizes_pass_through_attribute_files(add, tmp_path):
    """N6."""
    plain = simulate(add, "--sweep", "N=1000")["runs"]
    assert simulate(add, "--sweep", "N=1000", "--attributes", tmp_path)["runs"] == plain
    (file,) = tmp_path.glob("N=1000/*.yaml")
    text = file.read_text()
    assert "shape_args: [1000]" in text
    assert "base: 4096, bytes: 4000" in text


def test_machines_differ(gemm):
    sweep = ["--sweep", "M=512,K=512,N=512"]
    cycles = {m.stem: simulate(gemm, *sweep, machine=m)["runs"][0] for m in (TPU, EDGE, QUAD)}
    assert cycles["edge"]["cycles"] > 10 * cycles["tpuv3"]["cycles"]
    for run in cycles.values():
        use = run["utilisation"]
        assert all(0 < use[unit] <= 1 for unit in ("arrays", "dma", "dram", "noc"))
        assert 0 < run["roofline"]["share"] <= 1


@pytest.mark.parametrize(
    "key", ["channels", "clock_mhz", "scratchpad_bytes", "bus_bytes", "bytes_per_cycle"]
)
def test_more_is_not_slower(gemm, tmp_path, key):
    text = EDGE.read_text()
    line = next(each for each in text.splitlines() if each.strip().startswith(f"{key}:"))
    name, value = line.split(": ")
    more = tmp_path / "more.yaml"
    more.write_text(text.replace(line, f"{name}: {2 * int(value)}"))
    sweep = ["--sweep", "M=200,K=300,N=128"]
    before = simulate(gemm, *sweep, machine=EDGE)["runs"][0]["cycles"]
    after = simulate(gemm, *sweep, machine=more)["runs"][0]["cycles"]
    assert after <= 1.01 * before


def test_explain_and_perfetto(gemm, tmp_path):
    trace = tmp_path / "trace.json"
    arguments = ["--machine", TPU, "--sweep", "M=256,K=256,N=256", "--explain"]
    text = cli("simulate", gemm, *arguments, "--perfetto", trace).stdout
    assert "matmul [1, 256, 128, 256]" in text and "weight tiles" in text
    events = json.loads(trace.read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X", "b", "e"}
    assert any(e["name"] == "matmul" for e in events)


def test_values_come_from_the_same_tiles(gemm):
    (output,) = simulate(gemm, "--sweep", "M=37,K=129,N=65", "--values")["runs"][0]["outputs"]
    assert output["largest_difference"] < 1e-3
    assert abs(output["sum"] - output["cpu_sum"]) < 1e-2


class Page(HTMLParser):
    """Tables as lists of rows of text, and what a browser would fetch or run."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.foreign, self.curves, self.open_tags = [], [], 0, []
        self.feed(text)
        assert not self.open_tags

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "path"):
            self.open_tags.append(tag)
        self.curves += tag == "svg"
        self.foreign += [v for k, v in attrs if k in ("src", "href")] + [tag] * (tag == "script")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        if tag not in ("meta", "path"):
            assert self.open_tags.pop() == tag

    def handle_data(self, data):
        if self.open_tags and self.open_tags[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def test_a_page_tells_what_the_json_tells(gemm, tmp_path):
    html = tmp_path / "report.html"
    runs = simulate(
        gemm, "--sweep", "M=1,40,300", "--sweep", "K=96", "--sweep", "N=200", "--html", html
    )["runs"]
    page = Page(html.read_text())
    assert not page.foreign and page.curves == 1 + len(runs)
    summary, *kernels = page.tables
    head, *rows = summary
    at = {name: i for i, name in enumerate(head)}
    for row, run in zip(rows, runs, strict=True):
        assert row[at["live shape"]] == " ".join(f"{k}={v}" for k, v in run["shape"].items())
        assert [int(row[at[name]]) for name in ("cycles", "tiles", "records")] == [
            run["cycles"],
            run["tiles"],
            run["records"],
        ]
        assert row[at["arrays"]] == f"{100 * run['utilisation']['arrays']:.1f} %"
        assert row[at["limit"]] == run["roofline"]["limit"]
    for (head, *rows), run in zip(kernels, runs, strict=True):
        for row, kernel in zip(rows, run["kernels"], strict=True):
            told = dict(zip(head, row, strict=True))
            assert (told["kernel"], int(told["cycles"])) == (kernel["name"], kernel["cycles"])
            assert int(told["busy"]) == kernel["arrays_busy"]
            for reason, cycles in kernel["idle_cycles"]["arrays"].items():
                assert int(told[reason]) == cycles


def test_timing_needs_no_weights(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.GELU(), torch.nn.Linear(200, 64))
    shapes = ({0: Dim("S", min=1, max=512)},)
    whole = compiled(tmp_path, "whole", model.eval(), (torch.randn(5, 64),), shapes)
    bare = tmp_path / "bare.live"
    program = torch.export.export(model.eval(), (torch.randn(5, 64),), dynamic_shapes=shapes)
    save(program, tmp_path / "bare.pt2", shapes, weights=False)
    cli("compile", tmp_path / "bare.pt2", "-o", bare, "--no-weights")
    assert bare.stat().st_size < whole.stat().st_size / 10
    sweep = ["--sweep", "S=1,100,512"]
    assert simulate(bare, *sweep)["runs"] == simulate(whole, *sweep)["runs"]
    refused = cli("run", bare, "--input", f"0={tmp_path / 'x.npy'}", code=2).stderr
    assert "0.weight" in refused and "not given" in refused


def test_an_op_without_a_lowering_is_refused_by_name(tmp_path):
    class Nonzero(torch.nn.Module):
        def forward(self, x):
            return x.nonzero()

    shapes = ({0: Dim("N", min=1, max=64)},)
    model = compiled(tmp_path, "nonzero", Nonzero(), (torch.randn(8),), shapes)
    message = cli("simulate", model, "--machine", TPU, code=2).stderr
    assert "no tile lowering for `nonzero`" in message


def test_bad_input(add, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text(EDGE.read_text().replace("lanes: 32", "lanes: 0"))
    message = cli("simulate", add, "--machine", bad, code=2).stderr
    assert "bad.yaml:21:10: vector.lanes is 0" in message
    cli("simulate", add, "--machine", tmp_path / "none.yaml", code=2)
    assert (
        "no symbol `Q`" in cli("simulate", add, "--machine", TPU, "--sweep", "Q=1", code=2).stderr
    )
    beyond = cli("simulate", add, "--machine", TPU, "--sweep", "N=5000", code=2).stderr
    assert "symbol `N` would be 5000, above its bound 4096" in beyond
    bad.write_text(EDGE.read_text().replace("  lanes: 32", "  lanes: 32\n  lames: 3"))
    unknown = cli("simulate", add, "--machine", bad, code=2).stderr
    assert "bad.yaml:22:3: unknown key `lames` in vector: there are lanes, simple" in unknown
    for text, why in [
        ("a: &a [*a]", "unknown key `a`"),
        ("", "no document"),
        ("[" * 9999, "brackets"),
    ]:
        bad.write_text(text)
        assert why in cli("simulate", add, "--machine", bad, code=2).stderr
    assert "--tile -1" in cli("simulate", add, "--machine", TPU, "--tile", "-1", code=2).stderr
    arguments = [CLI, "simulate", add, "--machine", TPU, "--producer", "so"]
    none = subprocess.run(arguments, env={"PATH": ""}, capture_output=True, text=True)
    assert none.returncode == 2 and "no C++ compiler (c++, g++ or clang++)" in none.stderr
    page = cli("simulate", add, "--machine", TPU, "--html", tmp_path / "no" / "page", code=2)
    assert "page" in page.stderr
    large = cli("simulate", add, "--machine", EDGE, "--tile", 1000000, code=2).stderr
    assert "524288" in large
