# The manual pages culprit.1, libculprit.so.7 and culprit-PAGE.7: made at build from the help texts of the command, from options.def
# and from report/manual/, installed into share/man. Without Python, with a command that cannot run here (cross-compilation), and in builds for the
# unit tests under a sanitizer there are none.
find_package(Python3 3.9 COMPONENTS Interpreter)
set(culprit_man_folder ${PROJECT_BINARY_DIR}/man)
if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING OR CULPRIT_SANITIZE)
  message(STATUS "culprit: no manual pages in this build")
  return()
endif()
set(options ${PROJECT_SOURCE_DIR}/interpose/process/options.def)
set(script ${PROJECT_SOURCE_DIR}/scripts/man_pages.py)
get_property(topics GLOBAL PROPERTY CULPRIT_MANUAL)
list(TRANSFORM topics PREPEND ${PROJECT_SOURCE_DIR}/report/manual/ OUTPUT_VARIABLE manual)
list(TRANSFORM manual APPEND .md)
set(section_7 ${culprit_man_folder}/libculprit.so.7)
foreach(topic ${topics})
  list(APPEND section_7 ${culprit_man_folder}/culprit-${topic}.7)
endforeach()
add_custom_command(
  OUTPUT ${culprit_man_folder}/culprit.1 ${section_7}
  COMMAND Python3::Interpreter ${script} --culprit $<TARGET_FILE:culprit> --options ${options}
          --manual ${manual} --version ${PROJECT_VERSION} --output ${culprit_man_folder}
  DEPENDS culprit ${options} ${manual} ${script}
  COMMENT "Making the manual pages"
  VERBATIM)
add_custom_target(culprit_man_pages ALL DEPENDS ${culprit_man_folder}/culprit.1 ${section_7})
install(FILES ${culprit_man_folder}/culprit.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${section_7} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)

if(CULPRIT_BUILD_TESTS)
  add_test(NAME "unit: manual pages"
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/package/man_pages_test.py $<TARGET_FILE:culprit>
                   ${options} ${culprit_man_folder})
  culprit_test_needs("unit: manual pages" culprit_man_pages)
  set_tests_properties("unit: manual pages" PROPERTIES LABELS unit TIMEOUT 60)
endif()
