#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what tests/plugin/bundle.py put into .plugin-bundle/: all plugins in the harness, on this machine's GPU, then,
# where matrix.py --bundle made them, those of every operator and type, eight at a time.
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
if [ -f matrix/runs.txt ]; then
  cd matrix || exit 2
  run_one() {
    said=$("./$1" "./$2" "$3" "$4" 2>&1) && echo "$3: good" || echo "$3: FAILED: $(tail -n 1 <<<"$said")"
  }
  export -f run_one
  said=$(xargs -P 8 -L 1 bash -c 'run_one "$@"' _ < runs.txt)
  bad=$(grep -c FAILED <<<"$said")
  grep FAILED <<<"$said"
  echo "$(wc -l < runs.txt) operators and types, $bad failed"
  failed=$((failed + bad))
fi
[ "$failed" -eq 0 ]
