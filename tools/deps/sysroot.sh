# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by ./dev: libraries of another architecture, unpacked into .deps/ARCHITECTURE, beside the system and unknown
# to it. Needs what install.sh needs.
# shellcheck disable=SC2154

declare -A debian_names=([aarch64]=arm64)

# ensure_sysroot ARCHITECTURE: the packages of tools/deps/ARCHITECTURE.txt, again where that list has changed.
ensure_sysroot() {
  local architecture=$1 list=$lists_folder/$1.txt folder=$deps_folder/$1 sum
  sum=$(sha256sum <"$list")
  [[ -f $folder/.installed && $(<"$folder/.installed") == "$sum" ]] && return 0
  mkdir -p "$deps_folder"
  exec 9>"$deps_folder/lock"
  flock 9
  rm -rf "$folder"
  unpack_sysroot "$architecture" "$list" "$folder"
  unpack_wheels "$architecture" "$list" "$folder"
  echo "$sum" >"$folder/.installed"
  exec 9>&-
}

# unpack_wheels ARCHITECTURE LIST FOLDER: the wheels that the list names, for the architecture's Python.
unpack_wheels() {
  local architecture=$1 list=$2 folder=$3 name version wheels=() platforms=() glibc
  for name in $(sed -n 's/^# wheels: //p' "$list"); do
    version=$(grep -m1 "^$name==" "$lists_folder/python-demo.txt") || fail "python-demo.txt has no $name"
    wheels+=("$version")
  done
  for glibc in 17 26 27 28; do platforms+=(--platform "manylinux_2_${glibc}_$architecture"); done
  ensure_venv
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --python-version "$(sed -n 's/^# python: //p' "$list")" "${platforms[@]}" --target "$folder/python" \
    "${wheels[@]}" </dev/null || fail "pip failed: is the package index reachable?"
}

# unpack_sysroot ARCHITECTURE LIST FOLDER: apt with lists and a state of its own; it needs no root.
unpack_sysroot() {
  local debian=${debian_names[$1]} list=$2 folder=$3 packages suite keys=/usr/share/keyrings/debian-archive-keyring.gpg
  local apt=$folder/.apt mirror=http://deb.debian.org
  command -v apt-get >/dev/null || fail "no apt-get: .deps/$1 is made of Debian's packages"
  [[ -f $keys ]] || fail "no $keys: install debian-archive-keyring"
  mapfile -t packages < <(grep -v '^#' "$list")
  suite=$(sed -n 's/^# suite: //p' "$list")
  mkdir -p "$apt"/{lists/partial,archives/partial,packages}
  touch "$apt/status"
  printf 'deb [signed-by=%s] %s/%s %s main\n' \
    "$keys" "$mirror" "debian" "$suite" "$keys" "$mirror" "debian-security" "$suite-security" >"$apt/sources.list"
  cat >"$apt/apt.conf" <<TEXT
APT::Architecture "$debian";
APT::Architectures { "$debian"; };
APT::Sandbox::User "";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
TEXT
  say "fetching packages of Debian's $debian into .deps/$1 ($(sed -n 's/^# download: //p' "$list")):" \
    "${packages[*]}"
  (
    cd "$apt/packages"
    export APT_CONFIG=$apt/apt.conf
    apt-get update -qq </dev/null && apt-get download -qq "${packages[@]}" </dev/null
  ) >"$deps_folder/$1.log" 2>&1 || fail "apt-get failed: see .deps/$1.log"
  local package
  mkdir -p "$folder/.files"  # whose is what
  for package in "$apt"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -t >"$folder/.files/$(basename "${package%%_*}")"
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --exclude=./usr/share/doc/*/examples
  done
  rm -rf "$apt"
}
