# SPDX-License-Identifier: Apache-2.0
# The Python package: the extension module beside the package's own files, importable from the build tree
# (PYTHONPATH=build/python), and what a wheel takes: component `python` is the extension, `python_runtime` all else.
set(GRAFT_PYTHON AUTO CACHE STRING "The Python package: AUTO where Python's headers and nanobind are there, ON, OFF")
if(NOT GRAFT_PYTHON OR GRAFT_SANITIZE OR GRAFT_FUZZ)
  return()
endif()
if(NOT Python_EXECUTABLE AND EXISTS ${GRAFT_PYTHON_PREFIX}/bin/python)
  set(Python_EXECUTABLE ${GRAFT_PYTHON_PREFIX}/bin/python)  # the interpreter that the tests run in
endif()
include(python_extension)
graft_find_python()
if(NOT graft_python_found)
  if(NOT GRAFT_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "graft: the Python package needs Python's headers (python3-dev) and nanobind")
  endif()
  message(STATUS "graft: no Python headers or no nanobind: the Python package is left out (./dev build brings both)")
  return()
endif()

set(package ${CMAKE_BINARY_DIR}/python/graft)
graft_python_extension(graft_python graft)
set_target_properties(graft_python PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${package})
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

set(runtime COMPONENT python_runtime EXCLUDE_FROM_ALL)
install(TARGETS graft ${modules} LIBRARY DESTINATION graft/lib NAMELINK_SKIP ${runtime})
install(TARGETS graft_command RUNTIME DESTINATION graft/bin ${runtime})
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION graft/licences ${runtime})
install(FILES ${GRAFT_ONEDNN_NOTICES} DESTINATION graft/licences/onednn ${runtime})
graft_licences(graft/licences ${graft_compiled_in} COMPONENT python_runtime)
# What `graft-host` compiles for an installed framework, and find_package(graft) in a wheel.
install(DIRECTORY src/host/torch src/host/tensorflow src/host/mxnet DESTINATION graft/hosts ${runtime})
install(DIRECTORY include/graft DESTINATION graft/include ${runtime})
install(FILES cmake/wheel/graft-config.cmake cmake/graft-host.cmake DESTINATION graft/lib/cmake/graft ${runtime})
# What a Linux of any kind may lack goes along. A wheel holds no links: each library is a file of the name that the
# loader asks for. PEP 600 says what every Linux has; the glibc that it takes is counted when a wheel is packed.
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE module_files)
install(CODE "${graft_licence_of_library}
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/graft/lib\")
  file(RENAME \"\${folder}/$<TARGET_FILE_NAME:graft>\" \"\${folder}/$<TARGET_SONAME_FILE_NAME:graft>\")
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES $<TARGET_FILE:graft_command> LIBRARIES $<TARGET_FILE:graft> ${module_files}
    RESOLVED_DEPENDENCIES_VAR found PRE_EXCLUDE_REGEXES
    \"^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\\\\+\\\\+|libz)\\\\.so\")
  foreach(library \${found})
    get_filename_component(name \${library} NAME)
    file(REAL_PATH \${library} file)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/graft/lib\" TYPE PROGRAM
      RENAME \${name} FILES \${file})
    graft_licence_of(\${file} \"\${CMAKE_INSTALL_PREFIX}/graft/licences\")
  endforeach()" ${runtime})
