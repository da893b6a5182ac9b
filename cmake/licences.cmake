# SPDX-License-Identifier: Apache-2.0
# The licences of what others wrote and an installed tree or a wheel holds, as texts beside the libraries: of what is
# compiled into ours, and, where shared libraries are carried along, of these. They are read where Debian's packages
# have them.
set(graft_documentation /usr/share/doc)

# graft_licences(FOLDER PACKAGE... [COMPONENT ...]): the texts of packages that are compiled in, as FOLDER/PACKAGE.txt.
function(graft_licences folder)
  cmake_parse_arguments(arg "" "COMPONENT" "" ${ARGN})
  set(component)
  if(arg_COMPONENT)
    set(component COMPONENT ${arg_COMPONENT} EXCLUDE_FROM_ALL)
  endif()
  foreach(package ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(text ${graft_documentation}/${package}/copyright REALPATH)
    if(EXISTS ${text})
      install(FILES ${text} DESTINATION ${folder} RENAME ${package}.txt ${component})
    else()
      message(STATUS "graft: no ${graft_documentation}/${package}/copyright: what is installed lacks that licence")
    endif()
  endforeach()
endfunction()

set(graft_compiled_in libspdlog-dev nlohmann-json3-dev libcli11-dev libflatbuffers-dev)
if(LLVM_FOUND AND NOT GRAFT_LLVM_LIBRARIES STREQUAL "LLVM")  # LLVM's archives, not its library
  list(APPEND graft_compiled_in llvm-${LLVM_VERSION_MAJOR}-dev)
  if(GRAFT_ZSTD_LIBRARY MATCHES "\\.a$")
    list(APPEND graft_compiled_in libzstd-dev)
  endif()
endif()

# Run while installing, as `graft_licence_of(FILE FOLDER)`: the text of the package that a shared library comes from.
# Packages older than the merge of /lib into /usr/lib list their files without /usr.
set(graft_licence_of_library "
  function(graft_licence_of file folder)
    string(REGEX REPLACE \"^/usr\" \"\" unmerged \"\${file}\")
    execute_process(COMMAND dpkg-query -S \"\${file}\" \"\${unmerged}\" OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX MATCH \"^[^:]+\" package \"\${owner}\")
    file(REAL_PATH \"${graft_documentation}/\${package}/copyright\" text)
    if(package AND EXISTS \"\${text}\")
      file(INSTALL DESTINATION \"\${folder}\" TYPE FILE RENAME \${package}.txt FILES \"\${text}\")
    endif()
  endfunction()")
