/* culprit/gtest.h: a GoogleTest listener that opens a mark for each test, so that reports list leaks by test. Include
 * the header in one file of the test program; the listener registers itself.
 *
 * With CULPRIT_FAIL_TESTS=1 a test that leaves memory behind fails. Allocations of SetUpTestSuite() count for no test.
 * Without libculprit.so the listener does nothing.
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
