# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by ./dev: installs what is missing from the lists in this folder, and says so before.
# Needs root_folder and python; everything but the apt packages goes into $root_folder/.deps.
# shellcheck disable=SC2154
deps_folder=$root_folder/.deps
lists_folder=$root_folder/tools/deps

say() { printf 'dev: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# Notes that there is something new, which cmake may look for (configure of ./dev).
note_installed() { touch "$deps_folder/.changed"; }

# Prints the packages of the given groups that are not installed.
missing_packages() {
  local group package alternatives alternative
  while read -r group package; do
    [[ " $* " == *" $group "* ]] || continue
    IFS='|' read -ra alternatives <<<"$package"
    for alternative in "${alternatives[@]}"; do
      is_installed "$alternative" && continue 2
    done
    echo "$package"
  done <"$lists_folder/apt.txt"
}

is_installed() {
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# Prints the command prefix that gives root's rights; asks first where that is sudo.
# Usage: as_root=$(root_prefix COMMAND): the command is what the person is asked about.
root_prefix() {
  [[ $(id -u) == 0 ]] && return 0
  command -v sudo >/dev/null || return 1
  if [[ ${CI:-} == true || ! -t 0 ]]; then
    [[ ${CI:-} == true ]] && sudo -n true 2>/dev/null && echo "sudo -n" && return 0
    return 1
  fi
  local answer
  read -r -p "dev: run 'sudo $1'? [y/N] " answer </dev/tty
  [[ $answer == [yY]* ]] && echo sudo
}

# Whether apt has package lists at all: a fresh system has none.
offers_packages() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# Turns `a|b` and packages that the system does not offer into a list that apt-get accepts.
choose_packages() {
  local package alternatives alternative
  offers_packages || { printf '%s\n' "${@%%|*}"; return 0; }
  for package in "$@"; do
    IFS='|' read -ra alternatives <<<"$package"
    for alternative in "${alternatives[@]}"; do
      if apt-cache show --no-all-versions "$alternative" >/dev/null 2>&1; then
        echo "$alternative"
        continue 2
      fi
    done
    if grep -q "^build  *$package$" "$lists_folder/apt.txt"; then
      fail "this system's package lists have no $package: is Debian's or Ubuntu's archive enabled?"
    fi
    say "this system has no package $package: going on without it"
  done
}

# Prints how much apt would fetch for the packages, in MB.
download_size() {
  apt-get install --print-uris -qq --no-install-recommends "$@" 2>/dev/null |
    awk '{ bytes += $3 } END { printf "%d MB", bytes / 1e6 + 1 }'
}

# Installs the apt packages of the given groups that are missing.
ensure_apt() {
  command -v dpkg-query >/dev/null || {
    say "not a Debian system: the packages of tools/deps/apt.txt have to be there already"
    return 0
  }
  local missing text chosen prefix line
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  text=$(choose_packages "${missing[@]}") || exit 1
  [[ $text ]] || return 0
  line="apt-get install --no-install-recommends ${text//$'\n'/ }"
  prefix=$(root_prefix "$line") || {
    say "these packages are missing, and it takes root to install them. Run"
    echo "  apt-get update && $line" >&2
    exit 1
  }
  if ! offers_packages; then
    $prefix apt-get update -qq </dev/null || fail "apt-get update failed: is the network reachable?"
    text=$(choose_packages "${missing[@]}") || exit 1
  fi
  [[ $text ]] || return 0
  mapfile -t chosen <<<"$text"
  say "installing through apt ($(download_size "${chosen[@]}") to fetch): ${chosen[*]}"
  install_packages || { $prefix apt-get update -qq </dev/null && install_packages; } ||
    { tail -n 5 "$deps_folder/apt.log" >&2; fail "apt-get failed: see .deps/apt.log"; }
  note_installed
}

# Installs `chosen` with `prefix`, both of ensure_apt; a failure may mean that the lists are stale.
install_packages() {
  $prefix env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${chosen[@]}" </dev/null >"$deps_folder/apt.log" 2>&1
}

# Makes the project's own Python folder, again where its interpreter has gone.
ensure_venv() {
  "$python" -c '' 2>/dev/null && return 0
  rm -rf "$deps_folder/venv"
  python3 -m venv "$deps_folder/venv" ||
    fail "python3 cannot make a virtual environment: install python3-venv"
}

# Installs the pinned lists python-NAME.txt that changed since they were last installed.
ensure_python() {
  local name list stamp sum
  ensure_venv
  for name in "$@"; do
    list=$lists_folder/python-$name.txt
    stamp=$deps_folder/venv/.installed-$name
    sum=$(sha256sum <"$list")
    [[ -f $stamp && $(<"$stamp") == "$sum" ]] && continue
    say "installing through pip into .deps/venv ($(sed -n 's/^# download: //p' "$list") to fetch):" \
      "$(grep -v '^#' "$list" | tr '\n' ' ')"
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$list" </dev/null ||
      fail "pip failed: is the package index reachable?"
    echo "$sum" >"$stamp"
    note_installed
  done
}

# ensure_optional APT_GROUPS: what tests can do without; where it cannot be installed, a line says so.
ensure_optional() {
  (ensure "$1" "") || say "going on without $1: its tests are skipped"
}

# ensure APT_GROUPS PYTHON_LISTS: one at a time, so that two ./dev do not install into each other.
ensure() {
  mkdir -p "$deps_folder"
  exec 9>"$deps_folder/lock"
  flock 9
  # shellcheck disable=SC2086  # both are lists of words
  ensure_apt $1
  # shellcheck disable=SC2086
  [[ -z $2 ]] || ensure_python $2
  exec 9>&-
}
