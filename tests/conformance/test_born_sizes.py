"""Sizes born from data at the command line: named, bounded, refused with a reason (X2, X3)."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from liveshape.testing import collect, prepare

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))


def cli(*arguments, code=0):
    done = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def exported():
    return lambda name: prepare(collect()[name]) / "model.pt2"


def test_the_symbol_table_says_where_a_size_is_born(exported, tmp_path):
    report = json.loads(
        cli("compile", exported("born_chain"), "-o", tmp_path / "m.live", "--json").stdout
    )
    enters = {symbol["name"]: symbol["enters"] for symbol in report["symbols"]}
    assert enters["u0"] == ["born at nonzero"]


def test_above_its_bound_the_run_fails_with_the_node_and_the_flag(exported, tmp_path):
    model = tmp_path / "m.live"
    cli("compile", exported("nonzero_raw"), "-o", model, "--bound", "u0=3")
    few, many = np.full((5, 6), -1, np.float32), np.full((5, 6), 1, np.float32)
    few[0, :3] = 1
    np.save(tmp_path / "few.npy", few)
    np.save(tmp_path / "many.npy", many)
    out = tmp_path / "out"
    cli("run", model, "--input", f"x={tmp_path / 'few.npy'}", "--out", out, "--strict")
    assert np.load(next(out.glob("00_*.npy"))).tolist() == [[0, 0], [0, 1], [0, 2]]
    failed = cli("run", model, "--input", f"x={tmp_path / 'many.npy'}", "--out", out, code=2)
    assert "`u0` = 30, outside [0, 3]" in failed.stderr and "--bound u0=N" in failed.stderr


@pytest.mark.parametrize("case", ["item_claimed_raw", "item_claimed_dec"])
def test_a_number_that_the_export_knows_is_compared_with_the_data(case, exported, tmp_path):
    """Sizes are those of the inputs, whatever the data says: nothing is read beyond them."""
    model, x, k = tmp_path / "m.live", tmp_path / "x.npy", tmp_path / "k.npy"
    cli("compile", exported(case), "-o", model)
    np.save(x, np.full((5, 3), 1, np.float32))
    for numbers, wrong in [
        ([5, 10, 4, 15], None),
        ([60, 10, 4, 15], "is S at S=5"),
        ([5, 10, 3, 15], "is 4 at"),
        ([5, 10, 4, 14], "u3=14, u4=15"),
    ]:
        np.save(k, np.array(numbers))
        flags = ["--input", f"x={x}", "--input", f"k={k}", "--strict"]
        done = cli("run", model, *flags, code=2 if wrong else 0)
        assert not wrong or wrong in done.stderr


def test_cost_takes_from_a_guard_what_data_must_be(exported, tmp_path):
    cli("compile", exported("item_claimed_raw"), "-o", tmp_path / "m.live")
    cost = json.loads(cli("cost", tmp_path / "m.live", "--at", "S=5", "--json").stdout)
    assert (cost["shape"]["item"], cost["shape"]["item_1"], cost["shape"]["item_2"]) == (5, 10, 4)


def test_without_a_bound_compile_names_the_symbol_and_the_flag(exported, tmp_path):
    failed = cli("compile", exported("repeat_interleave_raw"), "-o", tmp_path / "m.live", code=2)
    assert "`u0` has no maximum" in failed.stderr and "--bound u0=N" in failed.stderr
