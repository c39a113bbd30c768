// The calls that CUPTI's callbacks counted, by function, and those of them that were not recorded, by function and
// stack. Thread-safe. All zeros = empty.
#pragma once

#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

struct AuditedCall {
  std::uint32_t id;    // CUPTI's number of the function, less than kMostIds
  const char* symbol;  // the function's name
  bool recorded;
  // Of a call that was not recorded.
  format::Ref stack;
  std::uint32_t thread;
  std::uint64_t bytes;
  std::uint64_t time_ns;
};

class AuditTable {
 public:
  static constexpr std::uint32_t kMostIds = 2048;

  // Counts the call. Returns false when the dump is full.
  bool add(const AuditedCall& call, DumpWriter& dump);

 private:
  struct Function {
    format::Ref symbol;
    format::Ref calls;                             // AuditRecord of all calls
    format::Ref stacks[format::kMostAuditStacks];  // AuditRecords of calls that were not recorded
  };
  static format::Ref add_record(const Function& function, const AuditedCall& call, format::Ref stack, DumpWriter& dump);

  SpinLock lock_;
  Function functions_[kMostIds];
};

}  // namespace culprit
