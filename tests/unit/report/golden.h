// Output against the files in tests/golden. CULPRIT_APPROVE=1 rewrites them.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/support/line_differences.h"
#include "tests/support/text.h"

namespace culprit::test {

inline void check_golden(const std::string& name, const std::string& found) {
  const std::string path = std::string(CULPRIT_GOLDEN_DIR) + "/" + name;
  if (std::getenv("CULPRIT_APPROVE") != nullptr) {
    std::ofstream(path) << found;
    return;
  }
  const std::string expected = file_text(path);
  if (found == expected) {
    SUCCEED(name);
    return;
  }
  // Both texts together may be 100 KB: only the lines that differ are printed.
  FAIL_CHECK(path << " differs (-) from the output (+); CULPRIT_APPROVE=1 rewrites it\n"
                  << LineDifferences(expected, found).text());
}

}  // namespace culprit::test
