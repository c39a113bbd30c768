// The peak of a device: the larger of the recorded use and the reading, and which of them it is.
#include "report/model/peak_use.h"

#include <sstream>

#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A device of 1 GiB, of which `read` MiB were in use at the highest reading, and `recorded` MiB allocated at most.
std::string device_line(std::uint64_t read, std::uint64_t recorded) {
  Program program;
  DeviceRecord record = {};
  record.state = 1;
  record.first = {1, 1000 * kMiB, 1024 * kMiB};
  if (read != 0) record.peak = {2, (1024 - read) * kMiB, 1024 * kMiB};
  record.peak_live_bytes = recorded * kMiB;
  program.dump.add_device(record);
  std::ostringstream out;
  render_text({program.report()}, RenderOptions(), out);
  return out.str();
}

}  // namespace

TEST_CASE("the larger known figure is the peak, and a reading is called one", "[report][peak]") {
  CHECK(has(device_line(128, 192),
            "192 MiB at the peak, allocated by this process (the highest reading of cuMemGetInfo is 128 MiB)"));
  CHECK(has(device_line(256, 192), "256 MiB at the peak (a reading of cuMemGetInfo)"));
  CHECK(has(device_line(0, 192), "192 MiB at the peak, allocated by this process ·"));
  CHECK(has(device_line(128, 192), "24.0 MiB after the first allocation"));
  CHECK_FALSE(has(device_line(128, 192), "at the first call"));
}
