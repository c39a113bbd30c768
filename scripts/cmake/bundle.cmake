# Packages (scripts/package.sh) bring the libraries that the command needs beyond glibc, and a program to try culprit with.
set(CULPRIT_BUNDLE "" CACHE PATH "Folder of the libraries that are installed into lib/culprit/, with their licences/; empty: the system has them")
option(CULPRIT_BUILD_DEMO "Build and install what scripts/demo.sh shows: an example and the simulated driver" OFF)

if(CULPRIT_BUNDLE)
  # The command has a run path to lib/culprit, in the build tree, too.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  file(CREATE_LINK ${CULPRIT_BUNDLE} ${PROJECT_BINARY_DIR}/lib/culprit SYMBOLIC)
  install(DIRECTORY ${CULPRIT_BUNDLE}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/culprit PATTERN licences EXCLUDE)
  install(DIRECTORY ${CULPRIT_BUNDLE}/licences DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${CULPRIT_DEPS}/libunwind/COPYING DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME libunwind)
  install(FILES ${CULPRIT_DEPS}/decompressors/licences/zstd ${CULPRIT_DEPS}/decompressors/licences/lz4 DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
  foreach(name prometheus-cpp civetweb)
    install(FILES ${CULPRIT_DEPS}/prometheus/LICENSE.${name} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${name})
  endforeach()
endif()

if(CULPRIT_BUILD_DEMO)
  set(demo ${CMAKE_INSTALL_LIBDIR}/culprit/demo)
  if(NOT TARGET simcuda)
    add_subdirectory(${PROJECT_SOURCE_DIR}/tests/simcuda ${PROJECT_BINARY_DIR}/tests/simcuda EXCLUDE_FROM_ALL)
  endif()
  add_library(culprit_demo_object OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/examples/out_of_memory_exception.cpp)
  target_include_directories(culprit_demo_object PRIVATE ${CULPRIT_CUDA_INCLUDE})
  # The report names lines, whatever the build type.
  target_compile_options(culprit_demo_object PRIVATE -g)
  target_link_libraries(culprit_demo_object PRIVATE culprit_warnings)
  add_executable(culprit_demo $<TARGET_OBJECTS:culprit_demo_object>)
  find_package(Threads REQUIRED)
  target_link_libraries(culprit_demo PRIVATE simcudart Threads::Threads)
  # Runs on the simulated driver, unless LD_LIBRARY_PATH names a folder with another runtime.
  set_target_properties(culprit_demo PROPERTIES OUTPUT_NAME out_of_memory_exception
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/demo INSTALL_RPATH "$ORIGIN/driver")
  set_target_properties(simcudart PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS culprit_demo RUNTIME DESTINATION ${demo})
  install(TARGETS simcuda simcudart LIBRARY DESTINATION ${demo}/driver NAMELINK_SKIP
          PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
endif()
