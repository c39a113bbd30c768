# The needs of each test, for scripts/test.sh -R and -L, which build only that (scripts/test_targets.py). A test needs the built
# files among the arguments of its command. Other needs, and the tests that ctest learns of after the build, are written down
# here and go to test_needs.txt of the build.

# culprit_test_needs(TEST TARGET...): also for a test that has a folder of the build as an argument, which could mean all of it.
function(culprit_test_needs test)
  list(JOIN ARGN "\t" targets)
  set_property(GLOBAL APPEND_STRING PROPERTY CULPRIT_TEST_NEEDS "test\t${test}\t${targets}\n")
endfunction()

# culprit_discover_tests(TARGET LABEL PROPERTY VALUE...): one ctest entry, "LABEL:NAME", for each TEST_CASE of a test program.
# CMake would cut a name with a semicolon in two; Catch2 calls a run without a test a success unless it is asked to warn.
function(culprit_discover_tests target label)
  include(Catch)
  catch_discover_tests(${target} TEST_PREFIX "${label}:" EXTRA_ARGS --warn NoTests PROPERTIES LABELS ${label} ${ARGN})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^\\$<")
  list(TRANSFORM sources PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" REGEX "^[^/]")
  list(JOIN sources "\t" sources)
  set_property(GLOBAL APPEND_STRING PROPERTY CULPRIT_TEST_NEEDS "catch\t${target}\t${label}\t${sources}\n")
endfunction()

function(culprit_write_test_needs)
  get_property(needs GLOBAL PROPERTY CULPRIT_TEST_NEEDS)
  file(WRITE ${PROJECT_BINARY_DIR}/test_needs.txt "${needs}")
endfunction()
