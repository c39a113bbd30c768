// `culprit attach` where the loader has loaded more than one libc, or where the files of what it has loaded are others
// now, as after an upgrade of packages.
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/process/attached.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

// Linux 5.9; missing in older headers.
constexpr unsigned long kCapabilityToAdmin = 21, kCapabilityToRestore = 40;

// As root, or as a user who may not open the file that another process has mapped.
Finished run_culprit_as(bool root, const std::vector<std::string>& arguments) {
  ProgramOptions options;
  options.environment = {{"LD_PRELOAD", ""}, {"NO_COLOR", "1"}, {"CULPRIT_LIBRARY", library_path().string()}};
  if (!root) {
    options.before_exec = [] {
      prctl(PR_CAPBSET_DROP, kCapabilityToAdmin);
      prctl(PR_CAPBSET_DROP, kCapabilityToRestore);
    };
  }
  std::vector<std::string> words = {culprit_path().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(words, options);
}

void attach_and_leak(pid_t pid, bool root, const std::string& dump) {
  const std::string number = std::to_string(pid);
  const Finished attached = run_culprit_as(root, {"attach", number, "--out", dump});
  INFO(attached.err);
  REQUIRE(attached.exit_code == 0);
  tell(pid, 3);
  const Finished detached = run_culprit_as(root, {"detach", number});
  INFO(detached.err);
  CHECK(detached.exit_code == 0);
  check_runs_alone(pid);
}

void check_leaks(const std::string& dump) {
  const std::vector<Group> leaks = read_report(dump).through("leak_after");
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].count == 3);
}

// The libraries that a program loads at its start, the loader among them.
std::vector<fs::path> libraries_of(const fs::path& program) {
  ProgramOptions options;
  options.environment = {{"LD_PRELOAD", ""}, {"LD_LIBRARY_PATH", simulated_driver_folder().string()}};
  std::istringstream text(run_program({"/bin/sh", "-c", "ldd " + program.string()}, options).out);
  std::vector<fs::path> libraries;
  for (std::string word; text >> word;) {
    if (word[0] == '/') libraries.push_back(word);
  }
  return libraries;
}

// A program with a loader and libraries of its own, which can be replaced.
class OwnLibraries {
 public:
  explicit OwnLibraries(const std::string& subject) {
    const fs::path program = subject_path(subject);
    for (const fs::path& library : libraries_of(program)) {
      fs::copy_file(library, folder_.path() / library.filename());
      if (library.filename().string().rfind("ld-", 0) == 0) loader_ = folder_.file(library.filename().string());
    }
    fs::copy_file(program, folder_.path() / subject);
    arguments_ = {"--library-path", std::string(folder_.path()) + ":" + simulated_driver_folder().string(),
                  folder_.file(subject)};
  }

  Run run(const std::vector<std::string>& more, const std::function<void(pid_t)>& work) const {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE_FALSE(loader_.empty());
    return run_alone(loader_, arguments, work);
  }

  // As a package manager does it: other files take the names.
  void replace() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
      const fs::path other = entry.path().string() + ".new";
      std::ofstream(other) << "not a library\n";
      fs::rename(other, entry.path());
    }
  }

 private:
  TemporaryFolder folder_;
  std::string loader_;
  std::vector<std::string> arguments_;
};

}  // namespace

TEST_CASE("a program with a second libc in another name space of its loader is attached", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  const std::string dump = folder.file("x.dump");
  check_fine(run_alone("attach_libc", {"apart", "libm.so.6"}, [&](pid_t pid) { attach_and_leak(pid, true, dump); }));
  check_leaks(dump);
}

TEST_CASE("a program whose libraries were replaced since its start is attached", "[attach]") {
  if (!may_trace() || on_gpu()) return;
  for (const bool root : {true, false}) {
    INFO((root ? "root" : "without the right to open mapped files"));
    const TemporaryFolder folder;
    const std::string dump = folder.file("x.dump");
    const OwnLibraries libraries("attach_libc");
    check_fine(libraries.run({}, [&](pid_t pid) {
      libraries.replace();
      attach_and_leak(pid, root, dump);
    }));
    const Report report = read_report(dump);
    CHECK(report.leaked_count() == 3);
  }
}

// The thread that is borrowed for dlopen() waits for the loader's lock.
TEST_CASE("a loader of any name is known", "[attach]") {
  if (!may_trace()) return;
  const TemporaryFolder folder;
  for (const fs::path& library : libraries_of(subject_path("attach_libc"))) {
    if (library.filename().string().rfind("ld-", 0) == 0) fs::copy_file(library, folder.path() / "own_loader.so");
  }
  RunOptions options;
  options.preload = false;
  options.working_directory = folder.path();
  options.when_ready = [](pid_t pid) {
    const Finished attached = run_culprit({"attach", std::to_string(pid), "--timeout", "300ms"});
    INFO(attached.err);
    CHECK(attached.exit_code == 3);
    CHECK(has(attached.err, "is loading a library"));
    check_runs_alone(pid);
  };
  const std::string library = subject_path("attach_slow_library.so").string();
  check_fine(run_preloaded("attach_own_loader", {"other", library}, options));
}

// Its stack can be read, and names fork(), whose locks would be taken again.
TEST_CASE("a thread inside a libc that was replaced since its start is not borrowed", "[attach]") {
  if (!may_trace() || on_gpu()) return;
  for (const bool root : {true, false}) {
    INFO((root ? "root" : "without the right to open mapped files"));
    const OwnLibraries libraries("attach_libc");
    check_fine(libraries.run({"in fork"}, [&](pid_t pid) {
      libraries.replace();
      const Finished attached = run_culprit_as(root, {"attach", std::to_string(pid), "--timeout", "300ms"});
      INFO(attached.err);
      CHECK(attached.exit_code == 3);
      CHECK(has(attached.err, "fork): nothing was changed"));
      check_runs_alone(pid);
    }));
  }
}

}  // namespace culprit::test
