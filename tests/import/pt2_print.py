"""The .pt2 reader at work: build/release/pt2_print (pt2_print.cc) on a file."""

import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("LIVESHAPE_BUILD", "build/release"))
PRINT = BUILD / "pt2_print"


def read(path, *flags):
    """The reader's JSON; fails the test with the reader's message if it refuses."""
    done = subprocess.run([PRINT, "--crc", *flags, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout if "--text" in flags else json.loads(done.stdout)


def refused(path):
    done = subprocess.run([PRINT, path], capture_output=True, text=True)
    assert done.returncode == 2, "the reader accepted it"
    return done.stderr
