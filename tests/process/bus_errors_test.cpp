// If a dump loses its bytes while the program runs, only the recording ends; the program's own SIGBUS behaves as
// without the library.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

fs::path only_dump(const TemporaryFolder& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.path())) return entry.path();
  throw std::runtime_error("no dump");
}

}  // namespace

TEST_CASE("a dump that is cut off while its program runs costs the recording only", "[bus]") {
  for (const off_t left : {0, 100, 4096, 5000, 300000}) {
    INFO("bytes left: " << left);
    RunOptions options;
    options.folder = std::make_shared<TemporaryFolder>();
    bool cut = false;
    options.when_ready = [&](pid_t) { cut = truncate(only_dump(*options.folder).c_str(), left) == 0; };
    const Run run = run_preloaded("bus_errors", {"wait"}, options);
    INFO("stderr: " << run.err);
    REQUIRE(cut);
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "ready\ndone\n");
    CHECK(has(run.err, "recording stopped: the dump was truncated"));
    CHECK_FALSE(has(run.err, "not freed"));
    const Finished report = run_culprit({"report", run.dump().string()});
    CHECK(report.exit_code == 3);
    CHECK(has(report.err, left < 4096 ? "culprit: " : "was cut off while the program ran"));
  }
}

TEST_CASE("a dump that is removed and cut off, or has a hole, costs the recording only", "[bus]") {
  for (const bool hole : {false, true}) {
    INFO("hole: " << hole);
    RunOptions options;
    options.folder = std::make_shared<TemporaryFolder>();
    bool done = false;
    options.when_ready = [&](pid_t) {
      const fs::path dump = only_dump(*options.folder);
      const int fd = open(dump.c_str(), O_RDWR | O_CLOEXEC);
      if (hole) {
        done = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 1 << 20) == 0;
      } else {
        done = unlink(dump.c_str()) == 0 && ftruncate(fd, 0) == 0;
      }
      close(fd);
    };
    const Run run = run_preloaded("bus_errors", {"wait"}, options);
    INFO("stderr: " << run.err);
    if (!done) {
      WARN("skipped: this file system has no holes");
      continue;
    }
    CHECK(run.signal == 0);
    CHECK(run.exit_code == 0);
    CHECK(run.out == "ready\ndone\n");
  }
}

TEST_CASE("a full disk under a dump with holes costs the recording only", "[bus]") {
  TemporaryFolder parent;
  const std::string folder = parent.path().string();
  if (std::system(("mount -t tmpfs -o size=4m,mode=777 culprit-test " + folder + " 2>/dev/null").c_str()) != 0) {
    WARN("skipped: no right to mount a small tmpfs");
    return;
  }
  RunOptions options;
  options.environment["CULPRIT_OUT"] = folder + "/full.dump";
  bool done = false;
  options.when_ready = [&](pid_t) {
    const int fd = open((folder + "/full.dump").c_str(), O_RDWR | O_CLOEXEC);
    done = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 1 << 20) == 0;
    close(fd);
    std::system(("cat /dev/zero > " + folder + "/rest 2>/dev/null").c_str());
  };
  const Run run = run_preloaded("bus_errors", {"wait"}, options);
  CHECK(std::system(("umount " + folder).c_str()) == 0);
  INFO("stderr: " << run.err);
  REQUIRE(done);
  CHECK(run.signal == 0);
  CHECK(run.exit_code == 0);
  CHECK(run.out == "ready\ndone\n");
  CHECK(has(run.err, "recording stopped: the dump was truncated"));
}

TEST_CASE("a program's own SIGBUS acts as without the library", "[bus]") {
  struct Row {
    const char* mode;
    int signal;
    const char* out;
  };
  for (const Row& row : {Row{"own", SIGBUS, ""}, Row{"sent", SIGBUS, ""}, Row{"handled", 0, "handled\n"},
                         Row{"later", 0, "handled\n"}, Row{"child", 0, "7\n"}}) {
    for (const bool preload : {false, true}) {
      INFO(row.mode << (preload ? " with" : " without") << " the library");
      RunOptions options;
      options.folder = std::make_shared<TemporaryFolder>();
      options.preload = preload;
      const Run run = run_preloaded("bus_errors", {row.mode, (options.folder->path() / "mine").string()}, options);
      CHECK(run.signal == row.signal);
      CHECK(run.out == row.out);
      if (preload) CHECK(read_report(run.dump()).leaked_count() >= 1000);
    }
  }
}

TEST_CASE("a file of culprit run that is cut off costs neither side its end", "[bus]") {
  // The program finds both files by its environment: so can any other program of its user.
  const char* file = GENERATE("$CULPRIT_RUN_STARTS", "$CULPRIT_RUN_STARTS.gpus");
  INFO(file);
  RunOptions options;
  options.folder = std::make_shared<TemporaryFolder>();
  const std::string fifo = options.folder->file("end");
  const std::string told = options.folder->file("told");
  const std::string script = "mkfifo " + fifo + "; " + subject_path("bus_errors").string() + " wait <" + fifo + " >" +
                             told + " & exec 9>" + fifo + "; until [ -s " + told + " ]; do sleep 0.01; done; test -s " +
                             file + " && truncate -s 0 " + file + " || exit 9; exec 9>&-; wait $!";
  const Run run = culprit_run({"--out", options.folder->file("a.dump")}, {"/bin/sh", "-c", script}, options);
  INFO("stderr: " << run.err);
  std::ifstream output(told);
  CHECK(std::string(std::istreambuf_iterator<char>(output), {}) == "ready\ndone\n");
  if (std::string(file) == "$CULPRIT_RUN_STARTS") {
    CHECK(run.exit_code == 3);
    CHECK(has(run.err, "cannot be read any more"));
    CHECK(has(run.err, "the dump is kept"));
  } else {
    CHECK(run.exit_code == 0);
    CHECK(has(run.err, "LEAKED"));
  }
}

}  // namespace culprit::test
