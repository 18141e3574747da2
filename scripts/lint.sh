#!/usr/bin/env bash
# Checks the format of every file git knows or would add: clang-format (C++), ruff (Python), bash -n.
#   scripts/lint.sh --fix    repairs instead
set -euo pipefail
source "$(dirname "$0")/common.sh"
scripts/deps.sh lint
scripts/venv.sh lint

bin=$PWD/.venv-lint/bin
files() { git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@" | perl -0ne 'chomp; print "$_\0" if -f'; }

if [ "${1:-}" = --fix ]; then
  files '*.cc' '*.h' | xargs -0r "$bin/clang-format" -i
  "$bin/ruff" check --quiet --fix-only .
  "$bin/ruff" format --quiet .
  exit
fi

bad=0
files '*.cc' '*.h' | xargs -0r "$bin/clang-format" --dry-run --Werror --ferror-limit=3 || bad=1
"$bin/ruff" check --quiet . || bad=1
"$bin/ruff" format --quiet --check . || bad=1
while IFS= read -rd '' script; do bash -n "$script" || bad=1; done < <(files 'scripts/*.sh' .ci/run)
if [ $bad = 0 ]; then
  echo "lint: $(files | tr -cd '\0' | wc -c) files are in order"
else
  die "not in order (above); \`make format\` repairs the format, the rest is by hand"
fi
