# SPDX-License-Identifier: Apache-2.0
# The libraries we build on. Required ones stop the configuration with the package to install;
# optional ones are left out with one line that says what is lost.
set(graft_remedy "install the packages of tools/deps/apt.txt, or run ./dev build")

function(graft_require package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "graft: ${package} was not found: ${graft_remedy}")
  endif()
endfunction()

graft_require(Threads)
graft_require(Protobuf)
graft_require(fmt)
graft_require(spdlog)
graft_require(nlohmann_json)
graft_require(CLI11)
graft_require(ZLIB)
find_program(GRAFT_FLATC flatc REQUIRED)
find_path(GRAFT_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
find_path(GRAFT_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(GRAFT_XXHASH_LIBRARY xxhash REQUIRED)

set(CMAKE_MESSAGE_LOG_LEVEL WARNING)  # LLVM's own file reports every library it once looked for
find_package(LLVM 19.1 QUIET CONFIG HINTS /usr/lib/llvm-19)
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(LLVM_FOUND)
  message(STATUS "graft: CPU kernels through LLVM ${LLVM_PACKAGE_VERSION}")
else()
  message(STATUS "graft: no LLVM 19: no generated CPU kernels, the interpreter runs everything")
endif()

find_package(dnnl 3.2 QUIET CONFIG HINTS ${GRAFT_PYTHON_PREFIX}/lib/cmake/dnnl)
if(dnnl_FOUND)
  message(STATUS "graft: oneDNN ${dnnl_VERSION} from ${dnnl_DIR}")
else()
  message(STATUS "graft: no oneDNN 3.2: generated kernels have no library to compete with")
endif()

find_program(GRAFT_NVCC nvcc HINTS /usr/local/cuda/bin ENV CUDA_HOME PATH_SUFFIXES bin)
if(GRAFT_NVCC)
  message(STATUS "graft: CUDA toolkit at ${GRAFT_NVCC} (NVRTC is opened when a kernel is compiled)")
else()
  message(STATUS "graft: no CUDA toolkit: CUDA kernels need a pip-installed NVRTC when compiled")
endif()
