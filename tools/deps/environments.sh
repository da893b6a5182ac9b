# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by ./dev behind install.sh: NNSmith and its torch, in an environment of their own.
# shellcheck disable=SC2154
ensure_nnsmith() {
  local folder=$deps_folder/nnsmith list=$lists_folder/nnsmith.txt sum
  sum=$(cat "$list" "$lists_folder/stub_libraries.py" | sha256sum)
  mkdir -p "$deps_folder"
  exec 9>"$deps_folder/lock"
  flock 9
  if [[ ! -f $folder/.installed || $(<"$folder/.installed") != "$sum" ]]; then
    say "installing through pip into .deps/nnsmith ($(sed -n 's/^# download: //p' "$list") to fetch):" \
      "$(grep -v '^#' "$list" | tr '\n' ' ')"
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$list" </dev/null ||
      fail "pip failed: is the package index reachable?"
    "$folder/bin/python" "$lists_folder/stub_libraries.py" \
      "$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" >/dev/null ||
      fail "torch's CUDA libraries could not be replaced: see tools/deps/stub_libraries.py"
    echo "$sum" >"$folder/.installed"
  fi
  exec 9>&-
}
