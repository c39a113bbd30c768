// For tables of causes: a program whose dump a row of the table fills, and the report's verdicts as one line of text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "interpose/format/kinds.h"
#include "tests/unit/report/fixture.h"

namespace culprit::test {

// main() calls step(), which allocates at line 31 of app.cu.
struct CauseProgram : Program {
  const std::uint64_t main_frame = frame("/bin/app", module, "main", 40);
  const format::Ref made = made_in(0);

  // The stack of an allocation in step(), with this many calls in the whole run.
  format::Ref made_in(std::uint64_t calls) {
    return dump.add_stack({frame("/bin/app", module, "step", 31), main_frame}, 0, calls);
  }
  format::Ref at_line(unsigned line) { return dump.add_stack({frame("/bin/app", module, "step", line), main_frame}); }
  // Memory that is still allocated at the end.
  format::Ref allocate(format::Ref stack, format::Ref evidence = 0, std::uint8_t flags = 0,
                       format::Kind kind = format::Kind::kDevice) {
    format::AllocationRecord record = live_allocation(stack, 64, kind);
    record.evidence = evidence;
    record.flags = flags;
    return dump.add_allocation(record);
  }
  // A graph's memory from step() that a launch allocated.
  format::Ref launch(format::Ref stack, std::uint32_t times, std::uint8_t flags = 0) {
    format::AllocationRecord record = live_allocation(made, 64, format::Kind::kGraphMemory);
    record.launched = {stack, times};
    record.flags = flags;
    return dump.add_allocation(record);
  }
  // Memory from step() that went with its context in reset().
  void tear_down(format::Ref evidence = 0) {
    format::ReleaseRecord record = {};
    record.state = 1;
    record.kind = format::Kind::kDevice;
    record.stack = made;
    record.teardown_stack = stack({"reset", "main"}, 77);
    record.teardown_api = dump.add_api("cuDevicePrimaryCtxReset_v2");
    record.count = 3;
    record.bytes = 300;
    record.evidence = evidence;
    dump.add_release(record);
  }

  // Evidence of a throw at line 33, caught in main() at line 42 unless `flags` say otherwise. `owner` is the depth of
  // the frame that owned the memory, counted from the outermost one.
  format::ThrowRecord throw_record(std::uint32_t flags = format::kThrowCaught) {
    format::ThrowRecord record = {};
    record.state = 1;
    record.type = dump.add_string("St13runtime_error");
    record.what = dump.add_string("residual is NaN");
    record.stack = at_line(33);
    if ((flags & format::kThrowCaught) != 0) {
      record.catch_stack = dump.add_stack({frame("/bin/app", module, "main", 42)});
    }
    record.count = 1;
    record.last_ns = 5;
    record.flags = static_cast<decltype(record.flags)>(flags);
    return record;
  }
  format::Ref thrown(const format::ThrowRecord& record, std::uint8_t flags = 0, std::uint16_t owner = 2) {
    format::EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.thrown = dump.add_throw(record);
    evidence.thrown_owner = owner;
    evidence.flags = flags;
    return dump.add_evidence(evidence);
  }
  format::Ref thrown(std::uint8_t flags = 0) { return thrown(throw_record(), flags); }

  // Evidence of a cuMemcpyHtoD that failed at line 36.
  format::Ref failed_call(std::uint8_t flags = 0, std::uint16_t owner = 2, std::uint8_t call_flags = 0) {
    format::FailedCallRecord record = {};
    record.state = 1;
    record.code = 1;
    record.api = dump.add_api("cuMemcpyHtoD_v2");
    record.stack = at_line(36);
    record.count = 1;
    record.flags = call_flags;
    format::EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.failed_call = dump.add_failed_call(record);
    evidence.failed_call_owner = owner;
    evidence.flags = flags;
    return dump.add_evidence(evidence);
  }
  // Evidence of two refused frees in drop() at line 50.
  format::Ref refused_free(int code = 1) {
    format::ErrorRecord record = {};
    record.state = 1;
    record.type = format::ErrorType::kFailedFree;
    record.code = code;
    record.api = dump.add_api("cuMemFree_v2");
    record.stack = stack({"drop", "main"}, 50);
    record.allocation_stack = made;
    record.count = 2;
    format::EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.error = dump.add_error(record);
    return dump.add_evidence(evidence);
  }
  // A pointer to the allocation at this offset of `in` holds it at exit: g_cache is at 0x9000, g_other at 0x9100.
  void hold(format::Ref allocation, std::uint64_t offset, std::uint32_t in = 0, std::uint32_t generation = 1) {
    symbols.add_variable("/bin/app", 0x9000, 64, "g_cache");
    symbols.add_variable("/bin/app", 0x9100, 8, "g_other");
    format::HolderRecord record = {};
    record.state = generation << format::kStateBits | 1;
    record.allocation = allocation;
    record.place = DumpBuilder::frame(in, offset);
    dump.add_holder(record);
  }

  // No pointer to the allocation was left.
  void lose(format::Ref allocation, std::uint64_t place = format::kNoPointerLeft, std::uint32_t generation = 1) {
    format::HolderRecord record = {};
    record.state = generation << format::kStateBits | 1;
    record.allocation = allocation;
    record.place = place;
    dump.add_holder(record);
  }
};

// Each group of a report: "exception 2x 128 (exception, context-teardown)" for a leak with its count, bytes and
// evidence, "resource stream 1x 0", "library cuBLAS 1x 64". In alphabetical order, between semicolons.
inline std::string verdicts(const Report& report) {
  std::vector<std::string> lines;
  auto add = [&](const std::string& title, const Group& group) {
    std::string line = title + " " + std::to_string(group.count) + "x " + std::to_string(group.bytes);
    for (std::size_t i = 0; i < group.evidence.size(); ++i) {
      line += (i == 0 ? " (" : ", ") + std::string(evidence_name(group.evidence[i].type));
    }
    lines.push_back(line + (group.evidence.empty() ? "" : ")"));
  };
  for (const Group& group : report.leaks) {
    add(cause_name(group.cause) + (group.library.empty() ? "" : " of " + group.library), group);
  }
  for (const Group& group : report.resources) {
    add(std::string("resource ") + format::kinds::find(group.kind)->name, group);
  }
  for (const Group& group : report.library) add("library " + group.library, group);
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "; ") + line;
  return all;
}

}  // namespace culprit::test
