# What `cmake --install` puts where. lib/ is lib/ on every distribution: `culprit run` finds the library as ../lib/libculprit.so
# from its own place, so that the installed tree can be moved.
include(CMakePackageConfigHelpers)

if(TARGET culprit AND TARGET libculprit)
  install(TARGETS culprit RUNTIME DESTINATION bin)
  install(TARGETS libculprit LIBRARY DESTINATION lib)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/culprit-config.cmake.in culprit-config.cmake @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/culprit.pc.in culprit.pc @ONLY)
write_basic_package_version_file(culprit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/culprit-config.cmake ${PROJECT_BINARY_DIR}/culprit-config-version.cmake DESTINATION lib/cmake/culprit)
install(FILES ${PROJECT_BINARY_DIR}/culprit.pc DESTINATION lib/pkgconfig)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION share/doc/culprit)
