// Output against the files in tests/golden. CULPRIT_APPROVE=1 rewrites them.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/support/text.h"

namespace culprit::test {

inline void check_golden(const std::string& name, const std::string& found) {
  const std::string path = std::string(CULPRIT_GOLDEN_DIR) + "/" + name;
  if (std::getenv("CULPRIT_APPROVE") != nullptr) {
    std::ofstream(path) << found;
    return;
  }
  const std::string expected = file_text(path);
  INFO(path << " differs; CULPRIT_APPROVE=1 rewrites it");
  CHECK(found == expected);
}

}  // namespace culprit::test
