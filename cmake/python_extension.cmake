# SPDX-License-Identifier: Apache-2.0
# The extension module of the Python package, for the interpreter that find_package(Python) finds: in the build tree,
# and on its own where a wheel is packed from one (tools/wheel).
get_filename_component(graft_source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# Sets graft_python_found where Python's headers and nanobind are there. A wheel of the stable ABI asks for the
# component that scikit-build-core names.
macro(graft_find_python)
  find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module
    OPTIONAL_COMPONENTS ${SKBUILD_SABI_COMPONENT})
  if(Python_Development.Module_FOUND AND NOT nanobind_ROOT)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
      OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_package(nanobind 3 QUIET CONFIG)
  set(graft_python_found FALSE)
  if(Python_Development.Module_FOUND AND nanobind_FOUND)
    set(graft_python_found TRUE)
  endif()
endmacro()

# graft_python_extension(NAME LIBRARY): what `graft._graft` is, linked with libgraft.
function(graft_python_extension name library)
  file(GLOB sources CONFIGURE_DEPENDS ${graft_source}/python/src/*.cpp)
  nanobind_add_module(${name} STABLE_ABI NB_STATIC ${sources})
  target_link_libraries(${name} PRIVATE ${library} graft_warnings)
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME _graft
    INSTALL_RPATH "$ORIGIN/lib:$ORIGIN/../../lib" INSTALL_RPATH_USE_LINK_PATH OFF)  # in a wheel, in the build tree
  install(TARGETS ${name} LIBRARY DESTINATION graft COMPONENT python EXCLUDE_FROM_ALL)
  file(GLOB licence ${nanobind_ROOT}/../../nanobind-*.dist-info/licenses/LICENSE)
  install(FILES ${licence} DESTINATION graft/licences RENAME nanobind.txt COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
