# The manual pages culprit.1 and libculprit.so.7: made at build from the help texts of the command and from options.def,
# installed into share/man. Without Python, with a command that cannot run here (cross-compilation), and in builds for the
# unit tests under a sanitizer there are none.
find_package(Python3 3.9 COMPONENTS Interpreter)
set(culprit_man_folder ${PROJECT_BINARY_DIR}/man)
if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR CULPRIT_SANITIZE)
  message(STATUS "culprit: no manual pages in this build")
  return()
endif()
set(options ${PROJECT_SOURCE_DIR}/interpose/recorder/options.def)
set(script ${PROJECT_SOURCE_DIR}/scripts/man_pages.py)
add_custom_command(
  OUTPUT ${culprit_man_folder}/culprit.1 ${culprit_man_folder}/libculprit.so.7
  COMMAND Python3::Interpreter ${script} --culprit $<TARGET_FILE:culprit> --options ${options}
          --version ${PROJECT_VERSION} --output ${culprit_man_folder}
  DEPENDS culprit ${options} ${script}
  COMMENT "Making the manual pages"
  VERBATIM)
add_custom_target(culprit_man_pages ALL DEPENDS ${culprit_man_folder}/culprit.1 ${culprit_man_folder}/libculprit.so.7)
install(FILES ${culprit_man_folder}/culprit.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${culprit_man_folder}/libculprit.so.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)

if(CULPRIT_BUILD_TESTS)
  add_test(NAME "unit: manual pages"
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/package/man_pages_test.py $<TARGET_FILE:culprit>
                   ${options} ${culprit_man_folder})
  culprit_test_needs("unit: manual pages" culprit_man_pages)
  set_tests_properties("unit: manual pages" PROPERTIES LABELS unit TIMEOUT 60)
endif()
