// The variables of device code are found in each form in which nvcc gives it, and damaged images end no process.
#include "interpose/device_code/code_reader.h"

#include <sys/mman.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "interpose/device_code/fat_binary.h"
#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr Architectures kHopper = {1, {90}};
constexpr Architectures kAmpere = {1, {86}};
constexpr Architectures kTuring = {1, {75}};
constexpr std::uint64_t kBudget = 1 << 20;

std::string image_of(const std::string& name) {
  std::ifstream file(std::string(CULPRIT_DEVICE_IMAGES) + "/" + name, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(bytes.empty());
  return bytes;
}

struct Found {
  bool all;
  std::set<std::string> names;
  std::uint32_t images;
};

Found found(const VariableNames& names, bool all) {
  Found result = {all, {}, names.images};
  const char* name = names.text;
  for (std::uint32_t i = 0; i < names.count; ++i, name += std::string(name).size() + 1) result.names.insert(name);
  return result;
}

Found variables_at(const void* image, const Architectures& architectures, std::uint64_t budget = kBudget) {
  const auto names = std::make_unique<VariableNames>();
  const bool all = read_variable_names(reinterpret_cast<std::uint64_t>(image), architectures, &budget, names.get());
  return found(*names, all);
}

Found variables_of(const std::string& image, const Architectures& architectures, std::uint64_t budget = kBudget) {
  return variables_at(image.c_str(), architectures, budget);
}

// The compiler chooses the name of a variable without linkage.
bool has_hidden(const Found& found) {
  for (const std::string& name : found.names) {
    if (name.find("g_hidden") != std::string::npos) return true;
  }
  return false;
}

void check_variables(const Found& found) {
  CHECK(found.all);
  for (const char* name :
       {"g_table", "g_static", "g_unused", "c_table", "m_pointer", "g_shape", "_ZZ4keepPiE11in_function"}) {
    INFO(name);
    CHECK(found.names.count(name) == 1);
  }
  CHECK(has_hidden(found));
  for (const std::string& name : found.names) CHECK(name.find("shared") == std::string::npos);
}

}  // namespace

TEST_CASE("all variables of an image are found", "[device-code]") {
  check_variables(variables_of(image_of("plain.cubin"), kHopper));
  check_variables(variables_of(image_of("plain.ptx"), kHopper));
  check_variables(variables_of(image_of("zstd.fatbin"), kHopper));
  check_variables(variables_of(image_of("lz4.fatbin"), kHopper));
  // A variable of four bytes holds no address.
  CHECK(variables_of(image_of("plain.cubin"), kHopper).names.count("g_small") == 0);
}

TEST_CASE("of several pieces those are read that the driver may choose", "[device-code]") {
  const std::string image = image_of("zstd.fatbin");
  CHECK(variables_of(image, kHopper).images == 1);
  CHECK(variables_of(image, kAmpere).images == 1);
  // No cubin: PTX of a later architecture is here, which the driver refuses, and which is read all the same.
  CHECK(variables_of(image, kTuring).images == 1);
  const Architectures both = {2, {75, 90}};
  CHECK(variables_of(image, both).images == 2);
}

TEST_CASE("what a program registers leads to its container", "[device-code]") {
  const std::string image = image_of("zstd.fatbin");
  FatBinaryWrapper wrapper = {FatBinaryWrapper::kMagic, 1, reinterpret_cast<std::uint64_t>(image.data()), 0};
  check_variables(variables_at(&wrapper, kHopper));
  wrapper.data = 8;
  CHECK_FALSE(variables_at(&wrapper, kHopper).all);
}

TEST_CASE("an image in a file is read", "[device-code]") {
  const auto names = std::make_unique<VariableNames>();
  std::uint64_t budget = kBudget;
  const std::string folder = CULPRIT_DEVICE_IMAGES;
  const bool all = read_variable_names_of_file((folder + "/zstd.fatbin").c_str(), kHopper, &budget, names.get());
  check_variables(found(*names, all));
  CHECK(budget < kBudget);
  CHECK_FALSE(read_variable_names_of_file((folder + "/missing").c_str(), kHopper, &budget, names.get()));
}

TEST_CASE("code that takes memory from the heap of kernels is not known", "[device-code]") {
  CHECK_FALSE(variables_of(image_of("heap.cubin"), kHopper).all);
  CHECK_FALSE(variables_of(image_of("heap.ptx"), kHopper).all);
}

TEST_CASE("an image beyond the budget is not known", "[device-code]") {
  for (const char* name : {"plain.cubin", "plain.ptx", "zstd.fatbin", "lz4.fatbin"}) {
    INFO(name);
    CHECK_FALSE(variables_of(image_of(name), kHopper, 1000).all);
  }
  // The container fits, its content does not.
  CHECK_FALSE(variables_of(image_of("zstd.fatbin"), kHopper, 4500).all);
}

TEST_CASE("declarations of PTX in all their forms", "[device-code]") {
  const auto in = [](const std::string& text) { return variables_of(".version 7.0\n.target sm_80\n" + text, kHopper); };
  const std::vector<std::pair<std::string, std::set<std::string>>> forms = {
      {".global .u64 a, b[2], c = 5, d[2] = {1, 2};", {"a", "b", "c", "d"}},
      {".visible .global .attribute(.managed, .unified(19,95)) .align 8 .b8 e[16];", {"e"}},
      {".weak .const .v2 .f32 _f = {1.0, 2.0};\n.common .global .u64 $g;", {"_f", "$g"}},
      {"/* .global .u64 no; */ .global .u64 h = generic(h2)+4; // .global .u64 no;", {"h"}},
      {".extern .global .u64 elsewhere;\n.global .u64 i;", {"i"}},
      {".entry k(.param .u64 .ptr .global .align 8 p) { ld.global.u64 %rd1, [i]; }\n.global .u64 j;", {"j"}},
      {".section .debug_str { .b8 46,103 }\n.file 1 \"x .global .u64 no;\"\n.global .u64 k[];", {"k"}},
  };
  for (const auto& [text, names] : forms) {
    INFO(text);
    const Found result = in(text);
    CHECK(result.all);
    CHECK(result.names == names);
  }
  CHECK_FALSE(in(".global .texref picture;").all);
  CHECK_FALSE(in(".global .u64 a").all);
  CHECK_FALSE(in(".global .u64 ;").all);
  CHECK_FALSE(variables_of("no code", kHopper).all);
}

TEST_CASE("a damaged image ends no process", "[device-code][one-thread]") {
  std::mt19937 random(1);
  for (const char* name : {"plain.cubin", "plain.ptx", "zstd.fatbin", "lz4.fatbin"}) {
    const std::string image = image_of(name);
    for (int i = 0; i < 400; ++i) {
      std::string damaged = image;
      for (int bytes = 0; bytes < 1 + i % 4; ++bytes) damaged[random() % damaged.size()] = static_cast<char>(random());
      variables_of(damaged, kHopper);
      variables_of(image.substr(0, random() % image.size()), kHopper);
    }
  }
}

TEST_CASE("an image that is not mapped is not known", "[device-code]") {
  constexpr std::size_t kPage = 4096;
  auto* memory =
      static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(munmap(memory + kPage, kPage) == 0);
  const std::string image = image_of("plain.cubin");
  image.copy(memory + kPage - 2000, 2000);
  CHECK_FALSE(variables_at(memory + kPage - 2000, kHopper).all);
  const std::string text = ".version 7.0\n.global .u64 a;\n";
  text.copy(memory + kPage - text.size(), text.size());  // and no NUL behind it
  CHECK_FALSE(variables_at(memory + kPage - text.size(), kHopper).all);
  CHECK_FALSE(variables_at(memory + kPage, kHopper).all);
  munmap(memory, kPage);
}
