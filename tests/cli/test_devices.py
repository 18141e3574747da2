"""`liveshape devices`: what WebGPU finds here, and what is said where it finds nothing."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLI = os.environ.get("LIVESHAPE", str(ROOT / "build" / "release" / "liveshape"))


def devices(*arguments, code=0, **environment):
    done = subprocess.run(
        [CLI, "devices", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done


def test_adapters_are_listed_with_limits_and_features():
    done = devices("--json")
    adapters = json.loads(done.stdout)["adapters"]
    assert adapters and done.stderr == ""
    assert adapters[0]["limits"]["binding_bytes"] >= 128 << 20
    assert adapters[0]["limits"]["storage_buffers"] >= 8
    assert set(adapters[0]["features"]) == {"f16", "subgroups", "timestamps"}
    assert adapters[0]["name"] in devices().stdout


def test_without_the_library_the_message_says_how_to_get_it():
    done = devices("--json", code=2, LIVESHAPE_WGPU_LIBRARY="/nonexistent/libwgpu.so")
    assert "/nonexistent/libwgpu.so" in done.stderr and "scripts/webgpu.sh" in done.stderr
    assert json.loads(done.stdout)["error"]["code"] == "not found"


def test_a_library_that_is_no_wgpu_is_refused(tmp_path):
    file = tmp_path / "libwgpu.so"
    file.write_bytes(b"not a library")
    assert "file too short" in devices(code=2, LIVESHAPE_WGPU_LIBRARY=str(file)).stderr


def test_without_a_driver_the_message_names_one():
    none = {"VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
    assert "no adapter" in devices(code=2, **none).stderr
