# SPDX-License-Identifier: Apache-2.0
# What can be chosen at configure time, and the compiler settings that hold for everything.
set(GRAFT_SANITIZE "" CACHE STRING "Sanitizers for the whole build: address,undefined or thread")
option(GRAFT_FUZZ "Build the fuzz targets of tests/fuzz (needs clang)" OFF)
option(GRAFT_TESTS "Build the tests" ON)
# What a machine may lack can be hidden, to build what such a machine builds: tests/hidden does.
option(GRAFT_CUDA_TOOLKIT "Use the headers of a CUDA toolkit: cuBLASLt and cuDNN as candidates" ON)
option(GRAFT_LLVM "Use LLVM: CPU kernels are generated" ON)
option(GRAFT_ONEDNN "Use oneDNN as a candidate on CPUs" ON)
option(GRAFT_TEXT "Use RE2 and ICU: RegexFullMatch and StringNormalizer run" ON)
option(GRAFT_IMAGES "Use the libraries of image formats: ImageDecoder runs" ON)
option(GRAFT_BATCHES "Compile files of a folder together where no name of one means another in the next" ON)
find_program(GRAFT_PYTHON3 python3)  # which finds out
set(GRAFT_PYTHON_PREFIX ${CMAKE_SOURCE_DIR}/.deps/venv CACHE PATH
  "The project's Python folder, made by ./dev; oneDNN and the Python tests are found here")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# The interpreter is the reference for every kernel: the compiler may not contract its sums.
add_compile_options(-ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(-fpch-preprocess)  # what ccache needs to see precompiled headers
else()
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")  # which would tell every build's headers apart
endif()
add_library(graft_warnings INTERFACE)
# A designated initialiser names the members that differ; the rest keep their default.
target_compile_options(graft_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 reports overlapping or endless copies in every `"a" + string` that it inlines (GCC bug 105651).
  target_compile_options(graft_warnings INTERFACE -Wno-restrict -Wno-stringop-overflow)
endif()

# The build tree has the layout of an installed one, and its programs and modules look for libraries at the same places:
# what CMake would edit on installation is padded with empty entries, which are the current folder.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # what lies outside the project and outside the system's folders
# Where a library looks for its own libraries also holds for what those need in turn: an installed tree, and
# the bundle, find everything inside themselves. (DT_RPATH; the newer DT_RUNPATH reaches one step only.)
add_link_options(-Wl,--disable-new-dtags)

# What looks for faults finds indices behind the end of containers too, wherever they are.
if(GRAFT_SANITIZE OR GRAFT_FUZZ)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(GRAFT_SANITIZE)
  add_compile_options(-fsanitize=${GRAFT_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${GRAFT_SANITIZE})
  if(GRAFT_SANITIZE STREQUAL "thread")
    add_compile_options(-O1)  # the whole core is built for a few tests: 2 cores take about 4 minutes
  endif()
endif()
if(GRAFT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "GRAFT_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
