// Inputs that are no files of culprit: FIFOs, devices, folders, and merged files whose parts are missing.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "report/base/descriptor.h"
#include "report/base/input_file.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"
#include "tests/unit/sanitized.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

std::string limited(const std::string& command) {
  // A sanitizer takes terabytes of addresses.
  return (kSanitized ? "timeout 60 " : "ulimit -v 2000000; timeout 60 ") + command + " 2>&1 </dev/null";
}

struct Files {
  TemporaryFolder folder;
  std::string fifo = folder.file("fifo");
  std::string dump = folder.file("good.dump");
  Files() {
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    Program program;
    program.dump.add_allocation(live_allocation(program.stack({"f", "main"}), 4096));
    program.dump.write(dump);
  }
};

}  // namespace

TEST_CASE("FIFOs, devices and folders are no input", "[report][hostile][one-thread]") {
  Files files;
  const TemporaryFolder empty;
  for (const std::string& bad :
       {files.fifo, std::string("/dev/zero"), std::string("/dev/stdin"), empty.path().string()}) {
    const bool is_folder = bad == empty.path().string();
    for (const std::string& command :
         {"CULPRIT report " + bad, "CULPRIT report " + bad + " " + files.dump, "CULPRIT report --merge " + bad,
          "CULPRIT report --suppressions " + bad + " " + files.dump,
          "CULPRIT report --baseline " + bad + " " + files.dump,
          "CULPRIT report --write-baseline " + bad + " " + files.dump, "CULPRIT diff " + bad + " " + files.dump,
          "CULPRIT diff " + files.dump + " " + bad, "CULPRIT merge " + bad + " -o " + files.folder.file("out"),
          "CULPRIT top " + bad, "CULPRIT run --suppressions " + bad + " -- true"}) {
      INFO(command);
      const Finished run = shell(limited(command));
      INFO(run.out);
      CHECK(run.exit_code == 3);
      CHECK(has(run.out, bad));
      const bool is_output = command.find("--write-baseline") != std::string::npos;
      CHECK((is_output || has(run.out, "is not a regular file") || (is_folder && has(run.out, ": a folder"))));
    }
  }
}

TEST_CASE("no file that an option or a variable names blocks a command", "[report][hostile][one-thread]") {
  Files files;
  const std::string socket = files.folder.file("socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REQUIRE(socket.size() < sizeof(address.sun_path));
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const Descriptor listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const TemporaryFolder empty;
  const std::string folder = empty.path().string();
  const std::string out = files.folder.file("out");
  struct Row {
    std::string command;
    std::set<int> exit_codes;
  };
  const std::set<int> kRefused = {2, 3};
  std::vector<std::string> all = {files.fifo, folder, "/dev/zero", "/proc/self/mem"};
  if (!kSanitized) {
    for (const char* more : {"/dev/full", "/dev/stdin", "/dev/tty", "/proc/self/maps", "/proc/self/pagemap"})
      all.emplace_back(more);
    all.push_back(socket);
  }
  for (const std::string& bad : all) {
    const bool is_folder = bad == folder;
    // A program may write its report to a device; where files are looked for, there are none below it.
    for (const Row& row : std::vector<Row>{
             {"report " + bad, kRefused},
             {"report --jobs 2 " + bad + " " + files.dump, kRefused},
             {"report --merge " + bad + " " + files.dump, kRefused},
             {"report --suppressions " + bad + " " + files.dump,
              bad.find("/proc/") == 0 ? std::set<int>{0, 3} : kRefused},
             {"report --baseline " + bad + " " + files.dump, kRefused},
             {"report --write-baseline " + bad + " " + files.dump, kRefused},
             {"report --sysroot " + bad + " " + files.dump, {0}},
             {"report --debug-dir " + bad + " " + files.dump, {0}},
             {"report --format html -o " + out + " --source-dir " + bad + " " + files.dump, {0}},
             {"diff " + bad + " " + files.dump, kRefused},
             {"diff " + files.dump + " " + bad, kRefused},
             {"diff --sysroot " + bad + " " + files.dump + " " + files.dump, {0}},
             {"merge -o " + out + " " + bad, kRefused},
             {"merge -o " + out + " --sysroot " + bad + " --debug-dir " + bad + " " + files.dump, {0}},
             {"top " + bad, kRefused},
             {"run --baseline " + bad + " -- true", kRefused},
             {"run --suppressions " + bad + " -- true", bad.find("/proc/") == 0 ? std::set<int>{0, 3} : kRefused},
             {"sweep --out " + bad + " -- true", is_folder ? std::set<int>{0} : kRefused},
             {"run --out " + bad + "/%p.dump -- true", is_folder ? std::set<int>{0} : kRefused},
             {"run --out " + bad + " -- true", kRefused},
             {"sweep --sysroot " + bad + " -- true", {0, 4}},
             {"attach " + bad, kRefused}}) {
      INFO(row.command);
      const Finished run = shell(limited("env CULPRIT_LIBRARY=" CULPRIT_COMMAND " CULPRIT " + row.command));
      INFO(run.out);
      CHECK(row.exit_codes.count(run.exit_code) == 1);
    }
    const Finished variable =
        shell(limited("env CULPRIT_SUPPRESSIONS=" + bad + " CULPRIT report --format json " + files.dump));
    INFO(bad << ": " << variable.out);
    CHECK((variable.exit_code == 3 || bad.find("/proc/") == 0));
  }
}

TEST_CASE("what lies beside an output or an input does not block either", "[report][hostile]") {
  Files files;
  const std::string baseline = files.folder.file("leaks.json");
  for (const char* ending : {".new", ".tmp", "~"}) REQUIRE(::mkfifo((baseline + ending).c_str(), 0600) == 0);
  CHECK(shell(limited("CULPRIT report --write-baseline " + baseline + " " + files.dump)).exit_code == 0);
  CHECK(has(file_text(baseline), "culprit.baseline/1"));
  // Later dumps of the same name are looked at.
  REQUIRE(::mkfifo(files.folder.file("good.1.dump").c_str(), 0600) == 0);
  REQUIRE(::symlink("/dev/zero", files.folder.file("good.2.dump").c_str()) == 0);
  CHECK(shell(limited("CULPRIT report " + files.dump)).exit_code == 0);
}

TEST_CASE("FIFOs and devices beside a dump are passed over", "[report][hostile]") {
  Files files;
  const std::string ending = GENERATE("python.json", "gpu.json");
  const std::string view = files.dump + "." + ending;
  SECTION("a FIFO") { REQUIRE(::mkfifo(view.c_str(), 0600) == 0); }
  SECTION("a device") { REQUIRE(::symlink("/dev/zero", view.c_str()) == 0); }
  const Finished run = shell(limited("CULPRIT report " + files.dump));
  CHECK(run.exit_code == 0);
  CHECK(has(run.out, "LEAKED 4.00 KiB"));
  CHECK(has(run.out, ending + " is not a regular file"));
}

TEST_CASE("a program and its debug file are no FIFOs either", "[report][hostile]") {
  Files files;
  DumpBuilder dump;
  const std::uint32_t module = dump.add_module(files.fifo, {}, kModuleExecutable);
  dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::frame(module, 0x1000)}), 4096));
  dump.write(files.folder.file("fifo.dump"));
  CHECK(has(shell(limited("CULPRIT report " + files.folder.file("fifo.dump"))).out, "cannot be read"));

  // The program names its debug file; see tests/unit/report/CMakeLists.txt.
  const std::string program = files.folder.file("split");
  std::filesystem::copy_file(std::string(CULPRIT_SUBJECT_DIR) + "/split", program);
  REQUIRE(::mkfifo(files.folder.file("split.debug").c_str(), 0600) == 0);
  DumpBuilder named;
  const std::uint32_t split = named.add_module(program, {}, kModuleExecutable);
  named.add_allocation(live_allocation(named.add_stack({DumpBuilder::frame(split, 0x1000)}), 4096));
  named.write(files.folder.file("split.dump"));
  const Finished run = shell(limited("CULPRIT report " + files.folder.file("split.dump")));
  CHECK(run.exit_code == 0);
  CHECK(has(run.out, "LEAKED 4.00 KiB"));
}

TEST_CASE("merged files with missing parts are damaged, in every format", "[report][hostile]") {
  TemporaryFolder folder;
  const std::string path = folder.file("job.json");
  const auto write = [&](const std::string& tables, const std::string& leak) {
    std::ofstream(path) << R"({"schema":"culprit.merged/2",)" << tables
                        << R"(,"report":{"processes":[{"ended":"unknown"}],"leaks":[{"stack":1,"shares":[0,1,1])"
                        << leak << "}]}}";
  };
  SECTION("a frame") { write(R"("modules":[],"frames":[],"variables":[],"stacks":[{"frames":[0]}])", ""); }
  SECTION("the module of a variable") {
    write(R"("modules":[],"frames":[],"variables":[{"name":"g"}],"stacks":[{}])",
          R"(,"evidence":[{"type":"held","variable":1}])");
  }
  SECTION("the variable") {
    write(R"("modules":[],"frames":[],"variables":[],"stacks":[{}])", R"(,"evidence":[{"type":"held"}])");
  }
  for (const char* format :
       {"text", "json", "html", "markdown", "sarif", "junit", "folded", "pprof", "perfetto", "memory-viz"}) {
    INFO(format);
    const Finished run = shell(std::string("CULPRIT report --format ") + format + " " + path + " 2>&1");
    CHECK(run.exit_code == 3);
    CHECK(has(run.out, "a damaged file of culprit merge"));
  }
}
