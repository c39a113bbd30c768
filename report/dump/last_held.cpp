#include "report/dump/last_held.h"

#include <algorithm>

namespace culprit::report {

using namespace format;

namespace {

constexpr std::size_t kMost = 65536;

// The address as the dump has it; 0: in no module.
std::uint64_t encoded(const Dump& dump, std::uint64_t address) {
  ModuleRecord module;
  for (std::uint32_t i = 0; i < kFrameModuleMask && dump.module(i, &module); ++i) {
    const bool mapped = (module.flags & kModuleUnloaded) == 0;
    if (mapped && address >= module.begin && address < module.end)
      return (std::uint64_t{i} + 1) << kFrameModuleShift | ((address - module.load_bias) & kFrameOffsetMask);
  }
  return 0;
}

// 0: there is none.
std::uint64_t native_frame(const Dump& dump, Ref stack, std::uint32_t depth) {
  StackView view;
  return dump.stack(stack, &view) ? view.native_frame(depth).value_or(0) : 0;
}

}  // namespace

std::vector<LastHeld> read_last_held(const Dump& dump, const std::optional<std::vector<LastHolderRecord>>& scanned) {
  std::vector<LastHolderRecord> found = scanned ? *scanned : dump.last_holders();
  if (found.size() > kMost) found.resize(kMost);
  std::stable_sort(found.begin(), found.end(), [](const LastHolderRecord& left, const LastHolderRecord& right) {
    return left.allocation < right.allocation;
  });
  std::vector<LastHeld> list;
  if (found.empty()) return list;
  auto next = found.begin();
  dump.for_each_allocation([&](const AllocationRecord& record, Ref ref) {
    while (next != found.end() && next->allocation < ref) ++next;
    for (auto one = next; one != found.end() && one->allocation == ref; ++one) {
      if (one->state >> kStateBits != record.state >> kStateBits) continue;
      LastHeld held;
      held.allocation = ref;
      held.record = record;
      const std::uint64_t place = scanned ? encoded(dump, one->place) : one->place;
      if (one->offset == 0) {
        held.data = place;
      } else {
        held.depth = one->depth;
        held.local = LocalPlace{place, native_frame(dump, record.stack, one->depth), one->offset};
      }
      list.push_back(held);
    }
  });
  return list;
}

}  // namespace culprit::report
