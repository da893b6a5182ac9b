# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/<target>.cpp becomes the libFuzzer program <target>; `./dev fuzz` runs them.
if(GRAFT_FUZZ)
  graft_sources(fuzz_sources tests/fuzz)
  foreach(source ${fuzz_sources})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE graft_core graft_warnings)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
