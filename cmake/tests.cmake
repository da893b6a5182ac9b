# SPDX-License-Identifier: Apache-2.0
# tests/<kind>/*.cpp becomes the binary graft_<kind>_tests (graft_op_tests for tests/ops); test_*.py
# and run.py become ctest entries. The label `core` is what `./dev test` runs, `all` what
# `./dev test all` adds.
if(NOT GRAFT_TESTS)
  return()
endif()
enable_testing()
graft_require(GTest)
include(GoogleTest)
set(graft_core_kinds unit golden plan ops llvm cuda device onednn)
set(graft_own_commands bench mutate replay)  # their run.py is a command of ./dev, not a test

graft_sources(support_sources tests/support)
add_library(graft_test_support INTERFACE)
if(support_sources)
  add_library(graft_test_support_objects STATIC ${support_sources})
  target_include_directories(graft_test_support_objects PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(graft_test_support_objects PRIVATE
    GRAFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GRAFT_PYTHON_PREFIX="${GRAFT_PYTHON_PREFIX}")
  target_link_libraries(graft_test_support_objects PUBLIC graft_core GTest::gtest graft_warnings
    nlohmann_json::nlohmann_json)
  target_link_libraries(graft_test_support INTERFACE graft_test_support_objects)
endif()

# One binary per kind; a kind named like a module is linked with that module's objects.
function(graft_add_tests kind label)
  graft_sources(sources tests/${kind})
  if(NOT sources)
    return()
  endif()
  string(REGEX REPLACE "^ops$" "op" stem ${kind})
  set(name graft_${stem}_tests)
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE graft_core graft_test_support graft_warnings
    nlohmann_json::nlohmann_json GTest::gtest GTest::gtest_main)
  if(TARGET graft_${kind}_objects)
    target_link_libraries(${name} PRIVATE graft_${kind}_objects)
  endif()
  # `./dev bundle` takes them along; `cmake --install` does not unless it is asked for the component.
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
  install(TARGETS ${name} RUNTIME DESTINATION libexec COMPONENT tests EXCLUDE_FROM_ALL)
  if(kind STREQUAL "ops")
    add_test(NAME ops COMMAND ${name})
    set_tests_properties(ops PROPERTIES LABELS ${label} TIMEOUT 1200)
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${kind}: " DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS ${label} TIMEOUT 600)
  endif()
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
    list(APPEND added ${kind})
  endif()
  if(added)
    set_tests_properties(${added} PROPERTIES LABELS ${label} TIMEOUT 3600
      ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR}")
  endif()
endfunction()

file(GLOB folders CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/*)
list(REMOVE_ITEM folders fuzz support)
foreach(kind ${folders})
  if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/${kind})
    set(label all)
    if(kind IN_LIST graft_core_kinds)
      set(label core)
    endif()
    graft_add_tests(${kind} ${label})
    graft_add_python_tests(${kind} ${CMAKE_SOURCE_DIR}/tests/${kind} ${label})
  endif()
endforeach()

graft_add_python_tests(models ${CMAKE_SOURCE_DIR}/models all)
graft_add_python_tests(bench ${CMAKE_SOURCE_DIR}/bench all)

# The pages that `./dev docs` writes are those that this build would write.
if(TARGET graft_command)
  add_test(NAME docs COMMAND ${GRAFT_PYTHON_PREFIX}/bin/python ${CMAKE_SOURCE_DIR}/tools/docs/run.py --check)
  set_tests_properties(docs PROPERTIES LABELS all ENVIRONMENT "GRAFT_BUILD=${CMAKE_BINARY_DIR}")
endif()

# Tests that need a build of their own: ./dev makes it, the first time in minutes.
function(graft_add_own_build name folder)
  graft_sources(sources ${folder})
  if(sources AND NOT GRAFT_SANITIZE)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/dev ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS all TIMEOUT 3600 RUN_SERIAL ON)
  endif()
endfunction()
graft_add_own_build(fuzz tests/fuzz fuzz 30)
graft_add_own_build(thread-sanitizer tests/threads sanitize thread threads)
