// The cache of symbols between reports: an answer from it is the answer of the files, or none.
#include "report/symbols/symbol_cache.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "report/symbols/symbolizer.h"
#include "tests/catch.h"
#include "tests/support/environment_variable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

using namespace culprit::report;
using culprit::test::EnvironmentVariable;
using culprit::test::has;
using culprit::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

const std::string kCachedSubjects = CULPRIT_SUBJECT_DIR;

std::vector<std::uint64_t> subject_addresses() {
  std::vector<std::uint64_t> addresses;
  FILE* pipe = ::popen((kCachedSubjects + "/symbol_subject").c_str(), "r");
  REQUIRE(pipe != nullptr);
  unsigned long long address = 0;
  while (std::fscanf(pipe, "%*s %llx %*u", &address) == 1) addresses.push_back(address - 1);
  REQUIRE(::pclose(pipe) == 0);
  REQUIRE(addresses.size() == 5);
  return addresses;
}

// One file with its cache; the file may change between two look-ups.
class Cached {
 public:
  explicit Cached(const std::string& subject) : addresses_(subject_addresses()) {
    put(subject);
    options.cache_folder = folder_.file("cache");
  }

  void put(const std::string& subject) {
    fs::remove(program());
    fs::copy_file(kCachedSubjects + "/" + subject, program());
  }

  std::string program() const { return folder_.file("program"); }
  std::string debug_file() const { return folder_.file("split.debug"); }

  std::string look_up(const SymbolOptions& with, const std::vector<std::uint64_t>& addresses) const {
    std::vector<ModuleSymbols> modules(1);
    modules[0].path = program();
    modules[0].addresses = addresses;
    look_up_symbols(modules, with);
    std::ostringstream text;
    text << static_cast<int>(modules[0].state) << modules[0].has_debug_info << modules[0].own_unwinder << "\n";
    for (const auto& locations : modules[0].locations) {
      for (const CodeLocation& one : locations) {
        text << one.function << "|" << one.file << "|" << one.line << "|" << one.inlined << "|" << one.approximate
             << "|" << one.symbol_offset << "|" << one.symbol << "\n";
      }
    }
    return text.str();
  }
  std::string look_up() const { return look_up(options, addresses_); }
  // Without the cache.
  std::string truth() const {
    SymbolOptions without = options;
    without.cache_folder.clear();
    return look_up(without, addresses_);
  }

  // The cache's only file; "" when there is none.
  std::string kept() const {
    std::string found;
    if (!fs::exists(options.cache_folder)) return found;
    for (const auto& entry : fs::directory_iterator(options.cache_folder)) {
      REQUIRE(found.empty());
      found = entry.path();
    }
    return found;
  }
  std::string kept_text() const {
    std::ifstream file(kept());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_kept(const std::string& text) const {
    const std::string path = kept();
    std::ofstream(path) << text;
  }
  // Makes the cache's answers known by a name that the program has not.
  void mark_kept() const {
    std::string text = kept_text();
    const std::size_t at = text.find("plain_c");
    REQUIRE(at != std::string::npos);
    write_kept(text.replace(at, 7, "plain_X"));
  }
  bool answers() const { return has(look_up(), "plain_X"); }

  const std::vector<std::uint64_t>& addresses() const { return addresses_; }

  SymbolOptions options;

 private:
  TemporaryFolder folder_;
  std::vector<std::uint64_t> addresses_;
};

}  // namespace

TEST_CASE("a second look-up is answered by the cache of symbols, with the same words", "[report][symbol-cache]") {
  for (const char* subject : {"symbol_subject", "stripped", "split"}) {
    INFO(subject);
    const Cached cached(subject);
    const std::string truth = cached.truth();
    CHECK(cached.look_up() == truth);
    CHECK(cached.look_up() == truth);
    cached.mark_kept();
    CHECK(cached.answers());
  }
}

TEST_CASE("the cache of symbols knows a file only as it was", "[report][symbol-cache]") {
  Cached cached("symbol_subject");
  cached.look_up();
  // The same build ID: a stripped copy, and one of the same size that was written later.
  cached.put("stripped");
  CHECK(cached.look_up() == cached.truth());
  cached.mark_kept();
  CHECK(cached.answers());
  fs::last_write_time(cached.program(), fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK_FALSE(cached.answers());
  cached.put("symbol_subject");
  CHECK(cached.look_up() == cached.truth());
}

TEST_CASE("debug files that appear, change and go are noticed past the cache of symbols", "[report][symbol-cache]") {
  const Cached cached("split");
  const std::string without = cached.look_up();
  const std::string debug_file = kCachedSubjects + "/debug/split.debug";
  fs::copy_file(debug_file, cached.debug_file());
  const std::string with = cached.look_up();
  CHECK(with != without);
  CHECK(with == cached.truth());
  cached.mark_kept();
  CHECK(cached.answers());
  fs::last_write_time(cached.debug_file(), fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK_FALSE(cached.answers());
  fs::remove(cached.debug_file());
  CHECK(cached.look_up() == without);
  // The answer does not depend on what was looked up before.
  SymbolOptions options = cached.options;
  options.debug_dirs = {kCachedSubjects + "/debug"};
  for (int i = 0; i < 2; ++i) {
    CHECK(cached.look_up(options, cached.addresses()) == with);
    CHECK(cached.look_up() == without);
  }
}

TEST_CASE("servers of debug information are asked again after a while", "[report][symbol-cache]") {
  const EnvironmentVariable urls("DEBUGINFOD_URLS", "http://127.0.0.1:9");
  const Cached cached("split");
  const EnvironmentVariable downloads("DEBUGINFOD_CACHE_PATH", cached.options.cache_folder + ".downloads");
  cached.look_up();
  cached.mark_kept();
  CHECK(cached.answers());
  const std::string text = cached.kept_text();
  const std::size_t asked = text.find("\"asked_s\":") + 10;
  cached.write_kept(text.substr(0, asked) + "1" + text.substr(text.find(',', asked)));
  CHECK_FALSE(cached.answers());
  cached.mark_kept();
  CHECK(cached.answers());
  const EnvironmentVariable others("DEBUGINFOD_URLS", "http://127.0.0.1:10");
  CHECK_FALSE(cached.answers());
}

TEST_CASE("a program without a build ID leaves nothing in the cache of symbols", "[report][symbol-cache]") {
  const Cached cached("no_build_id");
  CHECK(cached.look_up() == cached.truth());
  CHECK(cached.kept().empty());
}

TEST_CASE("the cache of symbols learns further addresses", "[report][symbol-cache]") {
  const Cached cached("symbol_subject");
  const std::vector<std::uint64_t>& all = cached.addresses();
  cached.look_up(cached.options, {all[0], all[1]});
  cached.look_up(cached.options, {all[2], all[3], all[4]});
  const std::string truth = cached.truth();
  cached.mark_kept();
  CHECK(cached.answers());
  CHECK(truth == cached.truth());
}

TEST_CASE("a damaged cache of symbols is passed over", "[report][symbol-cache]") {
  const Cached cached("symbol_subject");
  const std::string truth = cached.truth();
  cached.look_up();
  const std::string text = cached.kept_text();
  for (std::size_t length = 0; length < text.size(); length += 97) {
    cached.write_kept(text.substr(0, length));
    REQUIRE(cached.look_up() == truth);
  }
  for (const char* other : {"[]", "{}", "null", "{\"schema\":\"culprit.symbols/1\"}", "\x7f\xff"}) {
    cached.write_kept(other);
    REQUIRE(cached.look_up() == truth);
  }
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"texts\":[", "\"texts\":[7,"},
                                 {"\"rule\":", "\"rule\":9"},
                                 {"\"places\":[", "\"places\":[[],{\"a\":1},"},
                                 {"\"build_id\":\"", "\"build_id\":\"0"}}) {
    std::string changed = text;
    cached.write_kept(changed.replace(text.find(from), from.size(), to));
    INFO(to);
    REQUIRE(cached.look_up() == truth);
  }
}

TEST_CASE("a cache of symbols that cannot be written changes no answer", "[report][symbol-cache]") {
  Cached cached("symbol_subject");
  const std::string truth = cached.truth();
  for (const char* folder : {"/dev/null", "/proc/nowhere/cache", "/dev/null/cache"}) {
    cached.options.cache_folder = folder;
    CHECK(cached.look_up() == truth);
  }
}

TEST_CASE("commands share a cache of symbols at one time", "[report][symbol-cache]") {
  const Cached cached("symbol_subject");
  const std::string truth = cached.truth();
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (std::string& answer : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const std::string one = cached.look_up();
        if (one != truth) answer = one;
        if (i % 5 == 0) SymbolCache(cached.options.cache_folder).shrink(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : wrong) CHECK(answer.empty());
}

TEST_CASE("the cache of symbols keeps what was used last", "[report][symbol-cache]") {
  const TemporaryFolder folder;
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    const std::string file = folder.file(std::to_string(i));
    std::ofstream(file) << std::string(1000, 'x');
    fs::last_write_time(file, now - std::chrono::hours(i));
  }
  const SymbolCache cache(folder.path());
  cache.shrink(10000);
  CHECK(fs::exists(folder.file("9")));
  cache.shrink(8000);
  for (int i = 0; i < 10; ++i) CHECK(fs::exists(folder.file(std::to_string(i))) == (i < 6));
}

TEST_CASE("the folder of the cache of symbols follows the environment", "[report][symbol-cache]") {
  const TemporaryFolder folder;
  const EnvironmentVariable home("HOME", folder.path());
  const EnvironmentVariable unset("XDG_CACHE_HOME", "");
  {
    const EnvironmentVariable own("CULPRIT_CACHE", "");
    CHECK(symbol_cache_folder() == folder.file(".cache/culprit/symbols"));
    const EnvironmentVariable caches("XDG_CACHE_HOME", folder.file("caches"));
    CHECK(symbol_cache_folder() == folder.file("caches/culprit/symbols"));
    const EnvironmentVariable relative("XDG_CACHE_HOME", "caches");
    CHECK(symbol_cache_folder() == folder.file(".cache/culprit/symbols"));
    const EnvironmentVariable nowhere("HOME", "");
    CHECK(symbol_cache_folder().empty());
  }
  const EnvironmentVariable off("CULPRIT_CACHE", "off");
  CHECK(symbol_cache_folder().empty());
  const EnvironmentVariable own("CULPRIT_CACHE", folder.file("own"));
  CHECK(symbol_cache_folder() == folder.file("own"));
  // With sudo the home may be another user's.
  const EnvironmentVariable others("CULPRIT_CACHE", "/proc/1/fd");
  CHECK(symbol_cache_folder().empty() == (::geteuid() != 0));
}
