# SPDX-License-Identifier: Apache-2.0
# The kinds of target that CMakeLists.txt is made of.

# Sets OUT to the .cpp files of the given folders; a folder may be empty or not there yet.
function(graft_sources out)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM ARGN APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS ${ARGN})
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# Sets OUT to what protoc and flatc make from src/**/*.proto and *.fbs. The generated headers are
# included by the path of their source: "import/onnx/onnx.pb.h", "engine/plan_generated.h". Beside them a header
# that identifies the sources which modules share with the core.
function(graft_generated out)
  set(root ${CMAKE_SOURCE_DIR}/src)
  set(generated ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  file(GLOB_RECURSE protos CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.proto)
  foreach(proto ${protos})
    string(REGEX REPLACE "\\.proto$" ".pb" stem ${generated}/${proto})
    add_custom_command(OUTPUT ${stem}.cc ${stem}.h DEPENDS ${root}/${proto}
      COMMAND protobuf::protoc -I ${root} --cpp_out=${generated} ${proto} WORKING_DIRECTORY ${root})
    set_source_files_properties(${stem}.cc PROPERTIES COMPILE_OPTIONS -w)
    list(APPEND outputs ${stem}.cc ${stem}.h)
  endforeach()
  file(GLOB_RECURSE schemas CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.fbs)
  foreach(schema ${schemas})
    string(REGEX REPLACE "\\.fbs$" "_generated.h" header ${generated}/${schema})
    get_filename_component(folder ${header} DIRECTORY)
    add_custom_command(OUTPUT ${header} DEPENDS ${root}/${schema}
      COMMAND ${GRAFT_FLATC} --cpp --scoped-enums -o ${folder} ${root}/${schema})
    list(APPEND outputs ${header})
  endforeach()
  set(identity ${generated}/base/source_identity.h)
  set(script ${CMAKE_SOURCE_DIR}/cmake/source_identity.cmake)
  file(GLOB_RECURSE hashed CONFIGURE_DEPENDS LIST_DIRECTORIES false ${root}/base/* ${root}/expr/* ${root}/target/*
    ${root}/tile/* ${root}/codegen/* ${root}/library/* ${root}/kernels/*.h ${root}/graph/graph.h)
  add_custom_command(OUTPUT ${identity} DEPENDS ${hashed} ${script}
    COMMAND ${CMAKE_COMMAND} -D SOURCES=${root} -D HEADER=${identity} -P ${script} VERBATIM)
  list(APPEND outputs ${identity})
  set(${out} ${outputs} PARENT_SCOPE)
endfunction()

# What our static libraries, and what is linked with them, are compiled and linked with.
add_library(graft_usage INTERFACE)
target_include_directories(graft_usage INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_include_directories(graft_usage SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated
  ${GRAFT_FLATBUFFERS_INCLUDE} ${GRAFT_XXHASH_INCLUDE})
target_compile_definitions(graft_usage INTERFACE GRAFT_VERSION="${PROJECT_VERSION}")
target_link_libraries(graft_usage INTERFACE fmt::fmt spdlog::spdlog protobuf::libprotobuf-lite
  ${GRAFT_XXHASH_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})

# graft_precompile(NAME [HEADER...]): headers that most of a target's files read, and the given ones, are parsed once.
# `ccache` keeps objects that read them where its variables are set as ./dev sets them.
function(graft_precompile name)
  target_precompile_headers(${name} PRIVATE <algorithm> <cmath> <cstring> <functional> <limits> <map> <memory>
    <numeric> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
    <fmt/format.h> ${ARGN})
endfunction()

# Files of a folder that go together are compiled together, which takes half the time. batches.py writes down which,
# where the build is configured and where ./dev builds.
if(GRAFT_BATCHES AND GRAFT_PYTHON3)
  set(batches ${CMAKE_BINARY_DIR}/batches.cmake)
  file(GLOB_RECURSE folders CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/*.cpp tests/*.cpp tools/graft/*.cpp)
  list(TRANSFORM folders REPLACE "/[^/]*$" "")
  list(REMOVE_DUPLICATES folders)
  list(FILTER folders EXCLUDE REGEX "^(src/host|tests/fuzz|tests/emulator/device)")  # of files that are whole programs
  execute_process(COMMAND ${GRAFT_PYTHON3} ${CMAKE_SOURCE_DIR}/cmake/batches.py ${batches} ${folders}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${batches})
  include(${batches})
endif()
# graft_batched(NAME): the target compiles each batch of its sources, those without options of their own, as one file,
# which includes them by relative paths: `ccache` then finds what another checkout compiled.
function(graft_batched name)
  get_target_property(sources ${name} SOURCES)
  set(names "")
  set(compiled "")
  foreach(source ${sources})
    get_source_file_property(batch ${source} GRAFT_BATCH)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(batch AND NOT options)
      list(APPEND names ${batch})
      list(APPEND batch_${batch} ${source})
    else()
      list(APPEND compiled ${source})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  file(REAL_PATH ${CMAKE_BINARY_DIR} build)
  foreach(batch ${names})
    set(text "")
    foreach(source ${batch_${batch}})
      file(REAL_PATH ${source} source)
      file(RELATIVE_PATH source ${build}/batches/${name} ${source})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    file(CONFIGURE OUTPUT ${build}/batches/${name}/${batch}.cpp CONTENT "${text}")
    list(APPEND compiled ${build}/batches/${name}/${batch}.cpp)
  endforeach()
  set_property(TARGET ${name} PROPERTY SOURCES ${compiled})
endfunction()

# A static library of ours.
function(graft_archive name)
  add_library(${name} STATIC ${ARGN})
  target_compile_definitions(${name} PRIVATE GRAFT_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
  target_link_libraries(${name} PUBLIC graft_usage PRIVATE graft_warnings nlohmann_json::nlohmann_json)
  graft_precompile(${name})
  graft_batched(${name})
endfunction()

# Gives a shared library its exported names, and lets it find its neighbours wherever it is moved.
function(graft_seal name exports)
  set(script ${CMAKE_SOURCE_DIR}/cmake/${exports})
  target_link_options(${name} PRIVATE -Wl,--version-script=${script})
  if(NOT GRAFT_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${script} INSTALL_RPATH "$ORIGIN")
endfunction()

# graft_public_library(NAME LINKS ARCHIVE... [SOURCES FILE...]): the whole of the archives behind the public headers,
# and files of its own.
function(graft_public_library name)
  cmake_parse_arguments(arg "" "" "LINKS;SOURCES" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} SHARED ${CMAKE_BINARY_DIR}/${name}.cpp ${arg_SOURCES})
  add_library(graft::${name} ALIAS ${name})
  foreach(archive ${arg_LINKS})
    target_link_libraries(${name} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${archive}>)
  endforeach()
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_target_properties(${name} PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR}
    VERSION ${PROJECT_VERSION})
  graft_seal(${name} public_exports.map)
endfunction()

# graft_module(NAME FOLDER [WHEN VARIABLE] [LINKS ...] [INCLUDES ...] [PRECOMPILES HEADER...]): libgraft_NAME.so from
# FOLDER, opened at run time, with its own hidden copy of the core. Its objects are also a library, for the module's
# tests. It is left out where the variable is false, and its name is known all the same: tests of that name are left out
# with it.
function(graft_module name folder)
  cmake_parse_arguments(arg "" "WHEN" "LINKS;INCLUDES;PRECOMPILES" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY graft_module_names ${name})
  graft_sources(sources ${folder})
  if(NOT sources OR (arg_WHEN AND NOT ${arg_WHEN}))
    return()
  endif()
  add_library(graft_${name}_objects OBJECT ${sources})
  target_link_libraries(graft_${name}_objects PUBLIC graft_core ${arg_LINKS} PRIVATE graft_warnings)
  graft_precompile(graft_${name}_objects ${arg_PRECOMPILES})
  graft_batched(graft_${name}_objects)
  target_include_directories(graft_${name}_objects SYSTEM PUBLIC ${arg_INCLUDES})
  add_library(graft_${name} SHARED $<TARGET_OBJECTS:graft_${name}_objects>
    ${CMAKE_SOURCE_DIR}/src/modules/module_version.cpp)
  set_target_properties(graft_${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(graft_${name} PRIVATE graft_core ${arg_LINKS})
  graft_seal(graft_${name} module_exports.map)
  set_property(GLOBAL APPEND PROPERTY graft_modules graft_${name})
endfunction()

# graft_carry(LIBRARY TARGET...): the library lies beside ours, in the build tree as in an installed one, and the
# targets look for it nowhere else.
function(graft_carry library)
  get_target_property(file ${library} IMPORTED_LOCATION_RELEASE)
  get_target_property(soname ${library} IMPORTED_SONAME_RELEASE)
  file(MAKE_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
  file(CREATE_LINK ${file} ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/${soname} SYMBOLIC)
  install(PROGRAMS ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME ${soname})
  set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH_USE_LINK_PATH OFF)
endfunction()
