// Programs with another libc or runtime: built with sanitizers, built with musl, run under valgrind. They must run the
// same with and without the library, and those that call CUDA must be recorded.
#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/support/run_preloaded.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

struct World {
  std::string name;
  std::string runtime;  // the sanitizer's shared library, empty = inside the program
  bool has(const char* part) const { return contains(name, part); }
};

// The programs that tests/subjects/other_worlds.cmake could build on this machine.
std::vector<World> built_worlds() {
  std::vector<World> worlds;
  std::ifstream list(subject_path("other_worlds.txt"));
  std::string line;
  while (std::getline(list, line)) {
    std::istringstream words(line);
    World world;
    words >> world.name >> world.runtime;
    if (!world.name.empty()) worlds.push_back(world);
  }
  return worlds;
}

// gcc 12's TSan wants fewer random bits of addresses than some kernels give.
Run run_world(const World& world, const std::vector<std::string>& arguments, RunOptions options) {
  options.environment["CULPRIT_QUIET"] = "1";
  options.environment["SIMCUDA_RANGE_MB"] = "256";
  const std::string setarch = "/usr/bin/setarch";
  if (!world.has("_thread_") || !std::filesystem::exists(setarch)) return run_preloaded(world.name, arguments, options);
  std::vector<std::string> words = {"--addr-no-randomize", subject_path(world.name).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_preloaded(setarch, words, options);
}

void check_same(const Run& plain, const Run& preloaded) {
  CHECK(!preloaded.timed_out);
  CHECK(preloaded.exit_code == plain.exit_code);
  CHECK(preloaded.signal == plain.signal);
  CHECK(preloaded.out == plain.out);
  CHECK(preloaded.err == plain.err);
}

}  // namespace

TEST_CASE("programs built with sanitizers run the same with and without the library", "[worlds]") {
  int run = 0;
  for (const World& world : built_worlds()) {
    if (world.has("_musl") || world.has("_plain")) continue;
    for (const bool with_cuda : {false, true}) {
      INFO(world.name << (with_cuda ? " cuda" : ""));
      std::vector<std::string> arguments;
      if (with_cuda) arguments.push_back("cuda");
      RunOptions without;
      without.preload = false;
      // Without leak detection: GPU memory is not ASan's, and the simulated driver keeps its own tables.
      without.environment["ASAN_OPTIONS"] = "detect_leaks=0";
      RunOptions with = without;
      with.preload = true;
      // ASan's shared runtime refuses every library that is preloaded before it, even an empty one.
      const bool refuses = world.has("_address_") && !world.runtime.empty();
      if (refuses) with.preload_before.push_back(world.runtime);
      const Run plain = run_world(world, arguments, without);
      if (plain.exit_code != 5) {
        WARN("skipped: " << world.name << " does not run on this machine: " << plain.err.substr(0, 200));
        continue;
      }
      const Run preloaded = run_world(world, arguments, with);
      INFO(preloaded.err);
      check_same(plain, preloaded);
      if (with_cuda) {
        const Report report = read_report(preloaded.dump());
        CHECK(report.leaked_count() == 1);
        CHECK(report.leaked_bytes() == 11001);
      }
      ++run;
      if (!refuses) continue;
      with.preload_before.clear();
      with.environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0";
      check_same(plain, run_world(world, arguments, with));
      with.preload_after.push_back(world.runtime);
      check_same(plain, run_world(world, arguments, with));
    }
  }
  CHECK(run >= 4);
}

TEST_CASE("a program of another libc runs the same under the library, which does nothing there", "[worlds]") {
  if (!std::filesystem::exists(subject_path("other_world_musl"))) {
    WARN("skipped: no musl-gcc when this was built");
    return;
  }
  RunOptions without;
  without.preload = false;
  without.environment["LD_LIBRARY_PATH"] = "";
  RunOptions with;
  with.environment["LD_LIBRARY_PATH"] = "";
  const Run plain = run_preloaded("other_world_musl", {}, without);
  if (on_gpu() && plain.exit_code == 127) {
    WARN("skipped: this machine has no loader of musl's");
    return;
  }
  REQUIRE(plain.exit_code == 5);
  const Run preloaded = run_preloaded("other_world_musl", {}, with);
  check_same(plain, preloaded);
  CHECK(preloaded.dumps.empty());
}

TEST_CASE("valgrind finds no error of the library's", "[worlds]") {
  const std::string valgrind = "/usr/bin/valgrind";
  if (!std::filesystem::exists(valgrind)) {
    WARN("skipped: no " << valgrind);
    return;
  }
  for (const char* subject : {"other_world_plain", "other_world_throw_plain"}) {
    for (const char* argument : {"", "cuda"}) {
      INFO(subject << " " << argument);
      std::vector<std::string> words = {"-q", "--error-exitcode=9", subject_path(subject).string()};
      if (argument[0] != '\0') words.push_back(argument);
      RunOptions options;
      options.environment["CULPRIT_QUIET"] = "1";
      options.environment["SIMCUDA_RANGE_MB"] = "256";
      options.preload = false;
      const Run plain = run_preloaded(valgrind, words, options);
      if (plain.exit_code != 5) {
        WARN("skipped: valgrind without the library ended with " << plain.exit_code << ": "
                                                                 << plain.err.substr(0, 400));
        continue;
      }
      options.preload = true;
      const Run preloaded = run_preloaded(valgrind, words, options);
      INFO(preloaded.err);
      CHECK(preloaded.exit_code == 5);
      CHECK(preloaded.out == plain.out);
      if (argument[0] != '\0') CHECK(read_report(preloaded.dump()).leaked_bytes() == 11001);
    }
  }
}

}  // namespace culprit::test
