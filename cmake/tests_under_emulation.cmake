# SPDX-License-Identifier: Apache-2.0
# The tests of a cross build, under qemu's emulation of several processors: `./dev test aarch64`. Emulation takes 4 to
# 100 times as long. So each processor gets a share of the samples, and each another one.
option(GRAFT_ALL_SAMPLES "Run all samples of operators on each emulated processor, which takes hours" OFF)

foreach(kind unit llvm plan ops)
  graft_add_tests(${kind} core)
endforeach()

# graft_add_under_emulation(NAME PROCESSOR BINARY [FILTER F] [SHARE I OF N]): one process, for all or a share of its
# tests.
function(graft_add_under_emulation name processor binary)
  cmake_parse_arguments(arg "" "FILTER;SHARE;OF" "" ${ARGN})
  set(filter)
  if(arg_FILTER)
    set(filter --gtest_filter=${arg_FILTER})
  endif()
  set(environment GRAFT_CACHE=/dev/null)
  if(arg_OF AND NOT GRAFT_ALL_SAMPLES)
    list(APPEND environment GTEST_TOTAL_SHARDS=${arg_OF} GTEST_SHARD_INDEX=${arg_SHARE})
  endif()
  add_test(NAME ${name} COMMAND qemu-aarch64 -cpu ${processor} -L ${graft_runtime} $<TARGET_FILE:${binary}>
    --gtest_brief=1 ${filter})
  set_tests_properties(${name} PROPERTIES LABELS ${CMAKE_SYSTEM_PROCESSOR} TIMEOUT 36000 ENVIRONMENT "${environment}")
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
graft_add_under_emulation(llvm-neon max,sve=off graft_llvm_tests SHARE 0 OF 8)
graft_add_under_emulation(llvm-sve512 max,sve512=on graft_llvm_tests SHARE 1 OF 8)
# The rules of machines, of linking and of threads. qemu 7.2 aborts in a child that was forked beside other threads and
# starts threads, whatever the program.
graft_add_under_emulation(unit-sve256 max,sve256=on graft_unit_tests
  FILTER Target.*:LinkRules*:ThreadTeam.*:SortRow*:Schedule.*-ThreadTeam.works_in_a_child_after_fork)
graft_add_under_emulation(plan-neoverse-n1 neoverse-n1 graft_plan_tests FILTER HostilePlan*:PlanFile*:KernelCache*
  SHARE 0 OF 4)

# The command, as a person uses it. Plans of the machine that emulates need a build for that, too.
set(graft_native_build ${CMAKE_SOURCE_DIR}/build)
add_test(NAME command COMMAND ${GRAFT_PYTHON_PREFIX}/bin/python -m pytest -q -p no:cacheprovider
  ${CMAKE_SOURCE_DIR}/tests/aarch64)
set_tests_properties(command PROPERTIES LABELS ${CMAKE_SYSTEM_PROCESSOR} TIMEOUT 3600
  ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR};GRAFT_NATIVE_BUILD=${graft_native_build}")
