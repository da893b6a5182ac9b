# SPDX-License-Identifier: Apache-2.0
# The tests of a cross build, under qemu's emulation of several processors: `./dev test aarch64`. Emulation takes 4 to
# 100 times as long. So each processor gets a share of the samples, and each another one.
option(GRAFT_ALL_SAMPLES "Run all samples of operators and cases of ONNX on each emulated processor, for hours" OFF)

foreach(kind unit llvm plan ops)
  graft_add_tests(${kind} core)
endforeach()

# graft_emulated_test(NAME PROCESSOR PROGRAM [ARG...]): a program of the cross build, or of the unpacked packages.
function(graft_emulated_test name processor)
  add_test(NAME ${name} COMMAND qemu-aarch64 -cpu ${processor} -L ${graft_runtime} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${CMAKE_SYSTEM_PROCESSOR} TIMEOUT 36000
    ENVIRONMENT "GRAFT_CACHE=/dev/null")
endfunction()

# graft_add_under_emulation(NAME PROCESSOR BINARY [FILTER F] [SHARE I OF N]): one process, for all or a share of its
# tests.
function(graft_add_under_emulation name processor binary)
  cmake_parse_arguments(arg "" "FILTER;SHARE;OF" "" ${ARGN})
  set(filter)
  if(arg_FILTER)
    set(filter --gtest_filter=${arg_FILTER})
  endif()
  graft_emulated_test(${name} ${processor} $<TARGET_FILE:${binary}> --gtest_brief=1 ${filter})
  if(arg_OF AND NOT GRAFT_ALL_SAMPLES)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${arg_OF} GTEST_SHARD_INDEX=${arg_SHARE})
  endif()
endfunction()

# Processors, with vectors of NEON, then of SVE: the least; dot products; also of bf16; lengths.
set(graft_processors cortex-a57 neoverse-n1 max,sve=off max,sve128=on max,sve256=on max,sve512=on)
set(graft_processor_names armv8 neoverse-n1 neon sve128 sve256 sve512)
set(share 0)
foreach(processor name IN ZIP_LISTS graft_processors graft_processor_names)
  graft_add_under_emulation(ops-${name} ${processor} graft_op_tests FILTER *GeneratedSample*native*
    SHARE ${share} OF 24)
  math(EXPR share "${share} + 1")
endforeach()
graft_add_under_emulation(llvm-neon max,sve=off graft_llvm_tests FILTER -Units.* SHARE 0 OF 8)
graft_add_under_emulation(llvm-sve512 max,sve512=on graft_llvm_tests FILTER -Units.* SHARE 1 OF 8)
# Units of products, whose instructions NEON and SVE both have.
graft_add_under_emulation(units-neon max,sve=off graft_llvm_tests FILTER Units.*)
graft_add_under_emulation(units-sve256 max,sve256=on graft_llvm_tests FILTER Units.*)
# The rules of machines, of linking and of threads. qemu 7.2 aborts in a child that was forked beside other threads and
# starts threads, whatever the program.
graft_add_under_emulation(unit-sve256 max,sve256=on graft_unit_tests
  FILTER Target.*:LinkRules*:ThreadTeam.*:SortRow*:Schedule.*-ThreadTeam.works_in_a_child_after_fork)
graft_add_under_emulation(plan-neoverse-n1 neoverse-n1 graft_plan_tests
  FILTER HostilePlan*:PlanFile*:KernelCache*:KilledWriter.* SHARE 0 OF 4)

# The command, as a person uses it. Plans of the machine that emulates need a build for that, too.
set(graft_native_build ${CMAKE_SOURCE_DIR}/build)
set(graft_python ${GRAFT_PYTHON_PREFIX}/bin/python)
add_test(NAME command COMMAND ${graft_python} -m pytest -q -p no:cacheprovider ${CMAKE_SOURCE_DIR}/tests/aarch64)
set_tests_properties(command PROPERTIES LABELS ${CMAKE_SYSTEM_PROCESSOR} TIMEOUT 3600
  ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR};GRAFT_NATIVE_BUILD=${graft_native_build}")

# Cases of ONNX through the C interface, in Python for the other machine. The machine that emulates collects them. This
# build has no readers of texts and images.
set(cases ${CMAKE_BINARY_DIR}/cases.zip)
set(conformance ${CMAKE_SOURCE_DIR}/tests/conformance/run.py)
add_test(NAME conformance-cases COMMAND ${graft_python} ${conformance} --write-cases ${cases})
set_tests_properties(conformance-cases PROPERTIES LABELS ${CMAKE_SYSTEM_PROCESSOR} FIXTURES_SETUP cases)
set(every 12)
if(GRAFT_ALL_SAMPLES)
  set(every 1)
endif()
set(libraries ${graft_runtime}/lib)
foreach(folder usr/lib lib)
  string(PREPEND libraries ${graft_unpacked}/${folder}/${CMAKE_LIBRARY_ARCHITECTURE}:)
endforeach()
set(first 0)
foreach(processor name IN ZIP_LISTS graft_processors graft_processor_names)
  if(name MATCHES "^(neon|sve256)$")
    graft_emulated_test(conformance-${name} ${processor}
      -E LD_LIBRARY_PATH=${libraries}
      -E PYTHONHOME=${graft_unpacked}/usr -E PYTHONPATH=${graft_unpacked}/python
      ${graft_unpacked}/usr/bin/python3.11 ${conformance} --cases ${cases} --jobs 1 --every ${every} --first ${first}
      --filter "^test_(?!image_decoder|regex_full_match|strnormalizer)")
    set_tests_properties(conformance-${name} PROPERTIES FIXTURES_REQUIRED cases)
    set_property(TEST conformance-${name} APPEND PROPERTY ENVIRONMENT GRAFT_BUILD=${CMAKE_BINARY_DIR}
      OPENBLAS_NUM_THREADS=1)
    math(EXPR first "${first} + 5")
  endif()
endforeach()
