// Which memory is a segment of a framework's cache. The stacks are those of PyTorch 2.11, CuPy 14.2 and JAX 0.11 on an
// H200, shortened.
#include "report/judge/pool_rules.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/run/framework_caches.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using culprit::test::DumpBuilder;
using culprit::test::has;
using culprit::test::live_allocation;
using culprit::test::Program;
using culprit::test::TemporaryFolder;

namespace {

const std::string kC10 = "/venv/torch/lib/libc10_cuda.so";
const std::string kTorch = "/venv/torch/lib/libtorch_cuda.so";
const std::string kCuPy = "/venv/cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so";
const std::string kXla = "/venv/jax_plugins/xla_cuda13/xla_cuda_plugin.so";

// A program of frameworks: stacks of "module!function", innermost first; "~" before the function: only nearest.
struct Frameworks : Program {
  Ref stack_of(const std::vector<std::pair<std::string, std::string>>& frames) {
    std::vector<std::uint64_t> addresses;
    for (const auto& [path, function] : frames) {
      if (modules.count(path) == 0) modules[path] = dump.add_module(path);
      next += 0x100;
      CodeLocation location;
      location.approximate = !function.empty() && function[0] == '~';
      location.function = location.approximate ? function.substr(1) : function;
      if (!function.empty()) symbols.add(path, next, location);
      addresses.push_back(DumpBuilder::frame(modules[path], next));
    }
    return dump.add_stack(addresses);
  }
  // The pool's name for one allocation with this stack, "" for none.
  std::string pool_of(const std::vector<std::pair<std::string, std::string>>& frames, Kind kind = Kind::kDevice) {
    Frameworks alone;
    alone.dump.add_allocation(live_allocation(alone.stack_of(frames), 64, kind));
    const Report result = alone.report();
    const Group& group = result.leaks.at(0);
    CHECK((group.cause == Cause::kCached) == (group.pool != nullptr));
    return group.pool != nullptr ? group.pool->name : "";
  }
  std::map<std::string, std::uint32_t> modules;
  std::uint64_t next = 0x100000;
};

const std::string kNamespace = "c10::cuda::CUDACachingAllocator::Native::";

}  // namespace

TEST_CASE("PyTorch's segments are cached, and its allocations without the cache are not", "[report][pools]") {
  Frameworks torch;
  CHECK(torch.pool_of({{kC10, kNamespace + "DeviceCachingAllocator::alloc_block"},
                       {kC10, kNamespace + "DeviceCachingAllocator::malloc"},
                       {kC10, kNamespace + "NativeCachingAllocator::malloc"},
                       {kC10, kNamespace + "NativeCachingAllocator::allocate"},
                       {kTorch, "at::detail::empty_cuda"}}) == "PyTorch caching allocator");
  CHECK(torch.pool_of({{kC10, "c10::cuda::CUDACachingAllocator::DeviceCachingAllocator::alloc_block"},
                       {kTorch, "at::detail::empty_cuda"}}) == "PyTorch caching allocator");
  CHECK(torch.pool_of({{kC10, kNamespace + "(anonymous namespace)::ExpandableSegment::map"},
                       {kC10, kNamespace + "DeviceCachingAllocator::map_block"}},
                      Kind::kVmmPhysical) == "PyTorch caching allocator");
  CHECK(torch.pool_of(
            {{kTorch, "at::cuda::(anonymous namespace)::CUDACachingHostAllocatorImpl::allocate_host_memory_slowpath"},
             {kTorch, "at::detail::empty_generic"}},
            Kind::kPinnedHost) == "PyTorch pinned memory cache");
  // PYTORCH_NO_CUDA_MEMORY_CACHING=1
  CHECK(torch.pool_of({{kC10, kNamespace + "NativeCachingAllocator::allocate"}, {kTorch, "at::detail::empty_cuda"}})
            .empty());
  CHECK(torch.pool_of({{kC10, "c10::cuda::raw_device_malloc"}, {"/bin/app", "main"}}).empty());
  CHECK(torch.pool_of({{"/lib/libmine.so", kNamespace + "DeviceCachingAllocator::malloc"}}).empty());
  CHECK(torch.pool_of({{"/lib/libmine.so", "my_malloc"}, {kTorch, "torch::cuda::CUDAPluggableAllocator::malloc"}})
            .empty());
}

TEST_CASE("a stripped PyTorch shows its cache by the depth of the call", "[report][pools]") {
  Frameworks torch;
  CHECK(torch.pool_of({{kC10, ""}, {kC10, "~c10::near"}, {kC10, ""}, {kTorch, "at::empty"}}) ==
        "PyTorch caching allocator");
  CHECK(torch.pool_of({{kC10, ""}, {kTorch, "at::empty"}}).empty());
  CHECK(torch.pool_of({{kC10, ""}, {kC10, "c10::cuda::raw_device_malloc"}, {kC10, ""}, {kC10, ""}}).empty());
}

TEST_CASE("CuPy's, XLA's, RMM's, TensorFlow's and ONNX Runtime's segments are cached", "[report][pools]") {
  Frameworks other;
  const std::string prefix = "__pyx_f_4cupy_4cuda_6memory_";
  CHECK(other.pool_of({{kCuPy, "__pyx_pw_4cupy_4cuda_6memory_6Memory_1__init__"},
                       {kCuPy, prefix + "_malloc"},
                       {kCuPy, prefix + "22SingleDeviceMemoryPool__alloc"}}) == "CuPy memory pool");
  CHECK(other
            .pool_of({{kCuPy, "__pyx_pw_4cupy_4cuda_6memory_6Memory_1__init__"},
                      {kCuPy, prefix + "_malloc"},
                      {kCuPy, prefix + "alloc"}})
            .empty());
  CHECK(other.pool_of({{"/other/memory.cpython-312.so", prefix + "22SingleDeviceMemoryPool__alloc"}}).empty());
  CHECK(other.pool_of({{kXla, "stream_executor::gpu::CudaDeviceAllocator::Allocate"},
                       {kXla, "stream_executor::DeviceMemAllocator::Alloc"},
                       {kXla, "tsl::BFCAllocator::Extend"}},
                      Kind::kVmmPhysical) == "XLA BFC allocator");
  CHECK(other
            .pool_of({{kXla, "stream_executor::gpu::CudaDeviceAllocator::Allocate"},
                      {kXla, "stream_executor::StreamExecutorMemoryAllocator::AllocateRaw"}},
                     Kind::kVmmPhysical)
            .empty());
  CHECK(other.pool_of({{"/venv/libtensorflow_framework.so.2", "tsl::BFCAllocator::Extend"}}) ==
        "TensorFlow BFC allocator");
  CHECK(other.pool_of({{"/bin/app", "rmm::mr::cuda_memory_resource::do_allocate"},
                       {"/bin/app", "rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>::expand_pool"}}) ==
        "RMM pool");
  // From 26.10 on an inline namespace has the version.
  const std::string rmm = "rmm::_RMM_26_10::mr::";
  CHECK(other.pool_of({{"/venv/librmm.so", rmm + "cuda_memory_resource::allocate"},
                       {"/venv/librmm.so", rmm + "detail::pool_memory_resource_impl::block_from_upstream"},
                       {"/venv/librmm.so", rmm + "pool_memory_resource::pool_memory_resource"}}) == "RMM pool");
  CHECK(other.pool_of({{"/venv/librmm.so", rmm + "cuda_memory_resource::allocate"}}).empty());
  CHECK(other
            .pool_of({{"/bin/app", "rmm::mr::cuda_memory_resource::do_allocate"},
                      {"/bin/app", "rmm::device_buffer::device_buffer"}})
            .empty());
  CHECK(other.pool_of({{"/lib/libonnxruntime_providers_cuda.so", "onnxruntime::CUDAAllocator::Alloc"},
                       {"/lib/libonnxruntime.so.1", "onnxruntime::BFCArena::Extend"}}) == "ONNX Runtime arena");
}

TEST_CASE("PyCUDA's pools are cached, and its allocations without a pool are not", "[report][pools]") {
  Frameworks pycuda;
  const std::string driver = "/usr/lib/python3/dist-packages/pycuda/_driver.cpython-311-x86_64-linux-gnu.so";
  const std::string caller = "boost::python::objects::caller_py_function_impl<...>::operator()";
  CHECK(pycuda.pool_of({{driver, "pycuda::memory_pool<(anonymous namespace)::device_allocator>::allocate"},
                        {driver, caller}}) == "PyCUDA memory pool");
  CHECK(pycuda.pool_of({{driver, "(anonymous namespace)::device_pool_allocate"}, {driver, caller}}) ==
        "PyCUDA memory pool");
  CHECK(pycuda.pool_of({{driver, "(anonymous namespace)::host_pool_allocate"}, {driver, caller}}) ==
        "PyCUDA memory pool");
  CHECK(pycuda.pool_of({{"/lib/_driver.so", "(anonymous namespace)::device_pool_allocate"}}).empty());
  CHECK(pycuda.pool_of({{driver, "pycuda::device_allocation::device_allocation"}, {driver, caller}}).empty());
  // Debian's is stripped.
  CHECK(pycuda.pool_of({{driver, "~pycuda_expose_tools"}, {driver, "~pycuda_expose_tools"}}) == "PyCUDA memory pool");
  CHECK(pycuda.pool_of({{driver, "~PyInit__driver"}, {driver, caller}}).empty());
  CHECK(pycuda.pool_of({{driver, "pycuda_expose_tools"}}).empty());
  CHECK(pycuda.pool_of({{"/lib/_driver.so", "~pycuda_expose_tools"}}).empty());
}

TEST_CASE("memory that NVIDIA's library allocates inside a cached call is the library's", "[report][pools]") {
  Frameworks torch;
  torch.dump.add_allocation(live_allocation(
      torch.stack_of({{"/lib/libcublas.so.13", ""}, {kC10, kNamespace + "DeviceCachingAllocator::malloc"}}), 64));
  const Report report = torch.report();
  CHECK(report.leaks.empty());
  CHECK(report.library.at(0).pool == nullptr);
}

TEST_CASE("a pool that counts nothing is known as far as Python's objects lie in it", "[report][pools]") {
  Frameworks rmm;
  AllocationRecord segment = live_allocation(
      rmm.stack_of({{"/v/librmm.so", "rmm::_V_26_10::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>::expand"},
                    {"/v/librmm.so", "rmm::device_buffer::device_buffer"}}),
      64 << 20);
  segment.handle = 0x7f0000000000;
  rmm.dump.add_allocation(segment);
  // `cache` has a buffer, an array inside it and one that ends behind the segment.
  const std::uint64_t begin = segment.handle, last = begin + (63 << 20);
  const nlohmann::json graph = {{"strings", {"dict", "DeviceBuffer", "cache", "['a']", "rmm"}},
                                {"nodes", {0, 1, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}},
                                {"edges", {0, 1, 3, 0, 2, 3, 0, 3, 3}},
                                {"variables", {0, 2, 0}},
                                {"memory", {1, begin, 12 << 20, 2, begin + 4096, 1 << 20, 3, last, 2 << 20}},
                                {"pools", {4, 4, 4}}};
  const nlohmann::json view = {{"schema", "culprit.python/1"}, {"taken", "exit"}, {"graph", graph}};
  const TemporaryFolder folder;
  rmm.dump.write(folder.file("x.dump"));
  std::ofstream(folder.file("x.dump.python.json")) << view;
  LoadOptions options;
  options.lookup = rmm.symbols.lookup();
  const Report report = load_report(folder.file("x.dump"), options);
  REQUIRE(report.caches_inside.size() == 1);
  const CacheInside& inside = report.caches_inside[0];
  CHECK(inside.pool == "RMM pool");
  CHECK(inside.live_bytes == 13 << 20);
  CHECK(inside.idle_bytes == 0);
  CHECK(inside.uncounted_bytes == 51 << 20);
  REQUIRE(inside.kept.size() == 1);
  CHECK(inside.kept[0].path == "`cache['a']`");
  CHECK(inside.kept[0].bytes == 13 << 20);
  std::ostringstream text;
  render_text({report}, {}, text);
  CHECK(has(text.str(), "LIVE IN CACHES: at least 13.0 MiB, kept by `cache['a']`\n"));
  CHECK(has(text.str(), "13.0 MiB live · 51.0 MiB idle or without an object of Python, when Python began to end\n"));
}

TEST_CASE("cached memory is summed up by its pool and counts only when asked", "[report][pools]") {
  Frameworks torch;
  const Ref small = torch.stack_of({{kC10, kNamespace + "DeviceCachingAllocator::malloc"}, {kTorch, "at::empty"}});
  const Ref large = torch.stack_of({{kC10, kNamespace + "DeviceCachingAllocator::malloc"}, {kTorch, "at::matmul"}});
  const Ref pinned = torch.stack_of({{kTorch, "at::cuda::CachingHostAllocator_x"}, {kTorch, "at::pin"}});
  for (int i = 0; i < 3; ++i) torch.dump.add_allocation(live_allocation(small, 2 << 20));
  torch.dump.add_allocation(live_allocation(large, 20 << 20));
  torch.dump.add_allocation(live_allocation(pinned, 4096, Kind::kPinnedHost));
  torch.dump.add_allocation(live_allocation(torch.stack({"make", "main"}), 64));
  SECTION("not counted") {
    const Report report = torch.report();
    CHECK(report.summary.leaked_bytes == 64);
    CHECK(report.summary.groups == 1);
    CHECK(report.summary.cached_bytes == (26 << 20) + 4096);
    REQUIRE(report.summary.caches.size() == 2);
    CHECK(report.summary.caches[0].segments == 4);
    CHECK(report.summary.caches[0].bytes == 26 << 20);
    std::ostringstream out;
    render_text({report}, {}, out);
    CHECK(has(out.str(),
              "CACHED (--strict counts it)\n"
              "\n"
              "2  26.0 MiB  4 segments  PyTorch caching allocator\n"
              "   largest    20.0 MiB  1x  at::matmul"));
    CHECK(has(out.str(), "              6.00 MiB  3x  at::empty"));
    CHECK(has(out.str(), "3  4.00 KiB  1 segment  PyTorch pinned memory cache\n"));
  }
  SECTION("--strict") {
    JudgeOptions options;
    options.strict = true;
    const Report report = torch.report(options);
    CHECK(report.summary.leaked_bytes == (26 << 20) + 4096 + 64);
    CHECK(report.summary.groups == 4);
    std::ostringstream out;
    RenderOptions render;
    render.strict = true;
    render_text({report}, render, out);
    CHECK(has(out.str(), "CACHED by the PyTorch caching allocator"));
    CHECK_FALSE(has(out.str(), "counts it"));
  }
}

TEST_CASE("a pool's evidence does not change that it is cached", "[report][pools]") {
  Frameworks torch;
  AllocationRecord record =
      live_allocation(torch.stack_of({{kC10, kNamespace + "DeviceCachingAllocator::malloc"}, {kTorch, "at::e"}}), 64);
  record.flags = kFlagFreeFailed;
  torch.dump.add_allocation(record);
  const Report report = torch.report();
  CHECK(report.leaks.at(0).cause == Cause::kCached);
  CHECK(report.leaks[0].evidence.at(0).type == EvidenceType::kFailedFree);
}

TEST_CASE("the switches of the frameworks leave alone what the user has set", "[report][pools]") {
  auto value_of = [](const std::string& name) -> std::string {
    for (const auto& [variable, value] : framework_cache_switches()) {
      if (variable == name) return value;
    }
    return "";
  };
  ::unsetenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
  ::unsetenv("XLA_PYTHON_CLIENT_ALLOCATOR");
  CHECK(value_of("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1");
  CHECK(value_of("XLA_PYTHON_CLIENT_ALLOCATOR") == "platform");
  CHECK(value_of("TF_GPU_ALLOCATOR") == "cuda_malloc_async");
  ::setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", 1);
  CHECK(value_of("XLA_PYTHON_CLIENT_ALLOCATOR").empty());
  ::unsetenv("XLA_PYTHON_CLIENT_ALLOCATOR");
}
