# SPDX-License-Identifier: Apache-2.0
# Toolchain of the preset `aarch64`: Debian's cross compiler, the libraries that `./dev build --for aarch64` unpacks
# into .deps/aarch64, and the tests under qemu's emulation. protoc and flatc are the building machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(graft_runtime /usr/aarch64-linux-gnu)  # glibc and libstdc++ of the cross compiler
get_filename_component(graft_unpacked ${CMAKE_CURRENT_LIST_DIR}/../.deps/aarch64 REALPATH)
set(CMAKE_FIND_ROOT_PATH ${graft_unpacked} ${graft_runtime})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()

# GRAFT_EMULATED_CPU is a processor of qemu: `max`, `max,sve512=on`, `neoverse-n1`.
set(GRAFT_EMULATED_CPU max CACHE STRING "The processor that qemu emulates for the tests")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${GRAFT_EMULATED_CPU} -L ${graft_runtime})
