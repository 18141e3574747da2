"""A program compiled for one shape takes the cycles of the dynamic one there (N9)."""

import json

from liveshape.testing import EXPORTS, ROOT, collect

MACHINE = ROOT / "machines" / "tpuv3.yaml"


def run_of(done):
    return json.loads(done.stdout)["runs"][0]


def test_dynamic_and_static_programs_take_the_same_cycles(models, cli, tmp_path):
    compared = set()
    static = tmp_path / "static.live"
    for name, live in models.items():
        case = collect()[name]
        points = [{k: v for k, v in point.items() if k in case.dims} for point in case.sweep]
        for point in {str(p): p for p in (points[0], points[-1]) if p}.values():
            sizes = [f"{symbol}={size}" for symbol, size in point.items()]
            sweep = ["--machine", MACHINE, "--json", "--sweep", ",".join(sizes)]
            dynamic = cli("simulate", live, *sweep)
            if dynamic.returncode != 0:
                # Sizes from data are not lowered; a position is no Dim of the case.
                assert "no tile lowering" in dynamic.stderr or "add --sweep" in dynamic.stderr
                continue
            flags = [word for size in sizes for word in ("--static", size)]
            pt2 = EXPORTS / name / "model.pt2"
            made = cli("compile", pt2, "-o", static, *case.compile_flags(), *flags)
            assert made.returncode == 0, made.stderr
            a, b = run_of(dynamic), run_of(cli("simulate", static, "--machine", MACHINE, "--json"))
            assert (a["cycles"], a["records"]) == (b["cycles"], b["records"]), (name, point)
            compared.add(name)
    assert len(compared) >= 30
