#include "tests/support/dump_builder.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace culprit::test {

using namespace format;

namespace {

// Chunks grow with their content, so that small dumps stay small enough to be broken at every byte.
constexpr std::uint64_t kSmallestChunk = kChunkAlignment;
constexpr std::uint64_t kLargestChunk = 256 * kChunkAlignment;

std::uint64_t padded(std::uint64_t bytes) { return (bytes + kRefUnit - 1) / kRefUnit * kRefUnit; }

}  // namespace

DumpBuilder::DumpBuilder() : bytes_(kHeaderBytes) {
  Header& head = header();
  std::memcpy(head.magic, kMagic, sizeof(kMagic));
  head.version = kVersion;
  head.header_bytes = kHeaderBytes;
  head.byte_order = kByteOrderMark;
  head.pid = 4242;
  head.parent_pid = 1;
  head.start_realtime_ns = 1700000000000000000ULL;
  head.process_state = ProcessState::kExited;
  head.holder_search = HolderSearch::kDone;
  head.end_time_ns = 20000000000ULL;
  head.hook_calls = 1;
  head.driver_version = 13000;
  head.stack_depth_limit = 64;
  std::strcpy(head.host, "node7");
  std::strcpy(head.boot_id, "0bad0bad-0000-4000-8000-000000000000");
}

Header& DumpBuilder::header() { return *reinterpret_cast<Header*>(bytes_.data()); }

// Room for `bytes` in an open chunk of the type, or in a new one. Returns the offset.
std::uint64_t DumpBuilder::reserve(ChunkType type, std::uint64_t bytes, std::uint32_t record_bytes) {
  Open& open = open_[type];
  auto chunk_at = [&](std::uint64_t offset) { return reinterpret_cast<ChunkHeader*>(bytes_.data() + offset); };
  if (open.chunk == 0 || chunk_at(open.chunk)->bytes - sizeof(ChunkHeader) - chunk_at(open.chunk)->used < bytes) {
    const std::uint64_t least =
        open.chunk == 0 ? kSmallestChunk : std::min(kLargestChunk, 2 * chunk_at(open.chunk)->bytes);
    const std::uint64_t wanted =
        (bytes + sizeof(ChunkHeader) + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
    open.chunk = bytes_.size();
    bytes_.resize(bytes_.size() + std::max(least, wanted));
    ChunkHeader* chunk = chunk_at(open.chunk);
    chunk->magic = kChunkMagic;
    chunk->type = type;
    chunk->bytes = bytes_.size() - open.chunk;
    chunk->record_bytes = record_bytes;
    chunk->first_index = open.records;
  }
  ChunkHeader* chunk = chunk_at(open.chunk);
  const std::uint64_t offset = open.chunk + sizeof(ChunkHeader) + chunk->used;
  chunk->used += bytes;
  if (record_bytes != 0) ++open.records;
  return offset;
}

template <typename Record>
Ref DumpBuilder::add_record(const Record& record, std::uint32_t* index) {
  constexpr ChunkType type = kChunkTypeOf<Record>;
  if (index != nullptr) *index = open_[type].records;
  const std::uint64_t offset = reserve(type, sizeof(Record), sizeof(Record));
  std::memcpy(bytes_.data() + offset, &record, sizeof(Record));
  return static_cast<Ref>(offset / kRefUnit);
}

Ref DumpBuilder::add_string(std::string_view text) {
  StringRecord record = {};
  record.bytes = static_cast<std::uint32_t>(text.size());
  const std::uint64_t offset = reserve(ChunkType::kStrings, sizeof(record) + padded(text.size()), 0);
  std::memcpy(bytes_.data() + offset, &record, sizeof(record));
  std::copy(text.begin(), text.end(), bytes_.data() + offset + sizeof(record));
  return static_cast<Ref>(offset / kRefUnit);
}

Ref DumpBuilder::add_stack(const std::vector<std::uint64_t>& frames, std::uint32_t flags, std::uint64_t allocations) {
  StackRecord record = {};
  record.frame_count = static_cast<std::uint32_t>(frames.size());
  record.flags = flags;
  record.allocations = allocations;
  const std::uint64_t offset = reserve(ChunkType::kStacks, sizeof(record) + padded(frames.size() * 8), 0);
  std::memcpy(bytes_.data() + offset, &record, sizeof(record));
  if (!frames.empty()) std::memcpy(bytes_.data() + offset + sizeof(record), frames.data(), frames.size() * 8);
  return static_cast<Ref>(offset / kRefUnit);
}

std::uint32_t DumpBuilder::add_module(const std::string& path, const std::vector<std::uint8_t>& build_id,
                                      std::uint32_t flags) {
  ModuleRecord record = {};
  record.path = add_string(path);
  record.flags = flags;
  record.build_id_bytes = static_cast<std::uint8_t>(std::min(build_id.size(), sizeof(record.build_id)));
  std::copy_n(build_id.begin(), record.build_id_bytes, record.build_id);
  std::uint32_t index = 0;
  add_record(record, &index);
  return index;
}

std::uint32_t DumpBuilder::add_thread(std::uint32_t tid, const std::string& name, ThreadState state) {
  ThreadRecord record = {};
  record.state = state;
  record.tid = tid;
  std::strncpy(record.name, name.c_str(), sizeof(record.name) - 1);
  std::uint32_t index = 0;
  add_record(record, &index);
  return index;
}

std::uint32_t DumpBuilder::add_context(const ContextRecord& record) {
  std::uint32_t index = 0;
  add_record(record, &index);
  return index;
}

std::uint32_t DumpBuilder::add_device(const DeviceRecord& record) {
  std::uint32_t index = 0;
  add_record(record, &index);
  return index;
}

std::uint16_t DumpBuilder::add_api(const std::string& name) {
  const auto known = apis_.find(name);
  if (known != apis_.end()) return known->second;
  ApiRecord record = {};
  std::strncpy(record.name, name.c_str(), sizeof(record.name) - 1);
  std::uint32_t index = 0;
  add_record(record, &index);
  return apis_[name] = static_cast<std::uint16_t>(index);
}

void DumpBuilder::add_counters(const ThreadCounters& record) { add_record(record); }
Ref DumpBuilder::add_error(const ErrorRecord& record) { return add_record(record); }
Ref DumpBuilder::add_evidence(const EvidenceRecord& record) { return add_record(record); }
Ref DumpBuilder::add_throw(const ThrowRecord& record) { return add_record(record); }
Ref DumpBuilder::add_failed_call(const FailedCallRecord& record) { return add_record(record); }
Ref DumpBuilder::add_time_line(const TimeLineRecord& record) { return add_record(record); }
Ref DumpBuilder::add_holder(const HolderRecord& record) { return add_record(record); }
Ref DumpBuilder::add_last_holder(const LastHolderRecord& record) { return add_record(record); }
Ref DumpBuilder::add_python_frame(const std::string& file, const std::string& function, std::uint32_t line) {
  PythonFrameRecord record = {};
  record.file = add_string(file);
  record.function = add_string(function);
  record.line = line;
  return add_record(record);
}
Ref DumpBuilder::add_mark(const std::string& name, MarkKind kind, std::uint64_t first_ns) {
  return add_mark(name, kind, first_ns, first_ns, 1);
}
Ref DumpBuilder::add_mark(const std::string& name, MarkKind kind, std::uint64_t first_ns, std::uint64_t last_ns,
                          std::uint64_t count) {
  MarkRecord record = {};
  record.state = 1;
  record.name = add_string(name);
  record.kind = kind;
  record.first_ns = first_ns;
  record.last_ns = last_ns;
  record.count = count;
  return add_record(record);
}
void DumpBuilder::add_mark_time(Ref mark, std::uint64_t number, std::uint64_t time_ns) {
  MarkTimeRecord record = {};
  record.state = 1;
  record.mark = mark;
  record.number = number;
  record.time_ns = time_ns;
  add_record(record);
}
Ref DumpBuilder::add_mark_sums(const MarkSumsRecord& record) { return add_record(record); }
Ref DumpBuilder::add_label(Ref mark, Ref range) {
  LabelRecord record = {};
  record.state = 1;
  record.mark = mark;
  record.range = range;
  return add_record(record);
}
Ref DumpBuilder::add_breakdown(const BreakdownRecord& record) { return add_record(record); }
Ref DumpBuilder::add_audit(const AuditRecord& record) { return add_record(record); }
Ref DumpBuilder::add_call_charge(const CallChargeRecord& record) { return add_record(record); }
Ref DumpBuilder::add_sharing(const SharingRecord& record) { return add_record(record); }
Ref DumpBuilder::add_balance(const BalanceRecord& record) { return add_record(record); }
Ref DumpBuilder::add_share(const ShareRecord& record) { return add_record(record); }
Ref DumpBuilder::add_release(const ReleaseRecord& record) { return add_record(record); }
Ref DumpBuilder::add_allocation(const AllocationRecord& record) { return add_record(record); }

const std::vector<char>& DumpBuilder::bytes() {
  header().file_bytes = bytes_.size();
  return bytes_;
}

void DumpBuilder::write(const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes().data(), static_cast<std::streamsize>(bytes_.size()));
  file.flush();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

std::uint64_t DumpBuilder::frame(std::uint32_t module, std::uint64_t offset) {
  return std::uint64_t{module + 1} << kFrameModuleShift | offset;
}

}  // namespace culprit::test
