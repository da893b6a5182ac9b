# SPDX-License-Identifier: Apache-2.0
# `cmake --install build`: a tree that can be moved, with find_package(graft) and what the modules
# need beside them.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/graft)

install(TARGETS graft EXPORT graft-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
graft_licences(${CMAKE_INSTALL_DOCDIR}/licences ${graft_compiled_in})
if(modules)
  install(TARGETS ${modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET graft_command)
  install(TARGETS graft_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES docs/graft.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES tools/completion/graft.bash RENAME graft
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES tools/completion/_graft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES tools/completion/graft.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
if(TARGET graft_onednn)
  set(onednn_users graft_onednn)
  if(TARGET graft_onednn_tests)
    list(APPEND onednn_users graft_onednn_tests)
  endif()
  graft_carry(DNNL::dnnl ${onednn_users})
  install(FILES ${GRAFT_ONEDNN_NOTICES} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences/onednn)
endif()

install(EXPORT graft-targets NAMESPACE graft:: FILE graft-targets.cmake
  DESTINATION ${package_folder})
configure_package_config_file(cmake/graft-config.cmake.in ${CMAKE_BINARY_DIR}/graft-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/graft-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/graft-config.cmake ${CMAKE_BINARY_DIR}/graft-config-version.cmake
  cmake/graft-host.cmake DESTINATION ${package_folder})

# `pkg-config graft`, from wherever the tree lies.
file(RELATIVE_PATH graft_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" graft_pc_prefix ${graft_pc_prefix})
configure_file(cmake/graft.pc.in ${CMAKE_BINARY_DIR}/graft.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/graft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
