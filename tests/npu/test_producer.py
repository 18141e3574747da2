"""A trace producer library emits the records of the in-process walk, byte for byte (N1, N2).

One library of the kernels of all models; see conftest.py for which.
"""

import os
import subprocess
from pathlib import Path

from liveshape.testing import ROOT

BUILD = Path(os.environ.get("LIVESHAPE", ROOT / "build" / "release" / "liveshape")).parent
# Their sizes come from data: refused by name (N10).
WITHOUT_LOWERING = ("born_", "masked_index", "masked_select", "masked_write", "nonzero", "repeat_")


def test_library_and_walk_emit_the_same_records(models, tmp_path):
    library = tmp_path / "model.so"
    probe = [BUILD / "trace_probe", library, *models.values()]
    done = subprocess.run(probe, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    refused = {Path(line.split(":")[0]).stem for line in lines if line.startswith("refused")}
    assert all(name.startswith(WITHOUT_LOWERING) for name in refused), done.stdout
    assert f"{len(models) - len(refused)} models" in done.stdout
    assert "records equal" in done.stdout and "unused" not in done.stdout, done.stdout
    imports = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    assert "liveshape" not in imports and "ls_trace" not in imports
