# SPDX-License-Identifier: Apache-2.0
# tests/<kind>/*.cpp becomes the binary graft_<kind>_tests (graft_op_tests for tests/ops), except where the module of
# that name is not built; test_*.py and run.py become ctest entries. The label `core` is what `./dev test` runs and the
# target `core_tests` builds, `all` what `./dev test all` adds, `long` what `./dev test long` adds to that: one of these
# is taken along by each run of `./dev test all`. Each test also has its kind as a label, by which ctest sums up the
# seconds.
if(NOT GRAFT_TESTS)
  return()
endif()
enable_testing()
graft_require(GTest)
include(GoogleTest)
set(graft_core_kinds unit golden plan ops llvm cuda device onednn emulator rpath hostile)
set(graft_long_kinds hidden source_package)  # builds of their own
set(graft_onnx_alone threads)  # what `./dev sanitize` builds for them is less by a third
# tests/NAME/run.py runs them in the framework's environment, .deps/NAME
set(graft_frameworks torch mxnet tensorflow serving ray)
set(graft_tensorflow_core built_engines.cpp device_share.cpp loaded_engine.cpp)
set(graft_own_commands bench mutate replay random_networks)  # their run.py is a command of ./dev, not a test

graft_sources(support_sources tests/support)
add_library(graft_test_support INTERFACE)
if(support_sources)
  add_library(graft_test_support_objects STATIC ${support_sources})
  graft_batched(graft_test_support_objects)
  target_include_directories(graft_test_support_objects PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(graft_test_support_objects PRIVATE
    GRAFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GRAFT_PYTHON_PREFIX="${GRAFT_PYTHON_PREFIX}")
  target_link_libraries(graft_test_support_objects PUBLIC graft_everything GTest::gtest graft_warnings
    nlohmann_json::nlohmann_json)
  target_link_libraries(graft_test_support INTERFACE graft_test_support_objects)
endif()

# Tests are compiled once and run once: their own code is not optimised, and reads its common headers precompiled.
# The target's one file is for its headers alone.
file(CONFIGURE OUTPUT test_headers.cpp CONTENT "")
add_library(graft_test_headers OBJECT ${CMAKE_BINARY_DIR}/test_headers.cpp)
function(graft_test_program name)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE graft_usage graft_warnings nlohmann_json::nlohmann_json GTest::gtest)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # -fPIE, which the headers are not
  target_compile_options(${name} PRIVATE -O0 -fPIC)
endfunction()
graft_test_program(graft_test_headers)
graft_precompile(graft_test_headers <gtest/gtest.h> <nlohmann/json.hpp>)

# A ctest entry that is skipped and says why in one line.
function(graft_add_skipped name label reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: ${reason}")
  set_tests_properties(${name} PROPERTIES LABELS "${label};${name}" SKIP_REGULAR_EXPRESSION "^SKIPPED")
endfunction()

add_custom_target(core_tests)  # what the tests of the label `core` need

# One binary per kind. A kind named like a module is linked with that module's objects, and skipped without them.
get_property(module_names GLOBAL PROPERTY graft_module_names)
function(graft_add_tests kind label)
  graft_sources(sources tests/${kind})
  if(NOT sources)
    return()
  endif()
  if(kind IN_LIST module_names AND NOT TARGET graft_${kind}_objects)
    graft_add_skipped(${kind} ${label} "this build has no libgraft_${kind}")
    return()
  endif()
  string(REGEX REPLACE "^ops$" "op" stem ${kind})
  set(name graft_${stem}_tests)
  add_executable(${name} ${sources})
  graft_batched(${name})
  if(kind STREQUAL "device")  # of the host of TensorFlow what does not know TensorFlow
    list(TRANSFORM graft_tensorflow_core PREPEND ${CMAKE_SOURCE_DIR}/src/host/tensorflow/)
    target_sources(${name} PRIVATE ${graft_tensorflow_core})
  endif()
  graft_test_program(${name})
  if(NOT kind STREQUAL "text")  # whose library asks for definitions of its own
    target_precompile_headers(${name} REUSE_FROM graft_test_headers)
  endif()
  if(kind IN_LIST graft_onnx_alone)
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/driver/onnx_only/no_frameworks.cpp
      ${CMAKE_SOURCE_DIR}/tests/support/text_network.cpp)
    target_link_libraries(${name} PRIVATE graft_core)
  else()
    target_link_libraries(${name} PRIVATE graft_everything graft_test_support)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if(TARGET graft_${kind}_objects)
    target_link_libraries(${name} PRIVATE graft_${kind}_objects)
  endif()
  if(label STREQUAL "core")
    add_dependencies(core_tests ${name})
  endif()
  if(kind STREQUAL "emulator")
    target_link_libraries(${name} PRIVATE
      graft_cuda_objects -Wl,--no-as-needed graft_emulated_cuda graft_emulated_nvrtc)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../emulator")
  endif()
  # `./dev bundle` takes them along; `cmake --install` does not unless it is asked for the component.
  # Not those that need the sources, a compiler or Python, that have libraries which the bundle leaves out, or that no
  # other machine has anything to say to.
  if(NOT kind MATCHES "^(emulator|kernels|text|image|export|golden)$")
    install(TARGETS ${name} RUNTIME DESTINATION libexec COMPONENT tests EXCLUDE_FROM_ALL)
  endif()
  if(CMAKE_CROSSCOMPILING)
    return()  # tests_under_emulation adds what is run, and on which processors
  endif()
  if(kind STREQUAL "ops")
    foreach(shard RANGE 3)  # one process would take the longest of all, at the end on a processor alone
      add_test(NAME ops-${shard} COMMAND ${name} --gtest_brief=1)
      set_tests_properties(ops-${shard} PROPERTIES LABELS "${label};ops" TIMEOUT 1200
        ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${shard}")
    endforeach()
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${kind}: " DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS ${label} TIMEOUT 600)
    # Several labels cannot be handed through discovery; ctest reads this file after it, with the names found.
    set(labels_file ${CMAKE_BINARY_DIR}/${name}_labels.cmake)
    file(WRITE ${labels_file}
      "if(${name}_TESTS)  # not one that is not built\n"
      "  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${label};${kind}\")\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
  endif()
endfunction()

if(CMAKE_CROSSCOMPILING)
  add_dependencies(core_tests graft graft_llvm graft_command)  # the modules that the emulated processors have uses for
  include(tests_under_emulation)
  return()
endif()

# An emulated GPU: libraries with the names and functions of NVIDIA's driver and NVRTC that compile
# kernels for the host and run them there. They lie in a folder of their own, and are found only by
# whom they are loaded in front of.
set(emulator_folder ${CMAKE_BINARY_DIR}/emulator)
# A call before each access to memory, as the sanitizer of a kernel has it made: what is called, the emulator defines.
set(emulator_checks -fsanitize=kernel-address)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  foreach(parameter stack=0 globals=0 instrumentation-with-call-threshold=0)
    string(APPEND emulator_checks " --param asan-${parameter}")
  endforeach()
else()
  foreach(parameter stack=0 globals=0 instrumentation-with-call-threshold=0)
    string(APPEND emulator_checks " -mllvm -asan-${parameter}")
  endforeach()
endif()
function(graft_emulated name version)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/tests/emulator/library/)
  add_library(graft_emulated_${name} SHARED ${ARGN}
    ${CMAKE_SOURCE_DIR}/src/base/error.cpp ${CMAKE_SOURCE_DIR}/src/base/hash.cpp)
  target_include_directories(graft_emulated_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src
    ${CMAKE_SOURCE_DIR}/tests/emulator)
  target_compile_features(graft_emulated_${name} PRIVATE cxx_std_20)
  target_compile_definitions(graft_emulated_${name} PRIVATE
    GRAFT_EMULATOR_DEVICE="${CMAKE_SOURCE_DIR}/tests/emulator/device"
    GRAFT_EMULATOR_FOLDER="${emulator_folder}" GRAFT_EMULATOR_CHECKS="${emulator_checks}"
    GRAFT_EMULATOR_COMPILER="${CMAKE_CXX_COMPILER}")
  target_link_libraries(graft_emulated_${name} PRIVATE graft_warnings fmt::fmt ${GRAFT_XXHASH_LIBRARY})
  set_target_properties(graft_emulated_${name} PROPERTIES OUTPUT_NAME ${name}
    SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY ${emulator_folder})
endfunction()
if(NOT GRAFT_SANITIZE)
  graft_emulated(cuda 1 barriers.cpp cluster.cpp copies.cpp decisions.cpp driver.cpp fiber.cpp host_compiler.cpp
    memory.cpp memory_check.cpp shared_memory.cpp trap.cpp warpgroups.cpp warps.cpp)
  graft_emulated(nvrtc 13 host_compiler.cpp nvrtc.cpp ptx_text.cpp translate.cpp)
endif()

# What the tests of the label `core` need beside their programs.
add_dependencies(core_tests graft modules)
foreach(target graft_command graft_emulated_cuda graft_emulated_nvrtc)
  if(TARGET ${target})
    add_dependencies(core_tests ${target})
  endif()
endforeach()

# Graft inside a framework: the host is built against the installed tree, and its tests run in the framework's Python.
function(graft_add_framework_tests name)
  if(NOT TARGET graft_python AND NOT name STREQUAL "serving")
    graft_add_skipped(${name} all "this build has no Python package: ./dev test all brings what it needs")
    return()
  endif()
  add_test(NAME ${name} COMMAND ${GRAFT_PYTHON_PREFIX}/bin/python ${CMAKE_SOURCE_DIR}/tests/${name}/run.py)
  set_tests_properties(${name} PROPERTIES LABELS "all;${name}" TIMEOUT 3600
    ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR}" SKIP_REGULAR_EXPRESSION "^SKIPPED")
endfunction()

# The Python side of a folder: pytest for test_*.py, and run.py as a program of its own.
function(graft_add_python_tests kind folder label)
  set(python ${GRAFT_PYTHON_PREFIX}/bin/python)
  file(GLOB pytests CONFIGURE_DEPENDS ${folder}/test_*.py)
  if(pytests)
    add_test(NAME ${kind}-python COMMAND ${python} -m pytest -q -p no:cacheprovider ${folder})
    list(APPEND added ${kind}-python)
  endif()
  file(GLOB run CONFIGURE_DEPENDS ${folder}/run.py)
  if(run AND NOT kind IN_LIST graft_own_commands)
    add_test(NAME ${kind} COMMAND ${python} ${run})
    set_tests_properties(${kind} PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED")
    list(APPEND added ${kind})
  endif()
  if(added)
    set_tests_properties(${added} PROPERTIES LABELS "${label};${kind}" TIMEOUT 3600
      ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR}")
    if(kind STREQUAL "hidden")  # which keeps all processors busy itself
      set_tests_properties(${added} PROPERTIES RUN_SERIAL ON)
    endif()
  endif()
endfunction()

file(GLOB folders CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/*)
list(REMOVE_ITEM folders aarch64 fuzz support ${graft_frameworks})  # aarch64: of the cross build
foreach(framework ${graft_frameworks})
  if(NOT GRAFT_SANITIZE)
    graft_add_framework_tests(${framework})
  endif()
endforeach()
if(GRAFT_SANITIZE)
  # The one's threads change stacks, the others want a plain build.
  list(REMOVE_ITEM folders emulator hidden wheel source_package container)
endif()
foreach(kind ${folders})
  if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/${kind})
    set(label all)
    if(kind IN_LIST graft_core_kinds)
      set(label core)
    elseif(kind IN_LIST graft_long_kinds)
      set(label long)
    endif()
    graft_add_tests(${kind} ${label})
    if(kind MATCHES "^(python|wheel|source_package)$" AND NOT TARGET graft_python)
      graft_add_skipped(${kind} ${label} "this build has no Python package: ./dev test all brings what it needs")
      continue()
    endif()
    graft_add_python_tests(${kind} ${CMAKE_SOURCE_DIR}/tests/${kind} ${label})
  endif()
endforeach()

# graft_add_emulated(NAME LABEL BINARY FILTER [VARIABLE=VALUE...]): a test binary whose GPU is emulated. Its kernels
# are kept apart from a real one's, by the emulator, which knows what goes into them.
function(graft_add_emulated name label binary filter)
  add_test(NAME emulated-${name} COMMAND ${binary} --gtest_brief=1 --gtest_filter=${filter})
  set(preload LD_PRELOAD=${emulator_folder}/libcuda.so.1:${emulator_folder}/libnvrtc.so.13)
  set_tests_properties(emulated-${name} PROPERTIES LABELS "${label};emulated" TIMEOUT 1200
    ENVIRONMENT "${preload};GRAFT_TEST_DEVICE=cuda;GRAFT_DISABLE=cublaslt,cudnn;GRAFT_CACHE=/dev/null;${ARGN}")
endfunction()
if(NOT GRAFT_SANITIZE)
  graft_add_emulated(device core graft_device_tests * GRAFT_EMULATED_GPU=sm_90a,sm_90a)
  foreach(shard RANGE 3)
    graft_add_emulated(ops-${shard} all graft_op_tests *GeneratedSample*
      GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=${shard})
  endforeach()
  # What other instructions are used for where there are no warpgroups.
  graft_add_emulated(ops-sm_80 all graft_op_tests
    *GeneratedSample*MatMul*:*GeneratedSample*Gemm*:*GeneratedSample*Conv*:*GeneratedSample*Attention*
    GRAFT_EMULATED_GPU=sm_80)
endif()

graft_add_python_tests(models ${CMAKE_SOURCE_DIR}/models all)
graft_add_python_tests(bench ${CMAKE_SOURCE_DIR}/bench all)

# The pages that `./dev docs` writes are those that this build would write.
if(TARGET graft_command)
  add_test(NAME docs COMMAND ${GRAFT_PYTHON_PREFIX}/bin/python ${CMAKE_SOURCE_DIR}/tools/docs/run.py --check)
  set_tests_properties(docs PROPERTIES LABELS "all;docs" ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR}")
endif()

# Tests that need a build of their own: ./dev makes it, the first time in minutes.
function(graft_add_own_build name label folder)
  graft_sources(sources ${folder})
  if(sources AND NOT GRAFT_SANITIZE)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/dev ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS "${label};${name}" TIMEOUT 3600 RUN_SERIAL ON)
  endif()
endfunction()
graft_add_own_build(fuzz long tests/fuzz fuzz 30)
# The same networks in every run; a slow machine does not get through all of them.
if(NOT GRAFT_SANITIZE)
  graft_add_python_tests(random_networks ${CMAKE_SOURCE_DIR}/tests/fuzz/random_networks all)
  add_test(NAME fuzz-networks COMMAND ${CMAKE_SOURCE_DIR}/dev fuzz 120 nnsmith 1..250)
  add_test(NAME fuzz-samples COMMAND ${CMAKE_SOURCE_DIR}/dev fuzz 90 samples 1..500)
  set_tests_properties(fuzz-networks fuzz-samples PROPERTIES LABELS "all;random_networks" TIMEOUT 3600)
endif()
graft_add_own_build(thread-sanitizer long tests/threads sanitize thread threads)
if(NOT GRAFT_SANITIZE AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_test(NAME aarch64 COMMAND ${CMAKE_SOURCE_DIR}/dev test aarch64)
  set_tests_properties(aarch64 PROPERTIES LABELS "long;aarch64" TIMEOUT 3600 RUN_SERIAL ON)
endif()
