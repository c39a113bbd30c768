// Copies of dumps.
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "report/screen/snapshot_file.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using culprit::test::live_allocation;
using culprit::test::Program;
using culprit::test::TemporaryFolder;

TEST_CASE("a copy of a dump is a snapshot with all that it had", "[report][screen]") {
  TemporaryFolder folder;
  Program program;
  for (int i = 0; i < 10000; ++i) program.dump.add_allocation(live_allocation(program.stack({"f"}), 64));
  program.dump.header().start_realtime_ns = 77;
  const std::string from = folder.file("a.dump");
  const std::string to = folder.file("b.dump");
  program.dump.write(from);
  ::chmod(from.c_str(), 0600);
  copy_dump(from, to, 77, 123456);
  const Report copy = load_report(to, LoadOptions());
  CHECK(copy.snapshot_ns == 123456);
  CHECK(copy.summary.leaked_allocations == 10000);
  struct stat status = {};
  REQUIRE(::stat(to.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  // Of a process that has ended: as it is.
  copy_dump(from, to, 77, 0);
  CHECK(load_report(to, LoadOptions()).snapshot_ns == 0);
}

TEST_CASE("nothing is copied that is no dump of the process", "[report][screen]") {
  TemporaryFolder folder;
  Program program;
  program.dump.header().start_realtime_ns = 77;
  const std::string from = folder.file("a.dump");
  program.dump.write(from);
  CHECK_THROWS_AS(copy_dump(from, folder.file("b.dump"), 78, 1), DumpError);
  CHECK_THROWS_AS(copy_dump(folder.file("none"), folder.file("b.dump"), 77, 1), DumpError);
  std::filesystem::resize_file(from, std::filesystem::file_size(from) - 4096);
  CHECK_THROWS_AS(copy_dump(from, folder.file("b.dump"), 77, 1), DumpError);
  CHECK_FALSE(std::filesystem::exists(folder.file("b.dump")));
}
