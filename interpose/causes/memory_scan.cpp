#include "interpose/causes/memory_scan.h"

namespace culprit {

using format::HolderSearch;

namespace {

struct Scan {
  HandleSet* handles;
  FoundHandle found;
  void* context;
};

bool match(void* data, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
  const auto* scan = static_cast<Scan*>(data);
  scan->handles->match(words, count, [&](format::Ref allocation, std::uint32_t tag, std::uint64_t index) {
    scan->found(scan->context, allocation, tag, address + index * sizeof(std::uint64_t));
  });
  return scan->handles->missing() != 0;
}

}  // namespace

ScanResult scan_memory(HandleSet& handles, const MemoryRange* ranges, int count, std::uint64_t deadline_ns,
                       FoundHandle found, void* context) {
  if (handles.missing() == 0) return {HolderSearch::kDone, 0};
  Scan scan = {&handles, found, context};
  ReadResult result = read_written_memory(ranges, count, deadline_ns, match, &scan);
  return {result.end == ReadEnd::kDone ? HolderSearch::kDone : HolderSearch::kStopped, result.bytes_read};
}

}  // namespace culprit
