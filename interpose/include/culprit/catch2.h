/* culprit/catch2.h: a Catch2 listener (version 2 and 3) that opens a mark for each test case, so that reports list
 * leaks by test:
 *
 *     #define CATCH_CONFIG_MAIN              // version 2: in the one file that has Catch2's main(), or in another one
 *     #include <catch2/catch.hpp>            // with CATCH_CONFIG_EXTERNAL_INTERFACES
 *     #include <culprit/catch2.h>
 *
 *     #include <catch2/catch_all.hpp>        // version 3: in any one file
 *     #include <culprit/catch2.h>
 *
 * With CULPRIT_FAIL_TESTS=1 a test case that leaves memory behind fails. Without libculprit.so the listener does
 * nothing.
 */
#ifndef CULPRIT_CATCH2_H
#define CULPRIT_CATCH2_H

#include "test_leaks.h"

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
#define CULPRIT_CATCH2_BASE Catch::EventListenerBase
#else
#define CULPRIT_CATCH2_BASE Catch::TestEventListenerBase
#endif

namespace culprit {

class Catch2Listener : public CULPRIT_CATCH2_BASE {
  using Base = CULPRIT_CATCH2_BASE;

 public:
  using Base::Base;

  /* A test case with sections runs several times. Each run begins with a section that is the test case itself. The end
   * of that section is the last moment at which Catch2 counts assertions, so leaks are counted there. */
  void testCaseStarting(Catch::TestCaseInfo const& test) override {
    Base::testCaseStarting(test);
    name_ = test.name;
    depth_ = 0;
  }
  void sectionStarting(Catch::SectionInfo const& section) override {
    Base::sectionStarting(section);
    if (depth_++ == 0) leaks_.begin(name_);
  }
  void sectionEnded(Catch::SectionStats const& stats) override {
    if (--depth_ == 0) {
      const std::string complaint = stats.assertions.failed == 0 ? leaks_.complaint() : "";
      leaks_.end();
      /* FAIL_CHECK(complaint). The macro's name may have a prefix. */
      if (!complaint.empty()) {
        INTERNAL_CATCH_MSG("CULPRIT", Catch::ResultWas::ExplicitFailure, Catch::ResultDisposition::ContinueOnFailure,
                           complaint);
      }
    }
    Base::sectionEnded(stats);
  }

 private:
  std::string name_;
  int depth_ = 0;
  TestLeaks leaks_;
};

CATCH_REGISTER_LISTENER(Catch2Listener)

}  // namespace culprit

#undef CULPRIT_CATCH2_BASE

#endif /* CULPRIT_CATCH2_H */
