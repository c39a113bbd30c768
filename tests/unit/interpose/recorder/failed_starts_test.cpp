#include "interpose/recorder/failed_starts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "interpose/base/text_writer.h"
#include "interpose/format/failed_starts.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace culprit;
using culprit::test::TemporaryFolder;
using format::FailedStarts;

namespace {

std::unique_ptr<Options> options_with(const std::string& path) {
  auto options = std::make_unique<Options>();
  copy_text(options->failed_starts, sizeof(options->failed_starts), path.c_str());
  return options;
}

void make_file(const std::string& path, std::uint32_t version, std::size_t bytes) {
  auto starts = std::make_unique<FailedStarts>();
  starts->version = version;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(starts.get()), static_cast<std::streamsize>(bytes));
}

std::unique_ptr<FailedStarts> contents_of(const std::string& path) {
  auto starts = std::make_unique<FailedStarts>();
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(starts.get()), sizeof(FailedStarts));
  return starts;
}

}  // namespace

TEST_CASE("a process that cannot record stores its pid, the error and the path; more than fit are counted") {
  TemporaryFolder folder;
  const std::string path = folder.file("failed");
  make_file(path, format::kFailedStartsVersion, sizeof(FailedStarts));
  const auto options = options_with(path);
  for (int pid = 1; pid <= 20; ++pid) note_failed_start(*options, pid, ENOSPC, "/full/a.dump");
  const auto starts = contents_of(path);
  CHECK(starts->count == 20);
  CHECK(starts->entries[0].pid == 1);
  CHECK(starts->entries[14].pid == 15);
  CHECK(starts->entries[14].error == ENOSPC);
  CHECK(std::string(starts->entries[14].path) == "/full/a.dump");
}

TEST_CASE("a file of another version, a short file, a missing file and a link are left alone") {
  TemporaryFolder folder;
  const std::string other = folder.file("other"), small = folder.file("small"), link = folder.file("link");
  make_file(other, format::kFailedStartsVersion + 1, sizeof(FailedStarts));
  make_file(small, format::kFailedStartsVersion, 100);
  REQUIRE(symlink(other.c_str(), link.c_str()) == 0);
  for (const std::string& path : {other, small, link, folder.file("missing"), std::string()})
    note_failed_start(*options_with(path), 1, ENOSPC, "/full/a.dump");
  CHECK(contents_of(other)->count == 0);
  CHECK(contents_of(small)->count == 0);
  CHECK(access(folder.file("missing").c_str(), F_OK) != 0);
}
