# cpack -G DEB, which scripts/package.sh calls: a package for Debian and Ubuntu, whatever their version of glibc.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME culprit)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CULPRIT_MAINTAINER "the culprit authors <culprit@users.noreply.github.com>" CACHE STRING "The maintainer that the Debian package names")
set(CPACK_PACKAGE_CONTACT ${CULPRIT_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "find GPU memory that a CUDA program never gave back")
set(CPACK_PACKAGE_DESCRIPTION
"culprit runs a CUDA program with a library preloaded that records each
allocation and each free of GPU memory, and reports which memory was left
behind, who allocated it, and why it was not freed. The program is not
changed and not compiled again.")
set(CPACK_PACKAGE_VENDOR culprit)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# CULPRIT_GLIBC: the oldest glibc that has all symbols, which scripts/package.sh read from the files.
set(CULPRIT_GLIBC "2.28" CACHE STRING "The version of glibc that the Debian package depends on")
# dpkg itself needs the last three, so they are everywhere: debian_files.cmake leaves them out of the package.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${CULPRIT_GLIBC}), libstdc++6, zlib1g, liblzma5, libbz2-1.0")
# culprit-nightly and the Python package; neither is needed for `culprit run`.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS python3)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES OFF)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)
include(CPack)
