#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bin/graft-selftest: does this bundle work on this machine?
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

help() {
  cat <<'TEXT'
graft-selftest [--device cpu|cuda] [PART [ARG...]]

  quick           small networks on the device against the interpreter (what it does without PART)
  test            the test programs in libexec/; ARGs go to each of them (--gtest_filter=...)
  ops             every sample of every operator on the device
  conformance     the node cases of ONNX on the device; needs a python3 with numpy and onnx
  bench           ./dev bench of the checkout; needs a python3 with numpy, onnx and, as a peer, torch
  sanitize        the operator samples under compute-sanitizer, where that is on the PATH
  soak            ARGs are SECONDS (480) and plans: mixed requests of 8 threads, results to the bit, and memory

Without --device it is cuda where `graft env` sees a GPU, else cpu. PYTHON names another python3.
TEXT
}

device=
python=${PYTHON:-python3}
while [[ ${1:-} == -* ]]; do
  case $1 in
    --device) device=${2:?which device?}; shift 2 ;;
    -h | --help) help; exit 0 ;;
    *) help >&2; exit 2 ;;
  esac
done
part=${1:-quick}
shift $(($# > 0))
if [[ -z $device ]]; then
  device=cpu
  "$root/bin/graft" env | grep -q '^GPU  *sm_' && device=cuda
fi

# Caches and models go where this user may write, and not into the bundle when that is read-only.
export GRAFT_TEST_ROOT=$root GRAFT_BUILD=$root GRAFT_TEST_PYTHON=$python GRAFT_TEST_DEVICE=$device
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

passed=0 failed=0 skipped=0
# count NAME STATUS: one line, and the counters.
count() {
  if (($2 == 0)); then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1"; fi
}
summary() {
  echo "$passed passed, $failed failed, $skipped skipped"
  ((failed == 0))
}

# A network of share/graft on the device, against the interpreter on the same random inputs.
quick() {
  local model name
  "$root/bin/graft" env || failed=$((failed + 1))
  for model in "$root"/share/graft/*.onnx; do
    name=$(basename "$model" .onnx)
    "$root/bin/graft" run "$model" --mode interpret --size batch=3 --seed 5 -o "$work/$name.npz" >/dev/null &&
      "$root/bin/graft" run "$model" --device "$device" --tune off --size batch=3 --seed 5 \
        --reference "$work/$name.npz"
    count "$name on $device" $?
  done
  summary
}

wrapper=()
# run_tests FILTER PROGRAM [ARG...]: a test program, shared by one process per processor; adds to the counts.
run_tests() {
  local filter=$1 program=$2 jobs job pids=()
  shift 2
  jobs=$(nproc)
  for ((job = 0; job < jobs; job++)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$job "${wrapper[@]}" "$root/libexec/$program" --gtest_brief=1 \
      ${filter:+--gtest_filter="$filter"} "$@" >"$work/log.$job" 2>&1 &
    pids+=($!)
  done
  for ((job = 0; job < jobs; job++)); do
    wait "${pids[$job]}"
    add_counts "$work/log.$job" $? "$program"
  done
}

# add_counts LOG STATUS NAME: shows what failed and reads googletest's summary; a program that ended early counts as
# one failure.
add_counts() {
  local ok bad left
  ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$1" | tail -n 1)
  bad=$(grep -c '^\[  FAILED  \]' "$1")  # each once, as --gtest_brief prints them
  left=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$1" | tail -n 1)
  passed=$((passed + ${ok:-0})) failed=$((failed + bad)) skipped=$((skipped + ${left:-0}))
  (($2 == 0)) && return
  grep -v -e '^$' -e '^\[=' -e '^\[  PASSED' -e '^Note:' -e '^Running main' \
    -e '^========= ERROR SUMMARY: 0 errors' -e '^========= COMPUTE-SANITIZER' "$1"
  if ((bad == 0)); then
    failed=$((failed + 1))
    echo "FAILED $3 ended with status $2"
  fi
}

all_tests() {
  local program
  for program in "$root"/libexec/graft_*_tests; do
    program=$(basename "$program")
    echo "== $program"
    case $program in
      graft_op_tests) run_tests '*GeneratedSample*' "$program" "$@" ;;
      *) run_tests '' "$program" "$@" ;;
    esac
  done
  summary
}

case $part in
  quick) quick ;;
  test) all_tests "$@" ;;
  ops) run_tests '*GeneratedSample*' graft_op_tests "$@"; summary ;;
  conformance) exec "$python" "$root/tests/conformance/run.py" --device "$device" "$@" ;;
  bench) exec "$python" "$root/bench/run.py" "$device" "$@" ;;
  sanitize)
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not on the PATH" >&2; exit 1; }
    wrapper=(compute-sanitizer --error-exitcode 9 --print-limit 5)
    run_tests '*GeneratedSample*' graft_op_tests "$@"
    summary
    ;;
  soak)
    GRAFT_SOAK_SECONDS=${1:-480} GRAFT_SOAK_PLANS=$(IFS=:; echo "${*:2}") exec "$root/libexec/graft_soak_tests"
    ;;
  *) help >&2; exit 2 ;;
esac
