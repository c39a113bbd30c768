// Source lines for reports: which files are read, and which are not.
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <cstring>
#include <fstream>

#include "report/base/descriptor.h"
#include "report/render/html/source_lines.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/page_data.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// A folder with a source file of numbered lines.
struct Sources {
  TemporaryFolder folder;
  std::string file = folder.file("solver.cu");

  Sources() { write(file, 100); }
  static void write(const std::string& path, int lines) {
    std::ofstream out(path);
    for (int i = 1; i <= lines; ++i) out << "line " << i << "\n";
  }
  std::vector<SourceFile> around(const std::string& path, unsigned line, SourcePlaces places = {},
                                 std::uint64_t began = 0) {
    SourceLines lines(std::move(places), began);
    lines.want(path, line);
    return lines.read();
  }
};

}  // namespace

TEST_CASE("source lines around a line are read once", "[report][source]") {
  Sources sources;
  SourceLines lines({}, 0);
  for (const unsigned line : {1U, 3U, 50U, 52U, 100U, 4000U}) lines.want(sources.file, line);
  lines.want(sources.file, 0);
  const std::vector<SourceFile> files = lines.read();
  REQUIRE(files.size() == 1);
  CHECK(files[0].path == sources.file);
  CHECK_FALSE(files[0].changed);
  REQUIRE(files[0].blocks.size() == 3);
  CHECK(files[0].blocks[0].first == 1);
  CHECK(files[0].blocks[0].lines.size() == 7);
  CHECK(files[0].blocks[1].first == 46);
  CHECK(files[0].blocks[1].lines.front() == "line 46");
  CHECK(files[0].blocks[1].lines.back() == "line 56");
  CHECK(files[0].blocks[2].lines.back() == "line 100");
}

TEST_CASE("source that changed after the run began is marked", "[report][source]") {
  Sources sources;
  const struct utimbuf times = {1000, 1000};
  REQUIRE(::utime(sources.file.c_str(), &times) == 0);
  CHECK(sources.around(sources.file, 5, {}, 999ULL * 1000000000)[0].changed);
  CHECK_FALSE(sources.around(sources.file, 5, {}, 1001ULL * 1000000000)[0].changed);
}

TEST_CASE("source is found below the folders that are named", "[report][source]") {
  Sources sources;
  const std::string folder = sources.folder.path();
  CHECK(sources.around("solver.cu", 5, {"", folder, {}}).size() == 1);
  CHECK(sources.around("/solver.cu", 5, {folder, "", {}}).size() == 1);
  CHECK(sources.around("/built/elsewhere/solver.cu", 5).empty());
  CHECK(sources.around("/built/elsewhere/solver.cu", 5, {"", "", {"/nowhere", folder}}).size() == 1);
  ::mkdir((folder + "/elsewhere").c_str(), 0700);
  Sources::write(folder + "/elsewhere/solver.cu", 5);
  const std::vector<SourceFile> longest = sources.around("/built/elsewhere/solver.cu", 5, {"", "", {folder}});
  REQUIRE(longest.size() == 1);
  CHECK(longest[0].blocks[0].lines.back() == "line 5");
}

TEST_CASE("only source code is read", "[report][source]") {
  Sources sources;
  const std::string folder = sources.folder.path();
  for (const char* name : {"/id_rsa", "/passwd.txt", "/.py", "/cu", "/a.cu/secret"}) {
    INFO(name);
    Sources::write(folder + name, 5);
    CHECK(sources.around(folder + name, 3).empty());
  }
  REQUIRE(::mkfifo((folder + "/pipe.cpp").c_str(), 0600) == 0);
  CHECK(sources.around(folder + "/pipe.cpp", 1).empty());
  CHECK(sources.around(folder + "/missing.cpp", 1).empty());
  ::mkdir((folder + "/folder.cpp").c_str(), 0700);
  CHECK(sources.around(folder + "/folder.cpp", 1).empty());
  std::ofstream(folder + "/binary.cpp").write("a\0b\n", 4);
  CHECK(sources.around(folder + "/binary.cpp", 1).empty());
  Sources::write(folder + "/UPPER.CPP", 5);
  CHECK(sources.around(folder + "/UPPER.CPP", 3).size() == 1);
}

TEST_CASE("only files below the named folders are quoted", "[report][source]") {
  Sources sources;
  TemporaryFolder other;
  Sources::write(other.file("secret.cu"), 10);
  const std::string inside = sources.folder.path().string();
  const std::string outside = "../" + other.path().filename().string() + "/secret.cu";
  SECTION("out of --source-dir through ..") {
    CHECK(sources.around("/x/" + outside, 5, {"", "", {inside}, false}).empty());
    CHECK(sources.around(outside, 5, {"", "", {inside}, false}).empty());
  }
  SECTION("out of --sysroot through ..") {
    CHECK(sources.around("/" + outside, 5, {inside, "", {}}).empty());
    CHECK(sources.around("secret.cu", 5, {inside, "/../" + other.path().filename().string(), {}}).empty());
  }
  SECTION("out of both through a link") {
    REQUIRE(::symlink(other.file("secret.cu").c_str(), sources.folder.file("link.cu").c_str()) == 0);
    REQUIRE(::symlink(other.path().c_str(), sources.folder.file("folder").c_str()) == 0);
    CHECK(sources.around("/link.cu", 5, {inside, "", {}}).empty());
    CHECK(sources.around("/folder/secret.cu", 5, {"", "", {inside}, false}).empty());
  }
  SECTION("to a file that is no source through a link") {
    std::ofstream(sources.folder.file("password")) << "line 1\nline 2\n";
    REQUIRE(::symlink("password", sources.folder.file("link.cu").c_str()) == 0);
    CHECK(sources.around("/link.cu", 1, {inside, "", {}}).empty());
  }
  SECTION("links and .. that stay below are followed") {
    REQUIRE(::symlink("solver.cu", sources.folder.file("link.cu").c_str()) == 0);
    CHECK(sources.around("/link.cu", 5, {inside, "", {}}).size() == 1);
    CHECK(sources.around("/x/../solver.cu", 5, {"", "", {inside}, false}).size() == 1);
    CHECK(sources.around("/x/../solver.cu", 5, {"", "", {inside + "/."}, false}).size() == 1);
  }
}

TEST_CASE("files outside of the named folders are not opened", "[report][source]") {
  Sources sources;
  TemporaryFolder other;
  const std::string inside = sources.folder.path().string();
  const std::string secret = other.file("secret.cu");
  Sources::write(secret, 10);
  REQUIRE(::mkfifo(other.file("pipe.cu").c_str(), 0600) == 0);
  REQUIRE(::symlink(secret.c_str(), sources.folder.file("link.cu").c_str()) == 0);
  REQUIRE(::symlink(other.path().c_str(), sources.folder.file("folder").c_str()) == 0);
  REQUIRE(::symlink(("/proc/self/root" + secret).c_str(), sources.folder.file("proc.cu").c_str()) == 0);
  const Descriptor watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const auto was_opened = [&] {
    char events[4096];
    return ::read(watch.get(), events, sizeof(events)) > 0;
  };
  for (const std::string& path : {secret, other.file("pipe.cu")})
    REQUIRE(::inotify_add_watch(watch.get(), path.c_str(), IN_OPEN | IN_ACCESS) >= 0);
  const std::string name = other.path().filename().string();
  for (const std::string path : {"/link.cu", "/folder/secret.cu", "/folder/pipe.cu", "/proc.cu"}) {
    INFO(path);
    CHECK(sources.around(path, 5, {"", "", {inside}, false}).empty());
    CHECK(sources.around(path, 5, {inside, "", {}}).empty());
  }
  for (const std::string& path : std::vector<std::string>{"/../" + name + "/secret.cu", "../" + name + "/pipe.cu",
                                                          "x/../../" + name + "/secret.cu"}) {
    INFO(path);
    CHECK(sources.around(path, 5, {"", "", {inside}, false}).empty());
    CHECK(sources.around(path, 5, {inside, "/", {}}).empty());
    CHECK(sources.around(path, 5, {inside + "/../" + sources.folder.path().filename().string(), "", {inside}}).empty());
  }
  CHECK_FALSE(was_opened());
  CHECK(sources.around(secret, 5).size() == 1);
  CHECK(was_opened());
  // A hard link is a file of its folder: a dump cannot make one.
  REQUIRE(::link(secret.c_str(), sources.folder.file("hard.cu").c_str()) == 0);
  CHECK(sources.around("/hard.cu", 5, {"", "", {inside}, false}).size() == 1);
}

TEST_CASE("a dump must prove that it is of this machine", "[report][source]") {
  Sources sources;
  DumpBuilder dump;
  const Ref frame = dump.add_python_frame(sources.file, "step", 50);
  dump.add_allocation(live_allocation(dump.add_stack({DumpBuilder::python_frame(frame)}), 4096));
  const std::string path = sources.folder.file("one.dump");
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  REQUIRE(boot.size() == 36);
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof(host) - 1) == 0);
  const auto quoted = [&](const std::string& options = "") {
    const Finished page = shell("CULPRIT report --format html " + options + path);
    CHECK(page.exit_code == 0);
    const bool found = page_data(page.out).find("line 50") != std::string::npos;
    // The page says why there are none.
    CHECK(found == (page_data(page.out).find("give the folder of its sources with --source-dir") == std::string::npos));
    return found;
  };
  const auto claim = [&](const std::string& host_name, const std::string& boot_id) {
    Header& header = dump.header();
    std::memset(header.host, 0, sizeof(header.host));
    std::memset(header.boot_id, 0, sizeof(header.boot_id));
    host_name.copy(header.host, sizeof(header.host) - 1);
    boot_id.copy(header.boot_id, sizeof(header.boot_id) - 1);
    dump.write(path);
  };
  claim(host, boot);
  CHECK(quoted());
  if (::geteuid() == 0) {
    REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);  // made by another user
    CHECK_FALSE(quoted());
    REQUIRE(::chown(path.c_str(), 0, 0) == 0);
  }
  claim(host, "1f8c2dbf-304b-4102-a06c-3f90cd39aa1f");
  CHECK_FALSE(quoted());
  claim(host, "");
  CHECK_FALSE(quoted());
  claim("", boot);
  CHECK_FALSE(quoted());
  claim("node7", boot);
  CHECK_FALSE(quoted());
  claim("", "");
  CHECK_FALSE(quoted());
  CHECK(quoted("--source-dir " + sources.folder.path().string() + " "));
  // A merged file proves nothing: it is text.
  claim(host, boot);
  const std::string job = sources.folder.file("job.json");
  CHECK(shell("CULPRIT merge -o " + job + " " + path).exit_code == 0);
  const Finished merged = shell("CULPRIT report --format html " + job);
  CHECK(merged.exit_code == 0);
  CHECK(page_data(merged.out).find("line 50") == std::string::npos);
}

TEST_CASE("a dump of another host chooses no files of this one", "[report][source]") {
  Sources sources;
  const std::string inside = sources.folder.path().string();
  CHECK(sources.around(sources.file, 5, {"", "", {}, false}).empty());
  CHECK(sources.around("solver.cu", 5, {"", inside, {}, false}).empty());
  CHECK(sources.around("/solver.cu", 5, {inside, "", {}, false}).empty());
  CHECK(sources.around(sources.file, 5, {"", "", {inside}, false}).size() == 1);
}
