#include "interpose/metering/look_ups.h"

#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "tests/catch.h"

namespace culprit {
namespace {

template <typename Handle>
Handle handle(std::uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

}  // namespace

TEST_CASE("handles and names make the key of a look-up, results and sizes do not", "[look-ups]") {
  CUfunction first = nullptr, second = nullptr;
  const char name[] = "kernel";
  const auto key = look_up_key(Api::cuModuleGetFunction, &first, handle<CUmodule>(8), "kernel");
  CHECK(key == look_up_key(Api::cuModuleGetFunction, &second, handle<CUmodule>(8), &name[0]));
  CHECK(key != look_up_key(Api::cuModuleGetFunction, &first, handle<CUmodule>(16), "kernel"));
  CHECK(key != look_up_key(Api::cuModuleGetFunction, &first, handle<CUmodule>(8), "kernel2"));
  const char* none = nullptr;
  CHECK(key != look_up_key(Api::cuModuleGetFunction, &first, handle<CUmodule>(8), none));

  int value = 0;
  CHECK(look_up_key(Api::cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, handle<CUfunction>(8)) !=
        look_up_key(Api::cuFuncLoad, handle<CUfunction>(8)));
}

TEST_CASE("the kernel of a launch and of a look-up is among the arguments", "[look-ups]") {
  CUfunction function = handle<CUfunction>(8);
  CUkernel kernel = handle<CUkernel>(16);
  const CUlaunchConfig* config = nullptr;
  CHECK(argument_of<CUfunction>(function, 1U, 1U, CUstream(nullptr)) == function);
  CHECK(argument_of<CUfunction>(config, function) == function);
  CHECK(argument_of<CUfunction>(static_cast<CUDA_LAUNCH_PARAMS*>(nullptr), 0U, 0U) == nullptr);
  CHECK(looked_up_kernel(CUDA_SUCCESS, &function, kernel) == function);
  CHECK(looked_up_kernel(CUDA_SUCCESS, &kernel, handle<CUlibrary>(8), "name") == kernel);
  CHECK(looked_up_kernel(CUDA_SUCCESS, static_cast<CUfunction*>(nullptr), kernel) == nullptr);
  CHECK(looked_up_kernel(CUDA_SUCCESS, function) == nullptr);
  // A call that failed wrote no handle, and its pointer may be anything.
  CHECK(looked_up_kernel(CUDA_ERROR_INVALID_VALUE, handle<CUfunction*>(1), kernel) == nullptr);
}

TEST_CASE("a name of a look-up is read as far as memory goes", "[look-ups]") {
  constexpr std::size_t kPage = 4096;
  auto* pages =
      static_cast<char*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  std::memset(pages, 'a', 2 * kPage);
  REQUIRE(munmap(pages + 2 * kPage, kPage) == 0);
  CHECK(readable_length(pages) == 2 * kPage);
  CHECK(readable_length(pages + 2 * kPage - 3) == 3);
  CHECK(readable_length(pages + 2 * kPage) == 0);
  pages[kPage + 5] = '\0';
  CHECK(readable_length(pages + 1) == kPage + 4);
  for (const std::uintptr_t wild : {std::uintptr_t{1}, std::uintptr_t{4095}, ~std::uintptr_t{0}, ~std::uintptr_t{7},
                                    std::uintptr_t{1} << 63, std::uintptr_t{1} << 56}) {
    INFO(wild);
    CHECK(readable_length(handle<const char*>(wild)) == 0);
  }
  munmap(pages, 2 * kPage);
}

TEST_CASE("a look-up is known in its context until code ends", "[look-ups]") {
  const auto look_ups = std::make_unique<LookUps>();
  const auto key = look_up_key(Api::cuFuncLoad, handle<CUfunction>(8));
  const auto first = handle<CUcontext>(8), second = handle<CUcontext>(16);
  look_ups->add(look_ups->in_context(key, first));
  CHECK(look_ups->contains(look_ups->in_context(key, first)));
  CHECK_FALSE(look_ups->contains(look_ups->in_context(key, second)));
  look_ups->forget();
  CHECK_FALSE(look_ups->contains(look_ups->in_context(key, first)));
}

TEST_CASE("a launch is known until it is removed", "[look-ups]") {
  const auto look_ups = std::make_unique<LookUps>();
  const auto kernel = LookUps::of_launch(handle<CUfunction>(8), handle<CUcontext>(8));
  const auto graph = LookUps::of_launch(handle<CUgraphExec>(8));
  for (const auto key : {kernel, graph}) {
    look_ups->add(key);
    look_ups->forget();
    CHECK(look_ups->contains(key));
    look_ups->remove(key);
    CHECK_FALSE(look_ups->contains(key));
  }
}

TEST_CASE("thousands of kernels are known at the same time, also after code ended often", "[look-ups]") {
  const auto look_ups = std::make_unique<LookUps>();
  constexpr int kKernels = 2000;
  const auto key = [&](int i) {
    return look_ups->in_context(look_up_key(Api::cuFuncLoad, handle<CUfunction>(std::uintptr_t{64} * (i + 1))),
                                handle<CUcontext>(8));
  };
  for (int turn = 0; turn < 100; ++turn) {
    look_ups->forget();
    for (int i = 0; i < kKernels; ++i) look_ups->add(key(i));
  }
  int known = 0;
  for (int i = 0; i < kKernels; ++i) known += look_ups->contains(key(i)) ? 1 : 0;
  CHECK(known >= kKernels - 40);
  // Kernels of one bucket that are used in turn do not replace each other for ever: most of them are known.
  for (int turn = 0; turn < 20; ++turn) {
    for (int i = 0; i < kKernels; ++i) {
      if (!look_ups->contains(key(i))) look_ups->add(key(i));
    }
  }
  known = 0;
  for (int i = 0; i < kKernels; ++i) known += look_ups->contains(key(i)) ? 1 : 0;
  CHECK(known >= kKernels - 40);
}

}  // namespace culprit
