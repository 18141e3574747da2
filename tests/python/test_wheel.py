"""The wheel as a user meets it: built, installed where there is no torch, and used.

It is built with this environment's build tools instead of an isolated copy of them, and with the
flags of the release build, whose objects ccache has. Where it is installed there is NumPy only.
"""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=1800, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    cache = (ROOT / "build/release/CMakeCache.txt").read_text()
    werror = re.search(r"^LS_WERROR:\w+=(\w+)$", cache, re.M)[1]
    flags = ["--no-build-isolation", "--no-deps", "-C", f"cmake.define.LS_WERROR={werror}"]
    run(*PIP, "wheel", ROOT, *flags, "-w", folder)
    (path,) = folder.glob("liveshape-*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """bin/ of a new environment with the wheel, and NumPy by links: no network is needed."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    run(*PIP, "--python", venv / "bin/python", "install", "--no-deps", wheel)
    (site,) = venv.glob("lib/python*/site-packages")
    numpy = Path(np.__file__).parent
    for folder in (numpy, *numpy.parent.glob("numpy.libs")):
        (site / folder.name).symlink_to(folder)
    return venv / "bin"


def outside(tmp_path, installed):
    """Nothing of this tree, and of this environment only the path."""
    return {"cwd": tmp_path, "env": {"PATH": f"{installed}:{os.environ['PATH']}"}}


def test_what_is_in_it(wheel):
    assert wheel.stat().st_size < 15e6
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if "dist-info" not in name}
        entry_points = archive.read(
            next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        ).decode()
    inside = {name.removeprefix("liveshape/") for name in names if name.startswith("liveshape/")}
    assert len([name for name in inside if name.endswith(".so")]) == 1
    assert {"__init__.py", "_core.pyi", "golden.py", "py.typed", "session.py"} <= inside
    assert not {"prepare.py", "testing.py"} & inside
    assert [n for n in names if not n.startswith("liveshape/")] == [
        "liveshape-0.1.0.data/scripts/liveshape"
    ]
    assert "[torch_dynamo_backends]\nliveshape = liveshape.dynamo:liveshape" in entry_points


def test_it_links_nothing_that_a_bare_machine_lacks(installed):
    (module,) = installed.parent.glob("lib/python*/site-packages/liveshape/_core*.so")
    for binary in (module, installed / "liveshape"):
        needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", binary))
        names = {name.split(".so")[0] for name in needed}
        assert names <= {"libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}, binary.name


def test_the_cli_and_the_module_without_torch(installed, tmp_path):
    where = outside(tmp_path, installed)
    run("liveshape", "compile", DEMO / "demo.pt2", "-o", "demo.live", **where)
    code = """
import importlib.util
assert importlib.util.find_spec("torch") is None
import liveshape, numpy as np
session = liveshape.load("demo.live", threads=1)
logits = session(np.zeros((2, 5), np.int64), 0)
assert logits.shape == (2, 256) and np.isfinite(logits).all()
try:
    session(np.zeros((2, 128), np.int64), 0)
except IndexError as error:
    print(error)
try:
    liveshape.export(None)
except ModuleNotFoundError as error:
    print(error)
"""
    said = run("python", "-c", code, **where).splitlines()
    assert said == [
        "bind: input 0 `tokens` dim 1 is 128: symbol `S` would be 128, above its bound 127",
        "No module named 'torch'",
    ]


def test_webgpu_needs_only_the_package_that_its_extra_names(installed, tmp_path):
    """`liveshape[webgpu]` puts `wgpu` beside us; here, as without a network, its library alone."""
    pin = re.search(r"^version=(\S+)", (ROOT / "scripts/webgpu.sh").read_text(), re.M)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["optional-dependencies"]["webgpu"] == [f"wgpu=={pin}"]
    assert f"wgpu=={pin}" in project["build-system"]["requires"]
    (site,) = installed.parent.glob("lib/python*/site-packages")
    resources = site / "wgpu" / "resources"
    where = outside(tmp_path, installed)
    done = subprocess.run(["liveshape", "devices"], capture_output=True, text=True, **where)
    assert done.returncode == 2 and "liveshape[webgpu]" in done.stderr
    resources.mkdir(parents=True)
    for library in (ROOT / "build/deps/wgpu").glob("libwgpu_native*"):
        (resources / library.name).symlink_to(library)
    assert "vulkan" in run("liveshape", "devices", **where)
    run("liveshape", "compile", DEMO / "demo.pt2", "-o", "demo.live", **where)
    code = """
import liveshape, numpy as np
tokens = np.arange(10).reshape(2, 5)
there, here = (liveshape.load("demo.live", backend=b)(tokens, 0) for b in ("webgpu", "cpu"))
assert there.shape == here.shape and np.abs(there - here).max() < 1e-3
"""
    run("python", "-c", code, **where)


def test_torch_compile_finds_the_backend_by_its_name(installed, tmp_path):
    (site,) = installed.parent.glob("lib/python*/site-packages")
    code = """
import sys, torch
assert "liveshape" not in sys.modules
fast = torch.compile(lambda x: torch.relu(x) + 1, backend="liveshape", dynamic=True)
with torch.no_grad():
    for size in (3, 5):
        assert torch.equal(fast(torch.ones(size)), torch.full((size,), 2.0))
import liveshape.dynamo
print(liveshape.__file__, liveshape.dynamo.stats.artifacts)
"""
    where = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}}
    file, artifacts = run(sys.executable, "-c", code, **where).split()
    assert Path(file).is_relative_to(site) and artifacts == "1"
