"""Every case through the CLI: compile once, then verify at every shape of its sweep.

`verify` itself walks large -> small -> large in one poisoned, strict session and compares with
fresh sessions bit by bit; here only its exit code counts, and its table is shown otherwise.
A missing CLI is a failure, not a skip.
"""

import os
import subprocess
from pathlib import Path

import pytest
from liveshape.testing import EXPORTS, ROOT, collect

BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
CLI = Path(os.environ.get("LIVESHAPE", BUILD / "liveshape"))
BACKENDS = os.environ.get("LIVESHAPE_BACKENDS", "cpu,null")


def cli(*arguments):
    command = [str(CLI), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        spelled = " ".join(command)
        pytest.fail(f"exit {done.returncode}: {spelled}\n{done.stdout}{done.stderr}", pytrace=False)


@pytest.mark.parametrize("name", collect())
def test_case(name, prepared, tmp_path):
    assert name not in prepared, prepared[name]
    assert CLI.exists(), f"{CLI} is not built: make build"
    folder, live = EXPORTS / name, tmp_path / "model.live"
    cli("compile", folder / "model.pt2", "-o", live, *collect()[name].compile_flags())
    cli("verify", live, "--golden", folder / "golden", "--backends", BACKENDS)
