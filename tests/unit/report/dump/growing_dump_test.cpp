// A dump that is followed while its process writes it.
#include "report/dump/growing_dump.h"

#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/support/dump_builder.h"
#include "tests/support/temporary_folder.h"

using namespace culprit::report;
using namespace culprit::test;

namespace {

culprit::format::BreakdownRecord breakdown_of(culprit::format::BreakdownReason reason, std::uint64_t time_ns) {
  culprit::format::BreakdownRecord breakdown = {};
  breakdown.state = 1;
  breakdown.reason = reason;
  breakdown.time_ns = time_ns;
  return breakdown;
}

}  // namespace

TEST_CASE("failures are seen as a dump grows", "[report][growing]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  GrowingDump growing(path);
  CHECK_FALSE(growing.look());
  DumpBuilder builder;
  culprit::format::DeviceRecord device = {};
  device.state = 1;
  device.ordinal = 3;
  builder.add_device(device);
  builder.write(path);
  REQUIRE(growing.look());
  REQUIRE(growing.devices().size() == 1);
  CHECK(growing.devices()[0].ordinal == 3);
  CHECK(growing.failures().empty());
  builder.add_breakdown(breakdown_of(culprit::format::BreakdownReason::kPeak, 5));
  builder.add_breakdown(breakdown_of(culprit::format::BreakdownReason::kOutOfMemory, 7));
  culprit::format::BreakdownRecord empty = breakdown_of(culprit::format::BreakdownReason::kOutOfMemory, 8);
  empty.state = 0;
  builder.add_breakdown(empty);
  builder.write(path);
  REQUIRE(growing.look());
  CHECK(growing.devices().size() == 1);
  REQUIRE(growing.failures().size() == 1);
  CHECK(growing.failures()[0].time_ns == 7);
  CHECK(growing.header().pid == builder.header().pid);
}

TEST_CASE("a followed dump that is cut off, damaged or gone", "[report][growing]") {
  TemporaryFolder folder;
  const std::string path = folder.file("a.dump");
  DumpBuilder builder;
  builder.add_breakdown(breakdown_of(culprit::format::BreakdownReason::kOutOfMemory, 7));
  builder.write(path);
  const std::uint64_t whole = std::filesystem::file_size(path);
  for (std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{4096}, std::uint64_t{4100}}) {
    GrowingDump growing(path);
    REQUIRE(growing.look());
    std::filesystem::resize_file(path, bytes);
    growing.look();
    CHECK(growing.failures().size() <= 1);
    CHECK_FALSE(GrowingDump(path).look());
    builder.write(path);
  }
  // Each byte of the header and of the first chunks, changed.
  for (std::uint64_t at = 0; at < std::min<std::uint64_t>(whole, 4096 + 128); at += at < 600 || at >= 4096 ? 1 : 64) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\xff');
    file.close();
    GrowingDump growing(path);
    growing.look();
    CHECK(growing.failures().size() <= 4096);
    builder.write(path);
  }
  std::filesystem::remove(path);
  CHECK_FALSE(GrowingDump(path).look());
}
