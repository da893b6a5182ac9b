# SPDX-License-Identifier: Apache-2.0
# tests/fuzz/<target>.cpp becomes the libFuzzer program <target>; `./dev fuzz` runs them. What targets share lies in
# tests/fuzz/shared; tensors, arenas and scratch memory of theirs lie between pages that nobody may touch.
if(GRAFT_FUZZ)
  graft_sources(fuzz_shared tests/fuzz/shared)
  add_library(graft_fuzz_shared STATIC ${fuzz_shared}
    ${CMAKE_SOURCE_DIR}/tests/support/graph_def_text.cpp ${CMAKE_SOURCE_DIR}/tests/support/sample_case.cpp
    ${CMAKE_SOURCE_DIR}/tests/support/saved_model_files.cpp ${CMAKE_SOURCE_DIR}/tests/support/stored_archive.cpp
    ${CMAKE_SOURCE_DIR}/tests/support/text_network.cpp)
  target_include_directories(graft_fuzz_shared PUBLIC ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/tests/fuzz)
  target_link_libraries(graft_fuzz_shared PUBLIC graft_everything graft_warnings nlohmann_json::nlohmann_json)
  # The core asks for them behind this library: they are taken from it by name.
  target_link_options(graft_fuzz_shared INTERFACE -Wl,--wrap=aligned_alloc -Wl,--wrap=free
    -Wl,--undefined=__wrap_aligned_alloc -Wl,--undefined=__wrap_free)
  foreach(module llvm onednn)
    if(TARGET graft_${module})
      add_dependencies(graft_fuzz_shared graft_${module})  # opened when a network is compiled
    endif()
  endforeach()
  graft_sources(fuzz_sources tests/fuzz)
  foreach(source ${fuzz_sources})
    get_filename_component(name ${source} NAME_WE)
    unset(module)  # whose functions the target calls
    if(name STREQUAL "decode_image")
      set(module graft_image_objects)
    elseif(name STREQUAL "match_text")
      set(module graft_text_objects)
    endif()
    if(module AND NOT TARGET ${module})
      continue()
    endif()
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE graft_fuzz_shared ${module})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
