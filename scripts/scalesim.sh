#!/usr/bin/env bash
# SCALE-Sim v3, which bench/npu_validation.py compares speed with, in an environment of its own: it needs a numpy older
# than the one the tests have. A second call is instant.
set -euo pipefail
source "$(dirname "$0")/common.sh"

venv=build/scalesim
wanted='scalesim==3.0.0 numpy<2.4'
[ "$(cat $venv/installed 2>/dev/null)" != "$wanted" ] || exit 0
[ -x $venv/bin/python ] || python3 -m venv $venv
read -ra packages <<<"$wanted"
$venv/bin/python -m pip --disable-pip-version-check -qq install "${packages[@]}"
echo "$wanted" >$venv/installed
