#include "interpose/stacks/site_table.h"

namespace culprit {

using format::Ref;
using format::SiteRecord;

namespace {

// A hash of each frame's module (path, build ID) and offset, which do not depend on address-space randomization. A
// frame outside modules (generated code) only counts as a frame. For a Python frame: file, function and line.
std::uint64_t name_of(Ref stack, ModuleTable& modules, DumpWriter& dump) {
  const auto* record = dump.at<format::StackRecord>(stack);
  const auto* frames = reinterpret_cast<const std::uint64_t*>(record + 1);
  std::uint64_t name = hash_words(nullptr, 0, 0);
  for (std::uint32_t i = 0; i < record->frame_count; ++i) {
    std::uint64_t module = modules.identity_of(frames[i]);
    std::uint64_t words[] = {name, module, module == 0 ? 0 : frames[i] & format::kFrameOffsetMask};
    if (frames[i] >> format::kFrameModuleShift == format::kPythonModule)
      words[1] = dump.at<format::PythonFrameRecord>(static_cast<Ref>(frames[i]))->identity;
    name = hash_words(words, 3, 0);
  }
  return name == 0 ? 1 : name;
}

}  // namespace

std::uint64_t SiteTable::note(Ref stack, std::uint16_t api, std::uint64_t number, ModuleTable& modules,
                              DumpWriter& dump) {
  if (stack == 0) return 0;
  std::uint64_t key = mix(stack);
  auto known = [&]() -> SiteRecord* {
    HashIndex::Entry* entry = index_.find(key);
    return entry == nullptr ? nullptr : dump.at<SiteRecord>(entry->value);
  };
  {
    SpinGuard guard(lock_);
    if (SiteRecord* record = known()) {
      add_counter(record->calls, 1);
      return record->site;
    }
  }
  std::uint64_t name = name_of(stack, modules, dump);  // takes the modules' lock
  SpinGuard guard(lock_);
  if (SiteRecord* record = known()) {
    add_counter(record->calls, 1);
    return record->site;
  }
  if (index_.size() == kCapacity) {
    add_counter(dump.header()->dropped_others, 1);
    return name;
  }
  Ref ref = dump.allocate_records(format::ChunkType::kSites, 1, nullptr);
  if (ref == 0 || !index_.insert(key, ref, 0)) return 0;
  auto* record = dump.at<SiteRecord>(ref);
  *record = {};
  record->stack = stack;
  record->site = name;
  record->number = number;
  record->calls = 1;
  record->api = api;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return name;
}

}  // namespace culprit
