// The result of the audit (`culprit run --audit`): what CUPTI's callbacks counted, compared with what was recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"

namespace culprit::report {

struct ResolvedStack;

// A driver function that makes or ends something, and its successful calls.
struct AuditedFunction {
  std::string api;
  std::uint64_t calls = 0;
};

// Calls of a function that were not recorded, with one stack.
struct NotRecordedCalls {
  std::string api;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;               // that they allocated, as far as it is known
  const ResolvedStack* stack = nullptr;  // nullptr: not known
};

struct Audit {
  format::AuditState state = format::AuditState::kNotAsked;
  std::int32_t error = 0;                      // CUPTI's, for AuditState::kFailed
  std::uint64_t end_ns = 0;                    // for AuditState::kEnded
  std::uint64_t not_audited = 0;               // in a merged report: processes without an audit
  std::vector<AuditedFunction> functions;      // by name
  std::vector<NotRecordedCalls> not_recorded;  // most calls first
};

// The calls of all functions, and those of them that were not recorded.
std::uint64_t audited_calls(const Audit& audit);
std::uint64_t calls_not_recorded(const Audit& audit);

// Brings the lists into their order; entries of the same function, and of the same function and stack, are added up.
void put_in_order(Audit* audit);

// Why there was no audit, or only a part of one; empty: there was one, or none was asked for.
std::string why_no_audit(const Audit& audit);

// "cuMemAllocFromPoolAsync 3x, 12 MiB, at train.py:4". Names from the dump are made printable.
std::string not_recorded_text(const NotRecordedCalls& calls);

// "1204 calls of 31 functions: all recorded", or what was not recorded, or why there was no audit. The first line of
// the report's section; empty: no audit was asked for.
std::string audit_headline(const Audit& audit);

}  // namespace culprit::report
