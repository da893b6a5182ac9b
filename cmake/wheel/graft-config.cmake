# SPDX-License-Identifier: Apache-2.0
# find_package(graft) from the Python package: the target graft::graft, and graft_host() for libraries that bring it
# into a framework. A wheel holds no links, so the library has the name that the loader asks for.
get_filename_component(graft_package ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
file(GLOB graft_library ${graft_package}/lib/libgraft.so.*)
get_filename_component(graft_soname ${graft_library} NAME)
add_library(graft::graft SHARED IMPORTED)
set_target_properties(graft::graft PROPERTIES IMPORTED_LOCATION ${graft_library} IMPORTED_SONAME ${graft_soname}
  INTERFACE_INCLUDE_DIRECTORIES ${graft_package}/include INTERFACE_COMPILE_FEATURES cxx_std_20)
include(${CMAKE_CURRENT_LIST_DIR}/graft-host.cmake)
