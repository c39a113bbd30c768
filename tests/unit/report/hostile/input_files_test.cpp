// Inputs that are no files of culprit: FIFOs, devices, folders, and merged files whose parts are missing.
#include <sys/stat.h>

#include <fstream>

#include "report/base/input_file.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

std::string limited(const std::string& command) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string limits = "timeout 60 ";  // a sanitizer takes terabytes of addresses
#else
  const std::string limits = "ulimit -v 2000000; timeout 60 ";
#endif
  return limits + command + " 2>&1 </dev/null";
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

TEST_CASE("FIFOs, devices and folders are no input", "[report][hostile]") {
  Files files;
  for (const std::string& bad :
       {files.fifo, std::string("/dev/zero"), std::string("/dev/stdin"), files.folder.path().string()}) {
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
      CHECK((is_output || has(run.out, "is not a regular file")));
    }
  }
}

TEST_CASE("FIFOs and devices beside a dump are passed over", "[report][hostile]") {
  Files files;
  const std::string view = files.dump + ".python.json";
  SECTION("a FIFO") { REQUIRE(::mkfifo(view.c_str(), 0600) == 0); }
  SECTION("a device") { REQUIRE(::symlink("/dev/zero", view.c_str()) == 0); }
  const Finished run = shell(limited("CULPRIT report " + files.dump));
  CHECK(run.exit_code == 0);
  CHECK(has(run.out, "LEAKED 4.00 KiB"));
  CHECK(has(run.out, "python.json is not a regular file"));
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
  for (const char* format : {"text", "json", "html", "markdown", "sarif", "junit", "folded", "pprof"}) {
    INFO(format);
    const Finished run = shell(std::string("CULPRIT report --format ") + format + " " + path + " 2>&1");
    CHECK(run.exit_code == 3);
    CHECK(has(run.out, "a damaged file of culprit merge"));
  }
}
