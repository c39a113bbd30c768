# The scripts by which shells complete command lines, made by the built command from its tables of options, and installed
# where bash-completion, zsh and fish look. With a command that cannot run here there are none.
if(CMAKE_CROSSCOMPILING OR CULPRIT_SANITIZE)
  return()
endif()
set(culprit_completion ${PROJECT_BINARY_DIR}/completion)
file(MAKE_DIRECTORY ${culprit_completion})
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${culprit_completion}/${shell} COMMAND culprit completion ${shell} > ${culprit_completion}/${shell}
                     DEPENDS culprit COMMENT "Making the completion for ${shell}" VERBATIM)
endforeach()
add_custom_target(culprit_completion_scripts ALL
                  DEPENDS ${culprit_completion}/bash ${culprit_completion}/zsh ${culprit_completion}/fish)
install(FILES ${culprit_completion}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME culprit)
install(FILES ${culprit_completion}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _culprit)
install(FILES ${culprit_completion}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME culprit.fish)

if(CULPRIT_BUILD_TESTS)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME "unit: completion in shells"
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/package/completion_test.py $<TARGET_FILE:culprit>
                   ${culprit_completion})
  culprit_test_needs("unit: completion in shells" culprit_completion_scripts)
  set_tests_properties("unit: completion in shells" PROPERTIES LABELS unit TIMEOUT 60)
endif()
