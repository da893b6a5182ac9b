# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCES=src -D HEADER=FILE -P source_identity.cmake: the sources that modules share with the core, as one
# number. Texts go between them, and kernels are kept under it.
file(GLOB_RECURSE files LIST_DIRECTORIES false ${SOURCES}/base/* ${SOURCES}/expr/* ${SOURCES}/target/*
  ${SOURCES}/tile/* ${SOURCES}/codegen/* ${SOURCES}/library/*)
list(SORT files)
set(hashes "")
foreach(file ${files})
  file(SHA256 ${file} hash)
  file(RELATIVE_PATH name ${SOURCES} ${file})
  string(APPEND hashes "${name} ${hash}\n")
endforeach()
string(SHA256 identity "${hashes}")
string(SUBSTRING ${identity} 0 16 identity)
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define GRAFT_SOURCES \"${identity}\"\n")  # unchanged when equal
