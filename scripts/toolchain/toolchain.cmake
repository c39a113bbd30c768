# CMake's toolchain file for packages; scripts/build-toolchain.sh copies it into the root folder that it makes.
set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR})
set(CMAKE_C_COMPILER ${CMAKE_SYSROOT}/usr/bin/x86_64-linux-gnu-gcc-11)
set(CMAKE_CXX_COMPILER ${CMAKE_SYSROOT}/usr/bin/x86_64-linux-gnu-g++-11)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
# Libraries and headers come from the root folder only, programs from this machine.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
