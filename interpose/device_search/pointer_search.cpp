#include "interpose/device_search/pointer_search.h"

#include <algorithm>
#include <cstring>

#include "interpose/device_search/upper_ranges.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/relaxed_capture.h"
#include "interpose/system/clock.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

extern "C" {
extern const unsigned char culprit_kernel_image[];
extern const unsigned char culprit_kernel_image_end[];
}

namespace culprit {
namespace {

constexpr char kKernel[] = "culprit_find_pointers";
constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 2048;  // more than run at the same time on any GPU
constexpr std::uint32_t kPauseMicroseconds = 50;
constexpr std::uint64_t kAlignment = 64;

void add_uppers(const PointerOrder& order, UpperRange* ranges) {
  UpperRanges uppers(ranges);
  std::uint32_t host = 0;
  for (std::uint32_t i = 0; i < order.target_count; ++i) {
    for (; host < order.host_count && order.hosts[host].begin < order.targets[i].begin; ++host)
      uppers.add(order.hosts[host].begin, order.hosts[host].end);
    uppers.add(order.targets[i].begin - kBytesBeforeTarget, order.targets[i].end);
  }
  for (; host < order.host_count; ++host) uppers.add(order.hosts[host].begin, order.hosts[host].end);
  uppers.finish();
}

// Unloads the module at the end of the block.
class KernelModule {
 public:
  KernelModule() {
    if (driver().cuModuleLoadData(&module_, culprit_kernel_image) != CUDA_SUCCESS) module_ = nullptr;
  }
  ~KernelModule() {
    if (module_ != nullptr && !kept_) driver().cuModuleUnload(module_);
  }
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;
  void keep() { kept_ = true; }
  CUfunction kernel() const {
    CUfunction function = nullptr;
    if (module_ == nullptr || driver().cuModuleGetFunction(&function, module_, kKernel) != CUDA_SUCCESS) return nullptr;
    return function;
  }

 private:
  CUmodule module_ = nullptr;
  bool kept_ = false;
};

}  // namespace

struct PointerSearch::Layout {
  explicit Layout(const PointerOrder& order) {
    const auto place = [this](std::uint64_t bytes) {
      const std::uint64_t begin = bytes_on_device;
      bytes_on_device += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return begin;
    };
    slots = place(kSlots * sizeof(std::uint64_t));
    counters = place(sizeof(SearchCounters));
    list = place(kMostFound * sizeof(std::uint64_t));
    input = bytes_on_device;
    memory = place(order.memory_count * sizeof(SearchedMemory));
    targets = place(order.target_count * sizeof(TargetRange));
    hosts = place(order.host_count * sizeof(HostRange));
  }
  std::uint64_t slots, counters, list;          // the first two begin with zeros
  std::uint64_t input, memory, targets, hosts;  // from `input` on filled by us
  std::uint64_t bytes_on_device = 0;
};

bool PointerSearch::is_there() { return &culprit_kernel_image[0] != &culprit_kernel_image_end[0]; }

bool PointerSearch::prepare(const PointerOrder& order, const Layout& layout) {
  int error = 0;
  input_bytes_ = layout.bytes_on_device - layout.input;
  input_ = static_cast<unsigned char*>(map_private(input_bytes_, &error));
  if (input_ == nullptr) return false;
  const auto at = [&](std::uint64_t place) { return input_ + (place - layout.input); };
  std::memcpy(at(layout.memory), order.memory, order.memory_count * sizeof(SearchedMemory));
  std::memcpy(at(layout.targets), order.targets, order.target_count * sizeof(TargetRange));
  std::memcpy(at(layout.hosts), order.hosts, order.host_count * sizeof(HostRange));
  return true;
}

bool PointerSearch::run(CUcontext context, const PointerOrder& order, bool at_exit, std::uint64_t deadline_ns) {
  close();
  if (!is_there() || order.memory_count > kMostNumbers || order.target_count > kMostNumbers) return false;
  const PushedContext pushed(context);
  if (!pushed.done()) return false;
  const RelaxedCapture relaxed;
  const Layout layout(order);
  if (!prepare(order, layout)) return false;
  KernelModule module;
  const CUfunction kernel = module.kernel();
  stream_ = CU_STREAM_LEGACY;
  if (kernel == nullptr || (!at_exit && driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS))
    return false;
  const bool done = run_kernel(kernel, order, layout, deadline_ns);
  if (stuck_) {
    module.keep();
  } else if (!at_exit) {
    driver().cuStreamDestroy_v2(stream_);
  }
  return done;
}

bool PointerSearch::run_kernel(CUfunction kernel, const PointerOrder& order, const Layout& layout,
                               std::uint64_t deadline_ns) {
  CUdeviceptr memory = 0;
  if (driver().cuMemAlloc_v2(&memory, layout.bytes_on_device) != CUDA_SUCCESS) return false;
  SearchOrder on_device = {};
  on_device.memory = reinterpret_cast<const SearchedMemory*>(memory + layout.memory);
  on_device.targets = reinterpret_cast<const TargetRange*>(memory + layout.targets);
  on_device.hosts = reinterpret_cast<const HostRange*>(memory + layout.hosts);
  on_device.counters = reinterpret_cast<SearchCounters*>(memory + layout.counters);
  on_device.slots = reinterpret_cast<std::uint64_t*>(memory + layout.slots);
  on_device.list = reinterpret_cast<std::uint64_t*>(memory + layout.list);
  add_uppers(order, on_device.uppers);
  on_device.memory_count = order.memory_count;
  on_device.target_count = order.target_count;
  on_device.host_count = order.host_count;
  const SearchedMemory& last = order.memory[order.memory_count - 1];
  on_device.pieces = last.first_piece + pieces_of(last.bytes);
  const bool done = search(kernel, on_device, memory, layout, deadline_ns);
  if (!stuck_) driver().cuMemFree_v2(memory);
  return done;
}

bool PointerSearch::search(CUfunction kernel, const SearchOrder& order, CUdeviceptr memory, const Layout& layout,
                           std::uint64_t deadline_ns) {
  if (driver().cuMemsetD8Async(memory, 0, layout.list, stream_) != CUDA_SUCCESS ||
      driver().cuMemcpyHtoDAsync_v2(memory + layout.input, input_, input_bytes_, stream_) != CUDA_SUCCESS)
    return false;
  const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
  if (now >= deadline_ns) return false;
  SearchOrder limited = order;
  limited.longest_ns = deadline_ns - now;
  void* parameters[] = {&limited};
  if (driver().cuLaunchKernel(kernel, kBlocks, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr) != CUDA_SUCCESS)
    return false;
  // The kernel ends at the deadline, but for its last pieces.
  constexpr std::uint64_t kGraceNs = 5'000'000;
  return wait(deadline_ns + kGraceNs) && fetch(order);
}

bool PointerSearch::wait(std::uint64_t deadline_ns) {
  for (;;) {
    const CUresult status = driver().cuStreamQuery(stream_);
    if (status != CUDA_ERROR_NOT_READY) return status == CUDA_SUCCESS;
    stuck_ = clock_ns(CLOCK_MONOTONIC) > deadline_ns;
    if (stuck_) return false;
    sleep_microseconds(kPauseMicroseconds);
  }
}

bool PointerSearch::fetch(const SearchOrder& order) {
  SearchCounters counters = {};
  const auto copy = [this](void* to, const void* from, std::uint64_t bytes) {
    return driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_) == CUDA_SUCCESS &&
           driver().cuStreamSynchronize(stream_) == CUDA_SUCCESS;
  };
  if (!copy(&counters, order.counters, sizeof(counters)) || counters.done != order.pieces || counters.full != 0)
    return false;
  int error = 0;
  count_ = std::min(counters.found, kMostFound);
  list_ = static_cast<std::uint64_t*>(map_private((kMostFound + 1) * sizeof(list_[0]), &error));
  return list_ != nullptr && (count_ == 0 || copy(list_, order.list, count_ * sizeof(list_[0])));
}

void PointerSearch::close() {
  if (list_ != nullptr) unmap_private(list_, (kMostFound + 1) * sizeof(list_[0]));
  if (input_ != nullptr && !stuck_) unmap_private(input_, input_bytes_);
  list_ = nullptr;
  input_ = nullptr;
  count_ = 0;
}

}  // namespace culprit
