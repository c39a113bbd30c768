#include "interpose/system/environment.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "interpose/process/variables.h"
#include "tests/catch.h"
#include "tests/support/environment_variable.h"

using namespace culprit;

namespace {

bool wants_rank(const char* name, std::size_t length, const void*) {
  return std::string(name, length) == "RANK" || std::string(name, length) == "SIZE";
}

struct Result {
  bool certain;
  std::string rank;
  std::string size;
};

Result read_array(char** array) {
  const auto copies = std::make_unique<VariableCopies>();
  copies->clear();
  const bool certain = copy_variables_of(&array, wants_rank, nullptr, copies.get());
  const char* rank = copies->find("RANK", 4);
  const char* size = copies->find("SIZE", 4);
  return {certain, rank != nullptr ? rank : "-", size != nullptr ? size : "-"};
}

char* text(const char* entry) { return const_cast<char*>(entry); }

// The last pages of a mapping cannot be read.
class Guarded {
 public:
  explicit Guarded(std::size_t readable) : readable_(readable) {
    void* memory =
        mmap(nullptr, readable + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory_ = static_cast<char*>(memory);
    REQUIRE(mprotect(memory_ + readable, kGuard, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(memory_, readable_ + kGuard); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* end() const { return memory_ + readable_; }

 private:
  static constexpr std::size_t kGuard = 16384;
  std::size_t readable_;
  char* memory_;
};

}  // namespace

TEST_CASE("an environment of any shape is read without a fault") {
  SECTION("none") {
    CHECK(read_array(nullptr).certain);
    CHECK(read_array(nullptr).rank == "-");
  }
  SECTION("an address that is none") {
    CHECK_FALSE(read_array(reinterpret_cast<char**>(1)).certain);
    CHECK_FALSE(read_array(reinterpret_cast<char**>(~std::uint64_t{7})).certain);
  }
  SECTION("entries that cannot be read, or are none") {
    char* array[] = {reinterpret_cast<char*>(8),
                     text("RANK"),
                     text(""),
                     text("=RANK=1"),
                     text("RANK=3"),
                     reinterpret_cast<char*>(~std::uint64_t{0}),
                     text("RANK=4"),
                     text("SIZE="),
                     nullptr};
    const Result result = read_array(array);
    CHECK(result.certain);
    CHECK(result.rank == "3");  // as getenv() does: the first one
    CHECK(result.size.empty());
  }
  SECTION("an array without an end") {
    Guarded memory(1 << 16);
    auto** end = reinterpret_cast<char**>(memory.end());
    for (int i = 1; i <= 1000; ++i) end[-i] = text("RANK=5");
    const Result result = read_array(end - 1000);
    CHECK_FALSE(result.certain);
    CHECK(result.rank == "5");
  }
  SECTION("a value that ends where memory ends") {
    Guarded memory(4096);
    char* entry = memory.end() - sizeof("RANK=12");
    std::memcpy(entry, "RANK=12", sizeof("RANK=12"));
    char* array[] = {entry, text("SIZE=16"), nullptr};
    CHECK(read_array(array).rank == "12");
    CHECK(read_array(array).size == "16");
  }
  SECTION("long values are cut, and long names are no names") {
    const std::string longest = "RANK=" + std::string(VariableCopies::kLongestValue, 'x');
    const std::string longer = longest + "yyy", name(300, 'n'), huge = "SIZE=" + std::string(1 << 20, 'z');
    char* array[] = {text(name.c_str()), text(longer.c_str()), text(huge.c_str()), nullptr};
    CHECK("RANK=" + read_array(array).rank == longest);
    CHECK(read_array(array).size.size() == VariableCopies::kLongestValue);
  }
  SECTION("thousands of variables") {
    std::vector<std::string> entries;
    for (int i = 0; i < 20000; ++i) entries.push_back("NAME" + std::to_string(i) + "=" + std::string(i % 100, 'v'));
    entries.insert(entries.begin() + 19000, "RANK=77");
    std::vector<char*> array;
    for (const std::string& entry : entries) array.push_back(text(entry.c_str()));
    array.push_back(nullptr);
    CHECK(read_array(array.data()).rank == "77");
  }
}

TEST_CASE("an environment whose array another thread moves and unmaps all the time is read") {
  constexpr std::size_t kEntries = 3000;
  constexpr std::size_t kBytes = (kEntries + 8) * sizeof(char*);
  char** now = nullptr;
  std::atomic<bool> over{false};
  const auto make = [&](int round) {
    auto** array =
        static_cast<char**>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < kEntries; ++i) array[i] = text(round % 2 == 0 ? "A=1" : "LONGER=2");
    array[kEntries / 2] = text("RANK=7");
    array[kEntries] = text("SIZE=8");
    array[kEntries + 1] = nullptr;
    return array;
  };
  __atomic_store_n(&now, make(0), __ATOMIC_RELEASE);
  std::thread mover([&] {
    for (int round = 1; !over; ++round) {
      char** before = now;
      __atomic_store_n(&now, make(round), __ATOMIC_RELEASE);
      munmap(before, kBytes);
    }
  });
  const auto copies = std::make_unique<VariableCopies>();
  copies->clear();
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    const bool certain = copy_variables_of(&now, wants_rank, nullptr, copies.get());
    const char* rank = copies->find("RANK", 4);
    const char* size = copies->find("SIZE", 4);
    const bool right = (rank == nullptr || std::string(rank) == "7") && (size == nullptr || std::string(size) == "8");
    if (!right || (certain && (rank == nullptr || size == nullptr))) ++found;
  }
  over = true;
  mover.join();
  munmap(now, kBytes);
  CHECK(found == 0);
}

TEST_CASE("the environment of the start is unchanged until a byte or a pointer of it changes") {
  // As the kernel lays it out.
  char strings[] = "A=1\0LONGER=a value of more than eight letters\0EMPTY=\0LAST=4";
  char* entries[] = {strings, strings + 4, strings + 46, strings + 53, nullptr};
  REQUIRE(std::string(entries[3]) == "LAST=4");
  char** const array = environ;
  const auto unchanged = [&](const StartEnvironment& start, char** now) {
    environ = now;
    const bool result = start.is_unchanged();
    environ = array;
    return result;
  };
  StartEnvironment start = {};
  CHECK_FALSE(unchanged(start, entries));
  start.remember(entries);
  CHECK(unchanged(start, entries));
  CHECK_FALSE(unchanged(start, nullptr));
  char* others[] = {entries[0], entries[1], entries[2], entries[3], nullptr};
  CHECK_FALSE(unchanged(start, others));

  for (std::size_t i = 0; i + 1 < sizeof(strings); ++i) {
    INFO("byte " << i);
    strings[i] ^= 1;
    CHECK_FALSE(unchanged(start, entries));
    strings[i] ^= 1;
  }
  // A pointer that setenv() has stored is not followed.
  for (char*& entry : entries) {
    char* const before = entry;
    entry = reinterpret_cast<char*>(16);
    CHECK_FALSE(unchanged(start, entries));
    entry = nullptr;
    CHECK(unchanged(start, entries) == (before == nullptr));
    entry = before;
  }
  CHECK(unchanged(start, entries));
}

TEST_CASE("an environment that is large, or not as the kernel lays it out, counts as changed") {
  std::string large(40000, 'x');
  large[1] = '=';
  char* entries[] = {large.data(), nullptr};
  char two[] = "A=1\0\0B=2";
  char* apart[] = {two, two + 5, nullptr};
  char** const array = environ;
  for (char** one : {entries, apart, static_cast<char**>(nullptr)}) {
    StartEnvironment start = {};
    start.remember(one);
    environ = one;
    const bool unchanged = start.is_unchanged();
    environ = array;
    CHECK_FALSE(unchanged);
  }
}

TEST_CASE("a variable has its value of now, and without one that of load") {
  const test::EnvironmentVariable out("CULPRIT_OUT", "at-load.%q{OTHER}"), other("OTHER", "x"),
      depth("CULPRIT_DEPTH", "3");
  keep_variables(environ, false);
  CHECK(std::string(value_at_load("CULPRIT_DEPTH")) == "3");
  CHECK(value_at_load("CULPRIT_LOG") == nullptr);
  {
    const test::EnvironmentVariable now("CULPRIT_DEPTH", "4"), log("CULPRIT_LOG", "off");
    CHECK(std::string(Variables().value("CULPRIT_DEPTH")) == "4");
    CHECK(std::string(Variables().value("CULPRIT_LOG")) == "off");
  }
  char** const array = environ;
  for (char** empty : {static_cast<char**>(nullptr), reinterpret_cast<char**>(16)}) {
    environ = empty;
    const Variables variables;
    const std::string kept = variables.value("CULPRIT_DEPTH");
    const std::string part = variables.value("OTHER");
    const bool none = variables.value("CULPRIT_LOG") == nullptr;
    environ = array;
    CHECK(kept == "3");
    CHECK(part == "x");
    CHECK(none);
  }
  const test::EnvironmentVariable emptied("CULPRIT_DEPTH", "");
  CHECK(std::string(Variables().value("CULPRIT_DEPTH")) == "3");
  char* nothing[] = {nullptr};
  keep_variables(nothing, false);
}
