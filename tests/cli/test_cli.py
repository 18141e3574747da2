"""The command line as people meet it: exit codes, files, tables and JSON, on the bundled model.

No torch here: the goldens under models/demo were made with it.
"""

import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))
PT2 = ROOT / "models" / "demo" / "demo.pt2"
GOLDEN = ROOT / "models" / "demo" / "golden"
SUBCOMMANDS = ["compile", "run", "cost", "dump", "verify", "bench", "simulate", "demo"]


def cli(*arguments, code=0):
    done = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (
        f"exit {done.returncode}: {arguments}\n{done.stdout}{done.stderr}"
    )
    return done


def cli_json(*arguments, code=0):
    return json.loads(cli(*arguments, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "demo.live"
    cli("compile", PT2, "-o", path)
    return path


@pytest.fixture(scope="module")
def steps():
    return json.loads((GOLDEN / "golden.json").read_text())["points"][0]["steps"]


def inputs_of(step):
    return [f"--input={entry['name']}={GOLDEN / entry['file']}" for entry in step["inputs"]]


@pytest.fixture
def golden(tmp_path):
    """A copy to tamper with, cut to three steps."""
    shutil.copytree(GOLDEN, tmp_path / "golden")
    meta = json.loads((tmp_path / "golden/golden.json").read_text())
    meta["points"][0]["steps"] = meta["points"][0]["steps"][:3]
    (tmp_path / "golden/golden.json").write_text(json.dumps(meta))
    return tmp_path / "golden"


def test_usage():
    assert cli("--version").stdout.startswith("liveshape ")
    for command in SUBCOMMANDS:
        assert "Examples:" in cli(command, "--help").stdout
    for wrong in [[], ["fly"], ["run"], ["dump"], ["verify", "x.live"], ["bench", "x", "--fly"]]:
        cli(*wrong, code=2)
    unknown = cli("fly", code=2).stderr
    assert "`fly`" in unknown and all(command in unknown for command in SUBCOMMANDS)
    for command in SUBCOMMANDS:
        assert "--json" in cli(command, "--help").stdout


def test_output_that_cannot_be_written_is_an_error(live):
    shown = cli("dump", live)
    for command in [["--version"], ["dump", live], ["cost", live], ["cost", live, "--json"]]:
        with open("/dev/full", "w") as full:
            done = subprocess.run([CLI, *command], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2 and "cannot write to stdout" in done.stderr
    with open("/dev/full", "w") as full:  # messages are lost, their exit code is not
        assert subprocess.run([CLI, "dump", "none.live"], stderr=full).returncode == 2
        done = subprocess.run([CLI, "dump", live], stdout=subprocess.PIPE, stderr=full, text=True)
        assert (done.returncode, done.stdout) == (0, shown.stdout)


def test_compile_reports(tmp_path):
    out = tmp_path / "demo.live"
    report = cli_json("compile", PT2, "-o", out, "--bound", "S=16")
    symbols = {symbol["display"]: symbol for symbol in report["symbols"]}
    assert symbols["S"]["max"] == 16
    assert "tokens.1" in symbols["S"]["enters"]
    assert report["peak_resident_bytes"] > 0 and report["passes"] and report["nodes"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo.live"]


@pytest.mark.parametrize(("quant", "bits"), [("q8", 8), ("q4", 4)])
def test_compile_quantises(tmp_path, quant, bits):
    out = tmp_path / "demo.live"
    report = cli_json("compile", PT2, "-o", out, "--quant", quant)["quantised"]
    assert report["encoding"] == quant
    weights = {weight["name"]: weight for weight in report["weights"]}
    assert len(weights) == 9  # 4 a layer (q, k, v are one, gate and up too), and the tied embedding
    assert report["bytes_after"] == sum(w["bytes_after"] for w in weights.values())
    assert report["bytes_after"] * 32 == report["bytes_before"] * (bits + 0.5)  # 16 bits for 32
    constants = {constant["name"]: constant for constant in cli_json("dump", out)["constants"]}
    for name, weight in weights.items():
        assert constants[name]["encoding"] == f"{quant}_sym_g32"
        assert constants[name]["bytes"] == weight["bytes_after"]
    assert sum(c["encoding"] != "plain" for c in constants.values()) == len(weights)
    text = cli("compile", PT2, "-o", out, "--quant", quant).stdout
    assert f"{quant}: 9 weights, 0.36 -> " in text
    assert f"{quant}_sym_g32 panel16" in cli("dump", out).stdout
    assert "q5" in cli("compile", PT2, "-o", out, "--quant", "q5", code=2).stderr


def test_compile_refuses(tmp_path):
    out = tmp_path / "demo.live"
    cut = tmp_path / "cut.pt2"
    cut.write_bytes(PT2.read_bytes()[:5000])
    for arguments in [
        [cut, "-o", out],
        [tmp_path / "none.pt2", "-o", out],
        [PT2, "-o", out, "--bound", "S"],
        [PT2, "-o", out, "--bound", "nonesuch=4"],
        [PT2, "-o", out, "--bound", "S=1", "--bound", "S=2"],
        [PT2, "-o", out, "--static", "S=127", "--static", "P=125"],  # beyond the cache together
        [PT2, "-o", tmp_path / "no" / "such" / "folder"],
        [PT2, "-o", "/dev/null"],
    ]:
        cli("compile", *arguments, code=2)
    assert not out.exists()


def test_compile_static(tmp_path):
    out = tmp_path / "demo.live"
    beyond = cli("compile", PT2, "-o", out, "--static", "S=100", "--static", "P=100", code=2).stderr
    assert "--static leaves no shape: node `copy_`" in beyond
    cli("compile", PT2, "-o", out, "--static", "S=16", "--static", "B=2", "--static", "P=0")
    assert cli_json("dump", out)["guards"] == []


def test_run_walks_steps_in_one_session(live, steps, tmp_path):
    chosen = steps[:5]
    arguments = [part for step in chosen for part in ["--step", *inputs_of(step)]]
    report = cli_json("run", live, "--out", tmp_path / "out", "--strict", *arguments)
    assert report["allocations"] == report["rebuilds"] == report["moved_addresses"] == 0
    for number, step in enumerate(chosen):
        (file,) = (tmp_path / "out" / str(number)).iterdir()
        assert file.name.startswith("00_")
        assert report["steps"][number]["outputs"][0]["file"] == str(file)
        wanted = np.load(GOLDEN / step["outputs"][0]["file"])
        found = np.load(file)
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        assert np.abs(found - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())


def test_run_by_position_and_integer(live, steps, tmp_path):
    tokens = GOLDEN / steps[0]["inputs"][0]["file"]
    arguments = [live, "--input", f"0={tokens}", "--input", "pos=0", "--out", tmp_path / "out"]
    text = cli("run", *arguments, "--profile").stdout
    assert "B=1 S=5 P=0" in text and "attention" in text
    (file,) = (tmp_path / "out").iterdir()
    wanted = np.load(GOLDEN / steps[0]["outputs"][0]["file"])
    assert np.abs(np.load(file) - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())


def test_run_refuses(live, steps, tmp_path):
    tokens = GOLDEN / steps[0]["inputs"][0]["file"]
    bad = tmp_path / "bad.npy"

    def refused(*arguments):
        done = cli("run", live, "--out", tmp_path / "out", *arguments, "--json", code=2)
        message = json.loads(done.stdout)["error"]["message"]
        assert message in done.stderr
        assert not (tmp_path / "out").exists()
        return message

    assert "`pos`" in refused("--input", f"tokens={tokens}")
    assert "tokens" in refused("--input", "nonesuch=x.npy")
    assert "none.npy" in refused("--input", "tokens=none.npy", "--input", "pos=0")
    for content in [
        b"",
        b"\x93NUMPY",
        tokens.read_bytes()[:-1],
        b"\x93NUMPY\x02\0\xff\xff\xff\xff{}",
    ]:
        bad.write_bytes(content)
        assert "bad.npy" in refused("--input", f"tokens={bad}", "--input", "pos=0")
    for array in [
        np.zeros((5,), np.int64),
        np.zeros((1, 5), np.float32),
        np.zeros((9, 5), np.int64),
    ]:
        np.save(bad, array)
        assert "tokens" in refused("--input", f"tokens={bad}", "--input", "pos=0")
    np.save(bad, np.asfortranarray(np.zeros((4, 5), np.int64)))
    assert "ascontiguousarray" in refused("--input", f"tokens={bad}", "--input", "pos=0")


def test_verify_sees_a_difference(live, golden):
    cli("verify", live, "--golden", golden)
    meta = json.loads((golden / "golden.json").read_text())
    file = golden / meta["points"][0]["steps"][1]["outputs"][0]["file"]
    good = np.load(file)

    wrong = good.copy()
    wrong.flat[3] += 0.01
    np.save(file, wrong)
    report = cli_json("verify", live, "--golden", golden, code=1)
    rows = {row["backend"]: row for row in report["rows"]}
    assert not rows["cpu"]["ok"] and rows["cpu"]["bit_identical"] and rows["cpu"]["shape_ok"]
    assert rows["null"]["ok"] and rows["null"]["shapes_only"]

    np.save(file, good[..., None])
    report = cli_json("verify", live, "--golden", golden, code=1)
    assert not any(row["shape_ok"] for row in report["rows"])

    nan = good.copy()
    nan.flat[0] = np.nan
    np.save(file, nan)
    assert (
        cli_json("verify", live, "--golden", golden, code=1)["rows"][0]["max_abs_diff"]
        == "Infinity"
    )

    file.unlink()
    cli("verify", live, "--golden", golden, code=2)


def test_verify_refuses_paths_outside(live, golden):
    meta = json.loads((golden / "golden.json").read_text())
    meta["points"][0]["steps"][0]["inputs"][0]["file"] = "../golden/0/0/in_00_tokens.npy"
    (golden / "golden.json").write_text(json.dumps(meta))
    assert "not below" in cli("verify", live, "--golden", golden, code=2).stderr


def test_dump(live, tmp_path):
    dump = json.loads(cli("dump", live, "--format", "json").stdout)
    for plan in dump["plan"].values():
        assert plan["bytes"] >= plan["lower_bound"] > 0
    assert {symbol["display"] for symbol in dump["symbols"]} >= {"B", "S", "P"}
    assert dump["inputs"][0]["name"] == "tokens" and dump["states"] and dump["constants"]
    assert any(node["op"] == "attention" for node in dump["nodes"])
    assert "plan cpu:" in cli("dump", live).stdout
    assert json.loads(cli("dump", PT2, "--format", "json").stdout)["torch_version"]
    assert "tokens" in cli("dump", PT2).stdout
    cut = tmp_path / "cut.live"
    for content in [b"", b"x" * 100, live.read_bytes()[:1000], live.read_bytes()[:-1]]:
        cut.write_bytes(content)
        cli("dump", cut, code=2)
        cli("run", cut, code=2)


def test_dump_json_has_everything(live):
    dump = cli_json("dump", live)
    write, guard = dump["guards"]  # what a node asks, and what the export says
    assert write["condition"] == "P + S == Min(P + S, 128)" and "`copy_`" in write["text"]
    assert guard["condition"] == "P + S <= 127" and "the program requires" in guard["text"]
    assert dump["host_values"] == []
    symbol = next(s for s in dump["symbols"] if s["display"] == "S")
    assert symbol["name"].startswith("s") and (symbol["min"], symbol["max"]) == (1, 127)
    assert symbol["stage"] == 0 and symbol["enters"] == ["tokens.1"]
    assert dump["inputs"][0] == {
        "name": "tokens",
        "dtype": "i64",
        "scalar": False,
        "dims": ["B", "S"],
    }
    assert dump["inputs"][1]["scalar"] and dump["outputs"][0]["dims"] == ["B", "256"]
    embed = next(c for c in dump["constants"] if c["name"] == "embed.weight")
    assert embed["dtype"] == "f32" and embed["dims"] == [256, 64] and embed["external"] == ""
    assert (embed["encoding"], embed["layout"], embed["bytes"]) == ("plain", "panel16", 65536)
    state = dump["states"][0]
    assert state["name"].endswith("k_cache") and state["dims"] == [4, 2, 128, 16]
    assert state["dtype"] == "f32" and state["value"] != state["result"]
    attention = next(n for n in dump["nodes"] if n["op"] == "attention")
    assert attention["source"].startswith("make_demo.py:") and attention["name"]
    assert attention["attrs"]["limit"] == ["P + 1"] and attention["attrs"]["scale"] > 0
    assert attention["outputs"][0]["dims"] == ["B", "4", "S", "16"]
    assert attention["outputs"][0]["dtype"] == "f32" and len(attention["inputs"]) >= 3
    assert set(dump["plan"]) == {"cpu", "null"}
    for plan in dump["plan"].values():
        assert plan["bytes"] >= plan["lower_bound"] > 0 and plan["steps"] > 0

    program = cli_json("dump", PT2)
    assert program["torch_version"] and program["ranges"]["s27"] == [1, 127] and program["guards"]
    assert program["weights"][0]["name"] == "embed.weight"
    assert program["weights"][0]["sizes"] == [256, 64] and program["weights"][0]["dtype"] == "f32"
    node = next(n for n in program["graph"]["nodes"] if "attention" in n["target"])
    assert node["source"].startswith("make_demo.py:") and node["inputs"][0]["name"] == "query"


def read_dot(text):
    """Vertices and edges of the subset of DOT that is written here; anything else is an error."""
    quoted = r'"(?:[^"\\]|\\.)*"'
    attribute = rf"\w+=(?:\w+|{quoted})"
    attributes = rf"\[{attribute}(?:, {attribute})*\]"
    lines = text.splitlines()
    assert re.fullmatch(rf"digraph {quoted} {{", lines[0]) and lines[-1] == "}"
    vertices, edges = {}, []
    for line in lines[1:-1]:
        if edge := re.fullmatch(rf"  (\w+) -> (\w+) ({attributes});", line):
            edges.append(edge.groups())
        else:
            vertex = re.fullmatch(rf"  (\w+) ({attributes});", line)
            assert vertex, line
            vertices[vertex[1]] = vertex[2]
    for start, end, _ in edges:
        assert start in vertices and end in vertices
    return vertices, edges


def test_dump_dot(live):
    vertices, edges = read_dot(cli("dump", live, "--format", "dot").stdout)
    labels = " ".join(vertices.values())
    assert "attention" in labels and "embed.weight f32[256, 64]" in labels
    assert "cylinder" in labels and "make_demo.py:" in labels
    assert any("i64[B, S]" in label for _, _, label in edges)
    assert any("style=dashed" in label for _, end, label in edges if end.startswith("state"))
    vertices, edges = read_dot(cli("dump", PT2, "--format", "dot").stdout)
    assert len(vertices) > 50 and len(edges) > 50


def test_cost(live):
    closed = cli_json("cost", live)
    assert closed["total"]["flops"] == "512*S*B*Min(P + S, 128) + 147456*S*B + 32768*B"
    assert "at" not in closed["total"] and closed["constant_bytes"] > 0 < closed["state_bytes"]
    here = cli_json("cost", live, "--at", "S=100,B=2", "--at", "P=0")
    assert here["shape"] == {"P": 0, "S": 100, "B": 2}
    assert here["total"]["at"]["flops"] == 512 * 200 * 100 + 147456 * 200 + 65536
    assert here["planned"]["bytes"] >= here["planned"]["lower_bound"]
    embedding = next(op for op in here["ops"] if op["op"] == "embedding")
    assert embedding["at"]["bytes"] == 200 * (8 + 2 * 64 * 4)  # ids, rows in, rows out
    assert "peak memory" in cli("cost", live).stdout
    assert "add --at P=" in cli("cost", live, "--at", "S=100,B=2", code=2).stderr
    assert "one value a symbol" in cli("cost", live, "--at", "S=1,2", code=2).stderr
    assert '--at "S=two"' in cli("cost", live, "--at", "S=two", code=2).stderr
    assert "does not fit 64 bits" in cli("cost", live, "--at", f"S={10**20}", code=2).stderr
    refused = cli("cost", live, "--at", "S=128,B=2,P=0", code=2).stderr
    assert "symbol `S` would be 128, above its bound 127" in refused


def test_profile_shows_shares_of_the_machine(live, steps):
    report = cli_json("run", live, "--profile", "--threads", "1", *inputs_of(steps[0]))
    assert report["machine"]["threads"] == 1
    assert report["machine"]["gflops"] > 0 < report["machine"]["gbytes_per_second"]
    rows = report["profile"]
    linear = next(row for row in rows if row["op"] == "linear")
    assert linear["flops"] > 0 and linear["gflops"] > 0 and linear["roofline_share"] > 0
    assert sum(row["bytes"] for row in rows) > 0
    text = cli("run", live, "--profile", *inputs_of(steps[0])).stdout
    assert "of roofline" in text and "GB/s read" in text


def test_external_constants(live, steps, tmp_path):
    given = tmp_path / "external.live"
    report = cli_json(
        "compile", PT2, "-o", given, "--external", "embed.*", "--external", "*.norm1.*"
    )
    names = ["embed.weight", "layers.0.norm1.weight", "layers.1.norm1.weight"]
    assert report["externals"] == names
    assert given.stat().st_size < live.stat().st_size - 60000
    dump = cli_json("dump", given)
    assert [c["external"] for c in dump["constants"] if c["external"]] == names
    cli("cost", given)

    with zipfile.ZipFile(PT2) as archive:
        (weights,) = [n for n in archive.namelist() if n.endswith("model_weights_config.json")]
        config = json.loads(archive.read(weights))["config"]
        flags = []
        for name in names:
            file = weights.rsplit("/", 1)[0] + "/" + config[name]["path_name"]
            array = np.frombuffer(archive.read(file), np.float32)
            shape = (256, 64) if name == "embed.weight" else (64,)
            np.save(tmp_path / f"{name}.npy", array[: np.prod(shape)].reshape(shape))
            flags += ["--constant", f"{name}={tmp_path / name}.npy"]
    cli("run", given, *flags, *inputs_of(steps[0]), "--out", tmp_path / "out")
    (file,) = (tmp_path / "out").iterdir()
    wanted = np.load(GOLDEN / steps[0]["outputs"][0]["file"])
    assert np.abs(np.load(file) - wanted).max() <= 1e-5 * max(1, np.abs(wanted).max())
    cli("verify", given, *flags, "--golden", GOLDEN, "--backends", "cpu")

    missing = cli("run", given, *flags[2:], *inputs_of(steps[0]), code=2).stderr
    assert "`embed.weight`" in missing
    extra = cli("run", live, *flags[:2], *inputs_of(steps[0]), code=2).stderr
    assert "names no such one" in extra
    wrong = ["--constant", f"embed.weight={tmp_path / names[1]}.npy", *flags[2:]]
    assert "f32[64]" in cli("run", given, *wrong, *inputs_of(steps[0]), code=2).stderr
    nothing = cli("compile", PT2, "-o", given, "--external", "nonesuch*", code=2).stderr
    assert "nonesuch*" in nothing and "embed.weight" in nothing


def test_bench(live):
    arguments = ["--sweep", "S=1,16", "--sweep", "B=2", "--sweep", "P=0", "--int", "tokens=0:255"]
    report = cli_json("bench", live, *arguments, "--repeat", "3", "--strict")
    assert [row["shape"]["S"] for row in report["rows"]] == [1, 16]
    assert all(row["ms"]["median"] > 0 and row["resident_bytes"] > 0 for row in report["rows"])
    assert "P=" in cli("bench", live, "--sweep", "S=4,B=2", code=2).stderr
    assert "nonesuch" in cli("bench", live, "--sweep", "nonesuch=4", code=2).stderr
    cli("bench", live, "--sweep", "S=100000,B=1,P=0", code=2)


def test_demo(live):
    report = cli_json("demo", live, "--golden", GOLDEN)
    assert report["ok"]
    assert report["allocations"] == report["rebuilds"] == report["moved_addresses"] == 0
    assert {row["shape"]["B"] for row in report["rows"]} == {1, 2, 3, 4}
