# SPDX-License-Identifier: Apache-2.0
# What find_package(graft) gives to projects that bring engines into a framework.

# graft_host(NAME [LIBRARY...] [FOLDER folder]): libNAME.so of this folder's .cpp files, with Graft and the framework's
# libraries, and its installation beside Graft, or in a folder there. Nothing of it shows but what is exported on
# purpose: a process has other libraries too.
function(graft_host name)
  cmake_parse_arguments(arg "" "FOLDER" "" ${ARGN})
  include(GNUInstallDirs)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release PARENT_SCOPE)
  endif()
  # With assertions TensorFlow's headers want functions that its wheels do not export.
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" PARENT_SCOPE)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(${name} SHARED ${sources})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_link_libraries(${name} PUBLIC graft::graft ${arg_UNPARSED_ARGUMENTS})
  # In an installed tree Graft lies beside it; the framework's libraries are those that the process has loaded.
  string(REGEX REPLACE "/?([^/]+)" "/.." upwards "${arg_FOLDER}")
  set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN${upwards}" INSTALL_RPATH_USE_LINK_PATH ON)
  set(optional "")
  if(arg_FOLDER AND CMAKE_LIBRARY_OUTPUT_DIRECTORY)  # built with Graft: it lies as it will be installed, if it is built
    set_target_properties(${name} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${arg_FOLDER} INSTALL_RPATH_USE_LINK_PATH OFF)
    set(optional OPTIONAL)
  endif()
  install(TARGETS ${name} EXPORT ${name}-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/${arg_FOLDER} ${optional})
endfunction()
