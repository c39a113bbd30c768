/* culprit/gtest.h: a GoogleTest listener that makes each test a mark, so that leaks are listed by test. Include it in
 * one file of the test program; it registers itself.
 *
 * With CULPRIT_FAIL_TESTS=1 a test that leaves memory behind fails. What SetUpTestSuite() allocates is no test's. Where
 * libculprit.so is not loaded nothing happens.
 */
#ifndef CULPRIT_GTEST_H
#define CULPRIT_GTEST_H

#include <gtest/gtest.h>

#include "test_leaks.h"

namespace culprit {

class GtestListener : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override {
    leaks_.begin(std::string(test.test_suite_name()) + "." + test.name());
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const std::string complaint = test.result()->Passed() ? leaks_.complaint() : "";
    leaks_.end();
    if (!complaint.empty()) ADD_FAILURE() << complaint;
  }

 private:
  TestLeaks leaks_;
};

namespace internal {
/* GoogleTest owns the listener. */
static const bool gtest_listener_registered = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new GtestListener);
  return true;
}();
}  // namespace internal

}  // namespace culprit

#endif /* CULPRIT_GTEST_H */
