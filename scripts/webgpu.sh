#!/usr/bin/env bash
# Puts wgpu-native, with its headers, into build/deps/wgpu: the library of the PyPI package `wgpu`, which is
# loaded at run time and never linked. Build again afterwards. Makes no network call when it is there.
set -euo pipefail
source "$(dirname "$0")/common.sh"

version=0.32.0  # carries wgpu-native 29; native_library.cc checks the major version it was written for
folder=build/deps/wgpu
[ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || exit 0

for python in .venv/bin/python python3; do
  if "$python" -m pip --version >/dev/null 2>&1; then break; fi
  [ "$python" != python3 ] || die "needs pip: install python3-pip, or run scripts/venv.sh test first"
done
say "wgpu $version"
download=build/deps/download
rm -rf "$download" "$folder"
mkdir -p "$download" "$folder"
"$python" -m pip --disable-pip-version-check -q download --no-deps --only-binary :all: -d "$download" "wgpu==$version"
"$python" - "$download"/wgpu-*.whl "$folder" <<'PYTHON'
import pathlib, sys, zipfile

wheel, folder = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
for name in wheel.namelist():
    file = pathlib.PurePosixPath(name)
    if file.name in ("webgpu.h", "wgpu.h") or file.name.startswith(("libwgpu_native", "wgpu_native")):
        (folder / file.name).write_bytes(wheel.read(name))
PYTHON
rm -rf "$download"
echo "$version" >"$folder/version"
