# The files with which other build systems find the installed programs. Their paths are relative, so that the installed tree
# can be moved. interpose/ and report/ install the programs themselves.
include(CMakePackageConfigHelpers)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/culprit-config.cmake.in ${PROJECT_BINARY_DIR}/culprit-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/culprit
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/culprit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/culprit-config.cmake ${PROJECT_BINARY_DIR}/culprit-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/culprit-add-test.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/culprit)

file(RELATIVE_PATH culprit_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" culprit_pc_to_prefix ${culprit_pc_to_prefix})
configure_file(${CMAKE_CURRENT_LIST_DIR}/culprit.pc.in ${PROJECT_BINARY_DIR}/culprit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/culprit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# All that `cmake --install` takes, for tests that install the build.
add_custom_target(culprit_installed DEPENDS culprit libculprit)
foreach(target culprit_completion_scripts culprit_man_pages)
  if(TARGET ${target})
    add_dependencies(culprit_installed ${target})
  endif()
endforeach()

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# README's links to them work there.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN "__pycache__" EXCLUDE)
