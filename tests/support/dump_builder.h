// Builds dumps byte by byte from interpose/format/dump_format.h, as libculprit.so would have written them: for tests of
// the reader and for big dumps to measure it with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/format/dump_format.h"

namespace culprit::test {

class DumpBuilder {
 public:
  // An exited process with one CUDA call and nothing else.
  DumpBuilder();

  // Valid until the next call that adds something.
  format::Header& header();

  format::Ref add_string(std::string_view text);
  // Frames innermost first, see frame().
  format::Ref add_stack(const std::vector<std::uint64_t>& frames, std::uint32_t flags = 0,
                        std::uint64_t allocations = 0);
  // Each returns the index by which other records name the new one.
  std::uint32_t add_module(const std::string& path, const std::vector<std::uint8_t>& build_id = {},
                           std::uint32_t flags = 0);
  std::uint32_t add_thread(std::uint32_t tid, const std::string& name,
                           format::ThreadState state = format::ThreadState::kAlive);
  std::uint32_t add_context(const format::ContextRecord& record);
  std::uint32_t add_device(const format::DeviceRecord& record);
  std::uint16_t add_api(const std::string& name);  // the same name gets the same number

  void add_counters(const format::ThreadCounters& record);
  format::Ref add_error(const format::ErrorRecord& record);
  format::Ref add_evidence(const format::EvidenceRecord& record);
  format::Ref add_throw(const format::ThrowRecord& record);
  format::Ref add_failed_call(const format::FailedCallRecord& record);
  format::Ref add_time_line(const format::TimeLineRecord& record);
  format::Ref add_holder(const format::HolderRecord& record);
  format::Ref add_last_holder(const format::LastHolderRecord& record);
  format::Ref add_python_frame(const std::string& file, const std::string& function, std::uint32_t line);
  format::Ref add_mark(const std::string& name, format::MarkKind kind, std::uint64_t first_ns);
  // One that was set `count` times.
  format::Ref add_mark(const std::string& name, format::MarkKind kind, std::uint64_t first_ns, std::uint64_t last_ns,
                       std::uint64_t count);
  void add_mark_time(format::Ref mark, std::uint64_t number, std::uint64_t time_ns);
  format::Ref add_mark_sums(const format::MarkSumsRecord& record);
  format::Ref add_label(format::Ref mark, format::Ref range);
  format::Ref add_breakdown(const format::BreakdownRecord& record);
  format::Ref add_audit(const format::AuditRecord& record);
  format::Ref add_call_charge(const format::CallChargeRecord& record);
  format::Ref add_sharing(const format::SharingRecord& record);
  format::Ref add_balance(const format::BalanceRecord& record);
  format::Ref add_share(const format::ShareRecord& record);
  format::Ref add_release(const format::ReleaseRecord& record);
  format::Ref add_allocation(const format::AllocationRecord& record);

  // The finished dump.
  const std::vector<char>& bytes();
  // Writes it to a file; throws std::runtime_error when that fails.
  void write(const std::string& path);

  // A return address: `offset` bytes into the module.
  static std::uint64_t frame(std::uint32_t module, std::uint64_t offset);
  // The frame of such a record.
  static std::uint64_t python_frame(format::Ref record) {
    return format::kPythonModule << format::kFrameModuleShift | record;
  }

 private:
  struct Open {
    std::uint64_t chunk = 0;  // file offset of the chunk that is being filled; 0: none yet
    std::uint32_t records = 0;
  };

  template <typename Record>
  format::Ref add_record(const Record& record, std::uint32_t* index = nullptr);
  std::uint64_t reserve(format::ChunkType type, std::uint64_t bytes, std::uint32_t record_bytes);

  std::vector<char> bytes_;
  std::map<format::ChunkType, Open> open_;
  std::map<std::string, std::uint16_t> apis_;
};

}  // namespace culprit::test
