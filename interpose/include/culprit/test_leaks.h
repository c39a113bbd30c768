/* The common part of culprit/catch2.h and culprit/gtest.h: a mark for each test, and the memory it left behind. */
#ifndef CULPRIT_TEST_LEAKS_H
#define CULPRIT_TEST_LEAKS_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "../culprit.h"

namespace culprit {

/* Whether a test that leaves memory behind fails: CULPRIT_FAIL_TESTS=1 is in the environment, as
 * culprit_add_test(... FAIL_TESTS) sets it. */
inline bool leaking_tests_fail() {
  const char* value = std::getenv("CULPRIT_FAIL_TESTS");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

/* One run of a test, from begin() to end(). */
class TestLeaks {
 public:
  void begin(const std::string& name) {
    culprit_mark_push((CULPRIT_TEST_PREFIX + name).c_str());
    since_ = culprit_now();
    not_recorded_ = culprit_not_recorded();
  }
  void end() { culprit_mark_pop(); }

  /* A sentence about the memory that the test has left behind so far, or that this is not known. Empty: there is none,
   * or tests that leak pass. */
  std::string complaint() const {
    if (culprit_version() == 0 || !leaking_tests_fail()) return "";
    const std::uint64_t missing = culprit_not_recorded();
    if (missing != not_recorded_ || missing == UINT64_MAX)
      return "culprit: it is not known whether the test left GPU memory behind, because not everything was recorded";
    std::uint64_t count = 0;
    const std::uint64_t bytes = culprit_live_bytes_since(since_, &count);
    if (count == 0) return "";
    return "culprit: the test left " + std::to_string(bytes) + " bytes of GPU memory in " + std::to_string(count) +
           (count == 1 ? " allocation" : " allocations") + " behind; the report at the end says where they were made";
  }

 private:
  std::uint64_t since_ = 0;
  std::uint64_t not_recorded_ = 0;
};

}  // namespace culprit

#endif /* CULPRIT_TEST_LEAKS_H */
