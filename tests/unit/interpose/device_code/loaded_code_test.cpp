// Loaded code is known until it is unloaded, and images that may be gone are read at once.
#include "interpose/device_code/loaded_code.h"

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr Architectures kHere = {1, {90}};

// In a read-only part of this program's file.
const char kImage[] = ".version 7.0\n.target sm_80\n.global .u64 in_file;\n";
const char kOtherImage[] = ".version 7.0\n.target sm_80\n.global .u64 in_memory;\n";

struct Free {
  void operator()(LoadedCode* memory) const { std::free(memory); }
};

// All zeros, as in libculprit.so.
std::unique_ptr<LoadedCode, Free> new_table() {
  return std::unique_ptr<LoadedCode, Free>(static_cast<LoadedCode*>(std::calloc(1, sizeof(LoadedCode))));
}

struct Answer {
  LoadedCode::Known known;
  std::string names;
};

Answer ask(LoadedCode& code, std::uint64_t handle, bool is_library = false) {
  const auto names = std::make_unique<VariableNames>();
  std::uint64_t budget = 1 << 20;
  const LoadedCode::Known known = code.names_of(handle, is_library, kHere, &budget, names.get());
  return {known, std::string(names->text, names->bytes == 0 ? 0 : names->bytes - 1)};
}

}  // namespace

TEST_CASE("the names of loaded code are known until it is unloaded", "[device-code]") {
  const auto code = new_table();
  CHECK(ask(*code, 100).known == LoadedCode::Known::kNotAll);
  code->add(100, {kImage, nullptr}, true);
  CHECK(ask(*code, 100).known == LoadedCode::Known::kAll);
  CHECK(ask(*code, 100).names == "in_file");
  code->remove(100);
  CHECK(ask(*code, 100).known == LoadedCode::Known::kNotAll);
}

TEST_CASE("an image in memory is read when it is loaded", "[device-code]") {
  const auto code = new_table();
  std::string image = kOtherImage;
  code->add(100, {image.c_str(), nullptr}, true);
  code->add(200, {image.c_str(), nullptr}, false);
  image.assign(image.size(), 'x');
  CHECK(ask(*code, 100).names == "in_memory");
  CHECK(ask(*code, 200).known == LoadedCode::Known::kNotAll);
  // The same handle for other code.
  code->add(100, {kImage, nullptr}, true);
  CHECK(ask(*code, 100).names == "in_file");
  image = "no code";
  code->add(100, {image.c_str(), nullptr}, true);
  CHECK(ask(*code, 100).known == LoadedCode::Known::kNotAll);
}

TEST_CASE("a library has variables once it is used", "[device-code]") {
  const auto code = new_table();
  code->add(100, {kImage, nullptr}, true);
  CHECK(ask(*code, 100, true).known == LoadedCode::Known::kNotUsed);
  code->note_use(100);
  CHECK(ask(*code, 100, true).known == LoadedCode::Known::kAll);
  code->add(100, {kImage, nullptr}, true);
  CHECK(ask(*code, 100, true).known == LoadedCode::Known::kNotUsed);
}

TEST_CASE("kernels are known until any code ends", "[device-code]") {
  const auto code = new_table();
  const auto kernels = [&] {
    std::set<std::uint64_t> handles;
    code->for_each_kernel([&](std::uint64_t handle) { handles.insert(handle); });
    return handles;
  };
  code->add(100, {kImage, nullptr}, true);
  code->note_kernel(0x1000);
  code->note_kernel(0x2000);
  code->note_kernel(0x1000);
  code->add(200, {kImage, nullptr}, true);
  CHECK(kernels() == std::set<std::uint64_t>{0x1000, 0x2000});
  code->remove(100);
  CHECK(kernels().empty());
  for (std::uint64_t handle = 1; handle < 100000; ++handle) code->note_kernel(handle * 16);
  CHECK(kernels().size() > 10000);
  code->forget_kernels();
  CHECK(kernels().empty());
}

TEST_CASE("code that is loaded and unloaded for ever leaves room", "[device-code][one-thread]") {
  const auto code = new_table();
  const std::string image = kOtherImage;
  for (std::uint64_t handle = 1; handle < 50000; ++handle) {
    code->add(handle, {image.c_str(), nullptr}, true);
    if (handle % 1000 == 0) {
      INFO(handle);
      CHECK(ask(*code, handle).names == "in_memory");
    }
    code->remove(handle);
  }
}
