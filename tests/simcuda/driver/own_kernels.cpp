#include "tests/simcuda/driver/own_kernels.h"

#include <vector>

#include "interpose/device_search/find_pointers.h"
#include "tests/support/host_memory.h"

namespace simcuda {
namespace {

using culprit::SearchCounters;
using culprit::SearchedMemory;
using culprit::SearchOrder;

void find_pointers(DriverState& state, int device, const SearchOrder& on_device) {
  const auto host = [&](auto* pointer, std::size_t count) {
    using Item = std::remove_reference_t<decltype(*pointer)>;
    return reinterpret_cast<Item*>(
        host_memory(state, device, reinterpret_cast<std::uint64_t>(pointer), count * sizeof(Item)));
  };
  SearchOrder order = on_device;
  const SearchedMemory* listed = host(order.memory, order.memory_count);
  std::vector<SearchedMemory> memory(listed, listed + order.memory_count);
  for (SearchedMemory& one : memory)
    one.begin = reinterpret_cast<std::uint64_t>(host_memory(state, device, one.begin, one.bytes));
  order.memory = memory.data();
  order.targets = host(order.targets, order.target_count);
  order.hosts = host(order.hosts, order.host_count);
  order.counters = host(order.counters, 1);
  order.slots = host(order.slots, culprit::kSlots);
  order.list = host(order.list, culprit::kMostFound);
  culprit::PointerFinder<culprit::HostMemory> finder(order);
  for (std::uint64_t piece = 0; piece < order.pieces; ++piece) {
    for (std::uint32_t thread = 0; thread < culprit::kWarp; ++thread) finder.look_at(piece, thread, culprit::kWarp);
    ++order.counters->done;
  }
}

}  // namespace

void run_own_kernel(DriverState& state, int device, const std::string& name, void** parameters) {
  if (name != "culprit_find_pointers" || parameters == nullptr) return;
  find_pointers(state, device, *static_cast<const SearchOrder*>(parameters[0]));
}

}  // namespace simcuda
