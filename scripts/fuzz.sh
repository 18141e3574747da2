#!/usr/bin/env bash
# Runs every fuzzer of build/asan, after scripts/build.sh fuzz:
#   scripts/fuzz.sh N [NAME...]           N seconds each
#   scripts/fuzz.sh --total N [NAME...]   N seconds in all, split evenly
# It works on a copy of fuzz/corpus/NAME, so the tree stays clean; what it finds is kept in
# build/fuzz/NAME, and the next run starts from there too.
set -euo pipefail
source "$(dirname "$0")/common.sh"

total=false
[ "$1" != --total ] || { total=true; shift; }
seconds=$1
shift
names=("$@")
if [ ${#names[@]} = 0 ]; then
  for source in fuzz/*_fuzz.cc; do [ ! -e "$source" ] || names+=("$(basename "$source" .cc)"); done
fi
if $total; then seconds=$(((seconds + ${#names[@]} - 1) / ${#names[@]})); fi

bad=0
for name in ${names[@]+"${names[@]}"}; do
  work=build/fuzz/$name
  mkdir -p "$work/corpus"
  [ ! -d "fuzz/corpus/$name" ] || cp -ru "fuzz/corpus/$name/." "$work/corpus/"
  options=(-max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 -artifact_prefix="$work/")
  [ ! -e "fuzz/$name.dict" ] || options+=(-dict="fuzz/$name.dict")
  if "build/asan/$name" "${options[@]}" "$work/corpus" >"$work/log" 2>&1 </dev/null; then
    echo "$name: $(grep '^Done' "$work/log"), $(ls "$work/corpus" | wc -l) inputs"
  else
    bad=1
    tail -n 60 "$work/log"
    echo "$name: FAILED; the input is named above, run it again with: build/asan/$name INPUT"
  fi
done
exit $bad
