#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what tests/plugin/bundle.py put into .plugin-bundle/: all plugins in the harness, on this machine's GPU.
#   run_on_gpu.sh [BUNDLE] [REPETITIONS]
set -uo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../../.plugin-bundle}" || exit 2
repetitions=${2:-1000}
failed=0
while read -r harness library plugin cases; do
  echo "== $plugin, $harness"
  "./$harness" "./$library" "$plugin" "$cases" "$repetitions" || failed=$((failed + 1))
done < runs.txt
echo "$(wc -l < runs.txt) runs, $failed failed"
[ "$failed" -eq 0 ]
