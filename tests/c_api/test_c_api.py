"""The C ABI as a stranger uses it: an installed prefix, a C compiler, and nothing of this tree."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LIVESHAPE_BUILD", ROOT / "build" / "release"))
HERE = Path(__file__).parent
DEMO = ROOT / "models" / "demo"
C99 = ["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    path = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", path)
    return path


@pytest.fixture(scope="module")
def library(prefix):
    (path,) = prefix.rglob("libliveshape.so")
    return path


@pytest.fixture(scope="module")
def model(prefix, tmp_path_factory):
    """The demo model whole, and with its embedding left out; goldens as raw bytes."""
    folder = tmp_path_factory.mktemp("model")
    cli = prefix / "bin" / "liveshape"
    run(cli, "compile", DEMO / "demo.pt2", "-o", folder / "demo.live")
    external = ["--external", "embed.*"]
    run(cli, "compile", DEMO / "demo.pt2", "-o", folder / "external.live", *external)
    weight(folder / "embed.npy").tofile(folder / "embed.bin")
    steps = json.loads((DEMO / "golden/golden.json").read_text())["points"][0]["steps"]
    lines = []
    for number, step in enumerate(steps):
        tokens, position = (np.load(DEMO / "golden" / e["file"]) for e in step["inputs"])
        tokens.tofile(folder / f"in{number}.bin")
        np.load(DEMO / "golden" / step["outputs"][0]["file"]).tofile(folder / f"out{number}.bin")
        lines.append(f"{tokens.shape[0]} {tokens.shape[1]} {int(position)}")
    (folder / "index.txt").write_text("\n".join(lines))
    return folder


def weight(path):
    """embed.weight of the demo, as torch saved it."""
    import torch

    value = torch.export.load(DEMO / "demo.pt2").state_dict["embed.weight"].detach().numpy()
    np.save(path, value)
    return value


def pkg_config(prefix, *flags):
    (folder,) = prefix.rglob("pkgconfig")
    found = run("pkg-config", *flags, "liveshape", env={**os.environ, "PKG_CONFIG_PATH": folder})
    return found.split()


def test_c_program(prefix, library, model, tmp_path):
    flags = pkg_config(prefix, "--cflags", "--libs")
    run(*C99, HERE / "walk.c", "-o", tmp_path / "walk", *flags, "-lm")
    files = [model / "demo.live", model / "external.live", model / "embed.bin", model]
    said = run(tmp_path / "walk", *files, env={"LD_LIBRARY_PATH": str(library.parent)})
    assert "agree with torch" in said


def test_exports_nothing_but_the_abi(prefix, library):
    declared = set(
        re.findall(
            r"^LS_API[^;]*?(ls_\w+)\(", (prefix / "include/liveshape/c_api.h").read_text(), re.M
        )
    )
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    assert {line.split()[-1] for line in lines} == declared


def test_needs_nothing_that_a_bare_machine_lacks(library):
    needed = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", library))
    assert {name.split(".so")[0] for name in needed} <= {"libc", "libm", "ld-linux-x86-64"}


def test_header_is_cpp_too(prefix, tmp_path):
    (tmp_path / "use.cc").write_text(
        "#include <liveshape/c_api.h>\nint main() { return ls_api_version() != LS_API_VERSION; }\n"
    )
    flags = pkg_config(prefix, "--cflags")
    run(
        "c++",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        "-fsyntax-only",
        *flags,
        tmp_path / "use.cc",
    )


@pytest.fixture(scope="module")
def greedy():
    """Eight tokens that follow 5 6 7, by torch."""
    import torch

    program = torch.export.load(DEMO / "demo.pt2").module()
    tokens, position, found = torch.tensor([[5, 6, 7]]), 0, []
    with torch.no_grad():
        for _ in range(8):
            logits = program(tokens, position)
            position += tokens.shape[1]
            tokens = logits.argmax(-1, keepdim=True)
            found.append(int(tokens))
    return found


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_example(language, prefix, model, greedy, tmp_path):
    """examples/ against the CMake package, as their first lines say to build and use them."""
    warnings = "-Wall -Wextra -pedantic -Werror"
    compiler = {"c": "C", "cpp": "CXX"}[language]
    flags = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_{compiler}_FLAGS={warnings}"]
    run("cmake", "-S", ROOT / "examples" / language, "-B", tmp_path, *flags)
    run("cmake", "--build", tmp_path)
    said = run(tmp_path / "greedy", model / "demo.live", 8, 5, 6, 7)
    assert [int(token) for token in said.split()] == greedy
    failed = subprocess.run(
        [tmp_path / "greedy", model / "none.live", "8", "5"], capture_output=True, text=True
    )
    assert failed.returncode == 1 and "none.live" in failed.stderr
