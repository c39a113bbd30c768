// A dump is no larger than what is live needs: where nothing is live its pages are holes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// Bytes on disk.
std::uint64_t blocks_of(const fs::path& path) {
  struct stat status = {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

bool has_holes(const fs::path& folder) {
  const fs::path path = folder / "hole";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  const bool made =
      fallocate(fd, 0, 0, 8192) == 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) == 0;
  close(fd);
  fs::remove(path);
  return made;
}

std::uint64_t kept_of(const Report& report) {
  std::uint64_t kept = 0;
  for (const Group& group : report.through("leak_here")) kept += group.count;
  return kept;
}

}  // namespace

TEST_CASE("a dump after bursts has disk blocks for what is live only", "[dump][holes]") {
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  if (!has_holes(options.folder->path())) {
    WARN("skipped: this file system has no holes");
    return;
  }
  const std::uint64_t count = on_gpu() ? 20000 : 200000;
  bool looked = false;
  options.when_ready = [&](pid_t) {
    const fs::path dump = fs::directory_iterator(options.folder->path())->path();
    CHECK(fs::file_size(dump) > count * 64);
    CHECK(fs::file_size(dump) < count * 64 + (3 << 20));
    CHECK(blocks_of(dump) < 4 << 20);
    const Report report = read_report(dump);
    CHECK(report.leaked_count() == 100);
    CHECK(kept_of(report) == 100);
    looked = true;
  };
  const Run run = run_preloaded("bursts", {std::to_string(count), "5"}, options);
  CHECK(looked);
  CHECK(run.exit_code == 0);
  CHECK(blocks_of(run.dump()) < 4 << 20);
  const Report report = read_report(run.dump());
  CHECK(report.leaked_count() == 100);
  CHECK(report.error_count() == 0);
  CHECK(report.json.at("summary").at("dropped") == 0);
}

TEST_CASE("a program killed while its dump loses and gains pages leaves a dump that reads right", "[dump][holes]") {
  const unsigned burst = on_gpu() ? 10000 : 60000;
  for (unsigned i = 0; i < 6; ++i) {
    RunOptions options;
    options.when_ready = [i](pid_t pid) {
      usleep(1000 + i * 23000);
      kill(pid, SIGKILL);
    };
    const Run run = run_preloaded("bursts", {std::to_string(burst), "0"}, options);
    CHECK(run.signal == SIGKILL);
    const Report report = read_report(run.dump());
    CHECK(kept_of(report) == 100);
    CHECK(report.leaked_count() <= 100 + burst);
    CHECK(report.leaked_bytes() == 100 * 11001 + (report.leaked_count() - 100) * 257);
  }
}

}  // namespace culprit::test
