/* culprit/catch2.h: a Catch2 listener (version 2 and 3) that makes each test case a mark, so that leaks are listed by
 * test:
 *
 *     #define CATCH_CONFIG_MAIN              // version 2: in the one file that has Catch2's main()
 *     #include <catch2/catch.hpp>
 *     #include <culprit/catch2.h>
 *
 *     #include <catch2/catch_all.hpp>        // version 3: in any one file
 *     #include <culprit/catch2.h>
 *
 * With CULPRIT_FAIL_TESTS=1 a test case that leaves memory behind fails. Where libculprit.so is not loaded nothing
 * happens.
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

  /* A test case with sections runs several times. Each run begins with a section that is the test case itself, and is
   * looked at when that ends: Catch2 still counts assertions then. */
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
      /* FAIL_CHECK, whatever prefix Catch2's macros have. */
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
