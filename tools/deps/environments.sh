# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by ./dev behind install.sh: what does not go with the project's own Python packages (frameworks, and tools
# that bring one) is installed into an environment of its own, .deps/NAME, from the list environment-NAME.txt. Its
# comments beside packages:
#   # download: 620 MB   what it takes to fetch, said before
#   # python: 3.11       the newest Python that its packages are for; with a newer one it is left out
#   # uses: torch        another environment, whose packages it sees, too
#   # then: FILE.py      run behind the installation with the folder of packages
# torch-2.9 is the environment torch with another version, one of src/host/torch/versions.txt.
# shellcheck disable=SC2154

# Prints the list of an environment.
list_of() {
  local list=$lists_folder/environment-$1.txt version=${1#torch-} line
  if [[ $version == "$1" ]]; then cat "$list"; return; fi
  line=$(grep -E "^${version//./\\.}[. ]" "$root_folder/src/host/torch/versions.txt") ||
    fail "torch $version is none of those in src/host/torch/versions.txt"
  grep -vE '^(torch|torchvision|nvidia-[a-z0-9-]+)==' "$lists_folder/environment-torch.txt"
  # shellcheck disable=SC2086  # a list of words
  printf '%s\n' "torch==${line%% *}" ${line#* }
}

# Prints what the list says about itself, empty for nothing.
stated() { list_of "$1" | sed -n "s/^# $2: //p"; }

# ensure_environments NAME...: in order; one ./dev at a time.
ensure_environments() {
  local name
  mkdir -p "$deps_folder"
  for name in "$@"; do
    # shellcheck disable=SC2046  # a list of words
    ensure_environments $(stated "$name" uses)
    exec 9>"$deps_folder/lock"
    flock 9
    install_environment "$name"
    exec 9>&-
  done
}

install_environment() {
  local name=$1 folder=$deps_folder/$1 list other packages script sum newest
  newest=$(stated "$name" python)
  if [[ $newest ]] && python3 -c "import sys; sys.exit(sys.version_info[:2] <= (${newest/./, }))"; then
    say "$name is left out: its packages are for Python up to $newest, and python3 is newer"
    return 0
  fi
  script=$(stated "$name" "then")
  list=$(list_of "$name")
  sum=$(cat - ${script:+"$lists_folder/$script"} <<<"$list" | sha256sum)
  [[ -f $folder/.installed && $(<"$folder/.installed") == "$sum" ]] && return 0
  say "installing through pip into .deps/$name ($(stated "$name" download) to fetch):" \
    "$(grep -v '^#' <<<"$list" | tr '\n' ' ')"
  rm -rf "$folder"
  python3 -m venv "$folder" || fail "python3 cannot make a virtual environment: install python3-venv"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r /dev/stdin <<<"$list" ||
    fail "pip failed: is the package index reachable?"
  packages=$(packages_of "$name")
  for other in $(stated "$name" uses); do packages_of "$other" >"$packages/$other.pth"; done
  if [[ $script ]]; then
    "$folder/bin/python" "$lists_folder/$script" "$packages" >/dev/null || fail "see tools/deps/$script"
  fi
  echo "$sum" >"$folder/.installed"
}

# The folder of an environment's packages.
packages_of() { "$deps_folder/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
