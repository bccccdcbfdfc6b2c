# Installing: programs, both libraries, headers, delta.pc, the CMake package; and the target `uninstall`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS delta_static delta_shared EXPORT delta-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(delta_programs)
  install(TARGETS ${delta_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET delta_cuda)
  install(TARGETS delta_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/delta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/delta FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE NOTICE CHANGELOG.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# delta.pc finds its prefix from its own place, so that `cmake --install --prefix` may choose another one.
set(delta_pkgconfig_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH delta_prefix_from_pc /prefix/${delta_pkgconfig_folder} /prefix)
configure_file(cmake/delta.pc.in delta.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/delta.pc DESTINATION ${delta_pkgconfig_folder})

set(delta_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/delta)
install(EXPORT delta-targets NAMESPACE delta:: DESTINATION ${delta_package_folder})
configure_file(cmake/delta-config.cmake.in delta-config.cmake @ONLY)
write_basic_package_version_file(delta-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/delta-config.cmake ${PROJECT_BINARY_DIR}/delta-config-version.cmake
        DESTINATION ${delta_package_folder})

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
                  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
