// Situation 12: arguments that no sane program passes, to every hooked function.
#include <algorithm>
#include <limits>

#include "tests/catch.h"
#include "tests/guest/both_ways.h"

namespace culprit::test {
namespace {

BothWays hostile(const std::string& driver) {
  Situation situation{"hostile_arguments", {driver}};
  situation.fake_driver_only = true;  // the fake driver looks at no argument
  return both_ways(situation);
}

// The largest number anywhere in `value`; negative ones count as sums that overflowed.
std::uint64_t largest(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer() && value.get<std::int64_t>() < -1) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = 0;
  if (value.is_structured()) {
    for (const nlohmann::json& part : value) most = std::max(most, largest(part));
  }
  return most;
}

}  // namespace

TEST_CASE("what a driver accepted is recorded with sizes that can exist", "[arguments]") {
  const BothWays runs = hostile("accepts");
  if (!runs.ran) return;
  const Report report = read_report(runs.under.dump());
  CHECK(report.leaked_count() > 0);
  constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 47;
  constexpr std::uint64_t kDevice = std::uint64_t{141} << 30;
  for (const Group& group : report.leaks) {
    INFO(group.api << ", " << group.kind << ": " << group.count << " with " << group.bytes << " bytes");
    CHECK(group.bytes / group.count <= kAddressSpace);
    const bool on_device = group.kind == "array" || group.kind == "mipmapped-array" || group.kind == "device" ||
                           group.kind == "stream-ordered" || group.kind == "pitched";
    if (on_device) CHECK(group.bytes / group.count <= kDevice);
  }
  // No sum of them overflowed.
  CHECK(largest(report.json.at("summary")) < std::uint64_t{1} << 62);
  CHECK(report.json.at("summary").at("leaked_bytes") == report.leaked_bytes());
}

TEST_CASE("what a driver refused adds nothing", "[arguments]") {
  for (const char* driver : {"refuses", "runs-out"}) {
    const BothWays runs = hostile(driver);
    if (!runs.ran) return;
    const Report report = read_report(runs.under.dump());
    CHECK(report.leaked_count() == 0);
    CHECK(report.json.at("summary").at("leaked_bytes") == 0);
  }
}

}  // namespace culprit::test
