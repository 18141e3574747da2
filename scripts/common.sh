# Sourced by the scripts beside it: the root of the tree as working directory, and a few helpers.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One job a core; ctest and cmake read these.
jobs=${JOBS:-$(nproc)}
export CMAKE_BUILD_PARALLEL_LEVEL=$jobs CTEST_PARALLEL_LEVEL=$jobs

say() { printf '\033[1m==> %s\033[0m\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# phase NAME COMMAND...: runs a command, reports its time, remembers it for phase_summary. A phase that
# fails does not end the script, so that one run shows all that is wrong; phase_summary returns the verdict.
# The command must be a program or script, not a function: bash ignores `set -e` in a function called so.
phases=${LS_PHASES:-build/phases.tsv}
failed_phases=()
phase() {
  local name=$1 start=$SECONDS status=0
  shift
  say "$name"
  "$@" </dev/null || status=$?
  mkdir -p "$(dirname "$phases")"
  printf '%s\t%s\t%s\n' "$name" $((SECONDS - start)) "$([ $status = 0 ] && echo ok || echo "FAILED ($status)")" >>"$phases"
  [ $status = 0 ] || failed_phases+=("$name")
  return $status
}

# Minutes per phase of everything in the phase file.
phase_table() {
  awk -F'\t' '{ printf "%-24s %6.2f min  %s\n", $1, $2 / 60, $3; total += $2 }
              END { printf "%-24s %6.2f min\n", "total", total / 60 }' "$phases"
}
