// Source lines for reports: which files are read, and which are not.
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <fstream>

#include "report/render/html/source_lines.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

using namespace culprit::report;
using culprit::test::TemporaryFolder;

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

TEST_CASE("a dump of another host chooses no files of this one", "[report][source]") {
  Sources sources;
  const std::string inside = sources.folder.path().string();
  CHECK(sources.around(sources.file, 5, {"", "", {}, false}).empty());
  CHECK(sources.around("solver.cu", 5, {"", inside, {}, false}).empty());
  CHECK(sources.around("/solver.cu", 5, {inside, "", {}, false}).empty());
  CHECK(sources.around(sources.file, 5, {"", "", {inside}, false}).size() == 1);
}
