#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bin/graft-torch-selftest: Graft inside the torch of this machine's python3.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

help() {
  cat <<'TEXT'
graft-torch-selftest [PART [ARG...]]

  gpu [ARG...]    tests/torch/test_gpu.py, and test_gpu_memory.py behind it (what it does without PART); ARGs go to
                  pytest over the first
  cpu [ARG...]    the other tests of tests/torch, but those that compile C++ or measure memory
  bench [ARG...]  bench/torch_networks.py: --device cuda, --device cuda --call; see --help

Needs a python3 with torch 2.11, numpy and pytest; torchvision, timm and transformers for networks, pytest-xdist for
tests side by side. PYTHON names another python3. Kernels are kept in GRAFT_CACHE (a folder in /tmp).
TEXT
}

python=${PYTHON:-python3}
part=${1:-gpu}
shift $(($# > 0))
export GRAFT_BUILD=$root/python/graft PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
export GRAFT_CACHE=${GRAFT_CACHE:-${TMPDIR:-/tmp}/graft-torch-cache}

# pytest over files of tests/torch, shared among processes where xdist is there.
run_tests() {
  local workers=()
  if ((JOBS > 1)) && "$python" -c 'import xdist' 2>/dev/null; then workers=(-n "$JOBS"); fi
  cd "$root/tests/torch" || exit 1
  "$python" -m pytest -q -p no:cacheprovider --durations=8 "${workers[@]}" "$@"
}

case $part in
  gpu)
    JOBS=${JOBS:-4} run_tests test_gpu.py "$@"
    status=$?
    (($#)) && exit "$status"
    JOBS=1 run_tests test_gpu_memory.py  # alone on the GPU
    exit $((status | $?))
    ;;
  cpu)
    JOBS=${JOBS:-$(nproc)} run_tests --ignore=test_gpu.py --ignore=test_gpu_memory.py --ignore=test_plugin.py \
      --ignore=test_memory.py -k 'not in_cpp' "$@"
    ;;
  bench) exec "$python" "$root/bench/torch_networks.py" "$@" ;;
  -h | --help) help ;;
  *) help >&2; exit 2 ;;
esac
