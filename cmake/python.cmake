# SPDX-License-Identifier: Apache-2.0
# The Python package: the extension module beside the package's own files, importable from the build tree
# (PYTHONPATH=build/python), and what a wheel takes (component `python`).
set(GRAFT_PYTHON AUTO CACHE STRING "The Python package: AUTO where Python's headers and nanobind are there, ON, OFF")
if(NOT GRAFT_PYTHON OR GRAFT_SANITIZE OR GRAFT_FUZZ)
  return()
endif()
if(NOT Python_EXECUTABLE AND EXISTS ${GRAFT_PYTHON_PREFIX}/bin/python)
  set(Python_EXECUTABLE ${GRAFT_PYTHON_PREFIX}/bin/python)  # the interpreter that the tests run in
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND AND NOT nanobind_ROOT)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(nanobind 3 QUIET CONFIG)
if(NOT Python_FOUND OR NOT nanobind_FOUND)
  if(NOT GRAFT_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "graft: the Python package needs Python's headers (python3-dev) and nanobind")
  endif()
  message(STATUS "graft: no Python headers or no nanobind: the Python package is left out (./dev build brings both)")
  return()
endif()

set(package ${CMAKE_BINARY_DIR}/python/graft)
file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/src/*.cpp)
nanobind_add_module(graft_python STABLE_ABI NB_STATIC ${python_sources})
target_link_libraries(graft_python PRIVATE graft graft_warnings)
target_compile_features(graft_python PRIVATE cxx_std_20)
set_target_properties(graft_python PROPERTIES OUTPUT_NAME _graft LIBRARY_OUTPUT_DIRECTORY ${package}
  INSTALL_RPATH "$ORIGIN/lib:$ORIGIN/../../lib")  # in a wheel, in the build tree
add_dependencies(graft_python modules)

# The build tree's package is the source's files, linked one by one beside the extension.
file(GLOB package_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/graft/*.py ${CMAKE_SOURCE_DIR}/python/graft/*.pyi
  ${CMAKE_SOURCE_DIR}/python/graft/py.typed)
file(MAKE_DIRECTORY ${package}/bin)
foreach(file ${package_files})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${package}/${name} SYMBOLIC)
endforeach()
file(GLOB parts CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python/graft
  ${CMAKE_SOURCE_DIR}/python/graft/*/__init__.py)
foreach(part ${parts})
  get_filename_component(name ${part} DIRECTORY)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/graft/${name} ${package}/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK ${CMAKE_BINARY_DIR}/bin/graft ${package}/bin/graft SYMBOLIC)

# What an installed package says of itself: torch finds the backend by its entry point.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/pyproject.toml)
execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/python_metadata.py
  ${CMAKE_SOURCE_DIR}/python/pyproject.toml ${CMAKE_BINARY_DIR}/python COMMAND_ERROR_IS_FATAL ANY)

install(TARGETS graft_python LIBRARY DESTINATION graft COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS graft ${modules} LIBRARY DESTINATION graft/lib NAMELINK_SKIP COMPONENT python EXCLUDE_FROM_ALL)
install(TARGETS graft_command RUNTIME DESTINATION graft/bin COMPONENT python EXCLUDE_FROM_ALL)
