#!/usr/bin/env bash
# Installs Debian packages: scripts/deps.sh GROUP... with groups build, lint, unit, test, newer.
# When all are there it makes no network call and returns in a few hundredths of a second.
set -euo pipefail

build=(git make g++ cmake ninja-build ccache pkg-config
       libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev libfmt-dev libhwy-dev libcli11-dev libyaml-dev
       python3-dev python3-venv)                                       # pip install .
lint=(git python3 python3-venv)
unit=(libgtest-dev libgmock-dev)
test=("${unit[@]}" libbenchmark-dev python3 python3-venv valgrind mesa-vulkan-drivers libvulkan1  # a software GPU
      clang-19 lld-19 llvm-19 libclang-rt-19-dev                      # sanitizers, fuzzers
      wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32)       # compile check for wasm32-wasi
newer=(debootstrap debian-archive-keyring)

wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    unit) wanted+=("${unit[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    newer) wanted+=("${newer[@]}") ;;
    *) echo "deps.sh: unknown group '$group' (build, lint, unit, test, newer)" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "deps.sh: not a Debian-like system; going on in the hope that these are installed: ${wanted[*]}" >&2
  exit 0
fi

# A name that dpkg has never heard of is reported on stderr only, so missing = wanted - installed.
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/ installed$//p' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deps.sh: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "deps.sh: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c '
  apt-get -qq update && apt-get -qq -o Dpkg::Use-Pty=0 install --yes --no-install-recommends "$@" </dev/null' apt "${missing[@]}"
