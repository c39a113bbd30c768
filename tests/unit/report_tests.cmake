# The unit tests of report/: included by report/CMakeLists.txt.
find_package(Catch2 REQUIRED)
include(Catch)
set(unit ${PROJECT_SOURCE_DIR}/tests/unit)

add_library(dump_builder STATIC ${unit}/dump_builder.cpp)
target_link_libraries(dump_builder PUBLIC culprit_warnings culprit_sanitizer)

# A program whose addresses the symbolizer is asked about: as it was built, at a fixed address, without symbols, and with its debug
# information in another file.
set(subject ${PROJECT_BINARY_DIR}/report_subject)
file(MAKE_DIRECTORY ${subject} ${subject}/debug)
function(add_symbol_subject name)
  add_executable(${name} ${unit}/symbol_subject.cpp)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  target_compile_options(${name} PRIVATE -g -O2 ${ARGN})
  target_link_options(${name} PRIVATE -rdynamic ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${subject} BUILD_RPATH "")
endfunction()
add_symbol_subject(symbol_subject -fPIE -pie -Wl,--build-id=sha1)
add_symbol_subject(symbol_subject_fixed -fno-pie -no-pie)
add_custom_command(TARGET symbol_subject POST_BUILD
  COMMAND ${CMAKE_OBJCOPY} --strip-all $<TARGET_FILE:symbol_subject> ${subject}/stripped
  COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:symbol_subject> ${subject}/debug/split.debug
  COMMAND ${CMAKE_OBJCOPY} --strip-all --add-gnu-debuglink=${subject}/debug/split.debug $<TARGET_FILE:symbol_subject> ${subject}/split
  VERBATIM)

# A libnvidia-ml.so.1 for `culprit doctor`.
add_library(fake_nvml MODULE ${unit}/fake_nvml.cpp)
target_link_libraries(fake_nvml PRIVATE culprit_warnings)

add_executable(report_unit_test
  ${unit}/attach_refusals_test.cpp
  ${unit}/doctor_holders_test.cpp
  ${unit}/doctor_unseen_test.cpp
  ${unit}/report_causes_test.cpp
  ${unit}/report_child_test.cpp
  ${unit}/report_cli_test.cpp
  ${unit}/report_diff_test.cpp
  ${unit}/report_golden_test.cpp
  ${unit}/report_html_test.cpp
  ${unit}/report_judge_test.cpp
  ${unit}/report_lists_test.cpp
  ${unit}/report_merge_test.cpp
  ${unit}/report_names_test.cpp
  ${unit}/report_not_recorded_test.cpp
  ${unit}/report_parallel_test.cpp
  ${unit}/report_pictures_test.cpp
  ${unit}/report_pools_test.cpp
  ${unit}/report_process_status_test.cpp
  ${unit}/report_reader_test.cpp
  ${unit}/report_selection_test.cpp
  ${unit}/report_stacks_test.cpp
  ${unit}/report_source_test.cpp
  ${unit}/report_symbolizer_test.cpp
  ${unit}/report_suppressions_test.cpp
  ${unit}/report_tables_test.cpp
)
target_link_libraries(report_unit_test PRIVATE culprit_test_main culprit_quick_to_compile culprit_report dump_builder nlohmann_json::nlohmann_json Catch2::Catch2)
target_compile_definitions(report_unit_test PRIVATE
  CULPRIT_COMMAND="$<TARGET_FILE:culprit>"
  CULPRIT_FAKE_NVML_LIBRARY="$<TARGET_FILE:fake_nvml>"
  CULPRIT_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
  CULPRIT_SUBJECT_DIR="${subject}")
add_dependencies(report_unit_test culprit fake_nvml symbol_subject symbol_subject_fixed)
catch_discover_tests(report_unit_test TEST_PREFIX "unit: " PROPERTIES LABELS unit TIMEOUT 60)

find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME "unit: formats_test.py" COMMAND Python3::Interpreter ${unit}/formats_test.py ${PROJECT_SOURCE_DIR}/tests/golden
         ${CULPRIT_DEPS}/format-readers)
set_tests_properties("unit: formats_test.py" PROPERTIES LABELS unit TIMEOUT 120)
