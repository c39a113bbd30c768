// Reads a dump: maps the file and walks its chunks. Knows the layout (interpose/format/dump_format.h) and nothing about
// leaks.
//
// A dump may be cut off by a full disk, edited, or written by another program. Every offset, count and reference is
// checked against the mapped range before it is used. Broken structure (a chunk that does not fit) is an error. A
// broken record (a reference to nothing) is used without the broken part and counted.
//
// A dump may be growing while it is read. The reader uses the range that existed when it opened the file, and drops
// records that change while they are copied.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "interpose/format/chunks.h"
#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "interpose/format/dump_marks.h"
#include "interpose/format/dump_records.h"
#include "interpose/format/dump_sharing.h"
#include "report/dump/dump_error.h"

namespace culprit::report {

// Points into the mapped dump; valid as long as the Dump.
struct StackView {
  const std::uint64_t* frames = nullptr;  // innermost first
  std::uint32_t frame_count = 0;
  std::uint32_t flags = 0;
  std::uint64_t allocations = 0;  // calls with this stack that allocated something, without those in CallCounts

  // The frame that is the `depth`th native one, counted from the outermost as 1; empty when there is none.
  std::optional<std::uint64_t> native_frame(std::uint32_t depth) const;
};

// Calls over the whole run: the sums in the header plus the counts that threads have not added to them yet.
struct CallCounts {
  std::uint64_t allocations = 0;  // of memory
  std::uint64_t frees = 0;
  std::uint64_t objects = 0;  // contexts, streams, events, ... that were made, and ended
  std::uint64_t object_frees = 0;
  std::unordered_map<format::Ref, std::uint64_t> by_stack;  // to be added to StackView::allocations
};

// Not thread-safe while it is opened or moved; afterwards const and usable from any thread.
class Dump {
 public:
  // Maps `path`. Throws DumpError.
  static Dump open(const std::string& path);
  // Reads a dump in memory, which must be aligned to 16 bytes and outlive the Dump. Throws DumpError.
  static Dump from_bytes(const void* data, std::size_t size, const std::string& name);

  // Throws DumpError when the file was cut off after it had been opened: what was read may be zeros. To be called when
  // everything is read.
  void check_whole() const;

  Dump(Dump&&) noexcept = default;
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;
  Dump& operator=(Dump&&) = delete;
  ~Dump() = default;

  const std::string& path() const { return path_; }
  dev_t file_device() const { return file_device_; }
  ino_t file_inode() const { return file_inode_; }
  uid_t file_owner() const { return file_owner_; }
  // The header as it was when the dump was opened; see call_counts() for its totals.
  const format::Header& header() const { return header_; }

  // The text at `ref`; empty when `ref` is 0 or invalid. Records may share a text, and texts of a damaged dump may
  // overlap, so that a small file could hand out gigabytes: after many times its size, all further texts are empty, and
  // left_out_texts() counts them.
  std::string_view string(format::Ref ref) const;
  std::uint64_t left_out_texts() const { return texts_->left_out; }
  // False when `ref` is 0 or invalid, or when its space was given to other stacks since the dump was opened. The answer
  // for a `ref` is always the same.
  bool stack(format::Ref ref, StackView* view) const;
  // False when there is no such record.
  bool module(std::uint32_t index, format::ModuleRecord* record) const {
    return indexed(chunks_.modules, index, record);
  }
  bool thread(std::uint32_t index, format::ThreadRecord* record) const {
    return indexed(chunks_.threads, index, record);
  }
  bool context(std::uint32_t index, format::ContextRecord* record) const {
    return indexed(chunks_.contexts, index, record);
  }
  bool error(format::Ref ref, format::ErrorRecord* record) const { return named(chunks_.errors, ref, record); }
  bool evidence(format::Ref ref, format::EvidenceRecord* record) const { return named(chunks_.evidence, ref, record); }
  bool thrown(format::Ref ref, format::ThrowRecord* record) const { return named(chunks_.throws, ref, record); }
  bool failed_call(format::Ref ref, format::FailedCallRecord* record) const {
    return named(chunks_.failed_calls, ref, record);
  }
  bool mark(format::Ref ref, format::MarkRecord* record) const { return named(chunks_.marks, ref, record); }
  bool label(format::Ref ref, format::LabelRecord* record) const { return named(chunks_.labels, ref, record); }
  bool python_frame(format::Ref ref, format::PythonFrameRecord* record) const {
    return named(chunks_.python_frames, ref, record) && record->born <= header_.stack_sweeps;
  }
  // The driver's symbol, "cuMemAlloc_v2"; "" when unknown.
  std::string api_name(std::uint16_t index) const;

  std::vector<format::DeviceRecord> devices() const { return all<format::DeviceRecord>(chunks_.devices); }
  std::vector<format::ErrorRecord> errors() const { return all<format::ErrorRecord>(chunks_.errors); }
  std::vector<format::FailedCallRecord> failed_calls() const {
    return all<format::FailedCallRecord>(chunks_.failed_calls);
  }
  std::vector<format::ReleaseRecord> releases() const { return all<format::ReleaseRecord>(chunks_.releases); }
  std::vector<format::ContextRecord> contexts() const { return all<format::ContextRecord>(chunks_.contexts); }
  std::vector<format::HolderRecord> holders() const { return all<format::HolderRecord>(chunks_.holders); }

  std::vector<format::HeapHolderRecord> heap_holders() const {
    return all<format::HeapHolderRecord>(chunks_.heap_holders);
  }
  bool heap_step(format::Ref ref, format::HeapStepRecord* record) const {
    return named(chunks_.heap_steps, ref, record);
  }

  std::vector<format::LastHolderRecord> last_holders() const {
    return all<format::LastHolderRecord>(chunks_.last_holders);
  }

  std::vector<format::AuditRecord> audits() const { return all<format::AuditRecord>(chunks_.audits); }
  std::vector<format::MarkRecord> marks() const { return all<format::MarkRecord>(chunks_.marks); }
  std::vector<format::MarkTimeRecord> mark_times() const { return all<format::MarkTimeRecord>(chunks_.mark_times); }
  std::vector<format::MarkSumsRecord> mark_sums() const { return all<format::MarkSumsRecord>(chunks_.mark_sums); }
  std::vector<format::SpanRecord> spans() const { return all<format::SpanRecord>(chunks_.spans); }
  // At most one for each device; `used` is within bounds and bucket_ns not 0.
  std::vector<format::TimeLineRecord> time_lines() const;
  std::vector<format::SiteRecord> sites() const { return all<format::SiteRecord>(chunks_.sites); }

  std::vector<format::BreakdownRecord> breakdowns() const { return all<format::BreakdownRecord>(chunks_.breakdowns); }

  std::vector<format::SharingRecord> sharings() const { return all<format::SharingRecord>(chunks_.sharings); }
  std::vector<format::CallChargeRecord> call_charges() const {
    return all<format::CallChargeRecord>(chunks_.call_charges);
  }
  std::vector<format::BalanceRecord> balances() const { return all<format::BalanceRecord>(chunks_.balances); }
  std::vector<format::ShareRecord> shares() const { return all<format::ShareRecord>(chunks_.shares); }

  CallCounts call_counts() const;

  std::uint64_t size() const { return size_; }

  // Bytes of chunks that only a newer culprit reads, and without which the report stays true.
  std::uint64_t left_out_bytes() const { return left_out_bytes_; }

  // The most frames that all different stacks of the dump can have together, as long as they do not overlap.
  std::uint64_t most_frames() const { return size_ / sizeof(std::uint64_t); }

  // The number of allocation records, live or not.
  std::uint64_t allocation_records() const {
    std::uint64_t count = 0;
    for (const Array& array : chunks_.allocations) count += array.count;
    return count;
  }

  // Calls visit(const format::AllocationRecord&, format::Ref) for every live allocation, in file order, which is the
  // order of ascending references. While the target runs, these are allocations that were live when the dump was opened
  // and still are, so that their sum was in use at one moment.
  template <typename Visitor>
  void for_each_allocation(Visitor&& visit) const {
    std::size_t index = 0;
    for (const Array& array : chunks_.allocations) {
      for (std::uint64_t i = 0; i < array.count; ++i, ++index) {
        format::AllocationRecord record;
        const unsigned char* from = array.data + i * sizeof(record);
        if (!copy_stable(from, &record) || !is_live(record.state) || is_new(index, record.state)) continue;
        visit(record, static_cast<format::Ref>(static_cast<std::uint64_t>(from - data_) / format::kRefUnit));
      }
    }
  }

 private:
  // A chunk of records of one type.
  struct Array {
    const unsigned char* data = nullptr;
    std::uint64_t count = 0;
    std::uint32_t first_index = 0;
  };
  // The used part of a packed chunk, as file offsets.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Unmap {
    std::size_t bytes;
    void operator()(const unsigned char* begin) const;
  };

  Dump() = default;
  void parse();
  void check_header();
  std::uint64_t parse_chunk(std::uint64_t offset);
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;
  static bool is_live(std::uint32_t state);
  void keep_first_states();
  // Whether the allocation with `state` in record `index` was made after the dump was opened.
  bool is_new(std::size_t index, std::uint32_t state) const {
    return index < first_states_.size() &&
           (!is_live(first_states_[index]) || (first_states_[index] ^ state) >> format::kStateBits != 0);
  }
  bool read_stack(format::Ref ref, StackView* view, std::vector<std::uint64_t>* copy) const;
  const unsigned char* in_packed(const std::vector<Range>& ranges, format::Ref ref, std::uint64_t header_bytes,
                                 std::uint64_t* rest) const;

  template <typename Record, typename = void>
  struct HasState : std::false_type {};
  template <typename Record>
  struct HasState<Record, std::void_t<decltype(Record::state)>> : std::true_type {
    static_assert(sizeof(Record::state) == 4 && offsetof(Record, state) == 0);
  };

  // Copies a record. One that begins with `state`: false when it is empty or changed during the copy.
  template <typename Record>
  static bool copy_stable(const unsigned char* from, Record* to) {
    if constexpr (!HasState<Record>::value) {
      std::memcpy(static_cast<void*>(to), from, sizeof(Record));
      return true;
    } else {
      return copy_unchanged(from, to);
    }
  }
  template <typename Record>
  static bool copy_unchanged(const unsigned char* from, Record* to) {
    const auto* state = reinterpret_cast<const std::uint32_t*>(from);
    const std::uint32_t before = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    if (before == 0) return false;
    std::memcpy(static_cast<void*>(to), from, sizeof(Record));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(state, __ATOMIC_RELAXED) == before;
  }
  template <typename Record>
  static bool indexed(const std::vector<Array>& arrays, std::uint32_t index, Record* record) {
    for (const Array& array : arrays) {
      if (index >= array.first_index && index - array.first_index < array.count) {
        return copy_stable(array.data + std::uint64_t{index - array.first_index} * sizeof(Record), record);
      }
    }
    return false;
  }

  // The record at `ref`; false when there is no record of this type.
  template <typename Record>
  bool named(const std::vector<Array>& arrays, format::Ref ref, Record* record) const {
    const std::uint64_t offset = std::uint64_t{ref} * format::kRefUnit;
    if (ref == 0 || offset >= size_) return false;
    const unsigned char* at = data_ + offset;
    for (const Array& array : arrays) {
      if (at < array.data || at >= array.data + array.count * sizeof(Record)) continue;
      return static_cast<std::size_t>(at - array.data) % sizeof(Record) == 0 && copy_stable(at, record);
    }
    return false;
  }

  // The valid records of all chunks.
  template <typename Record>
  static std::vector<Record> all(const std::vector<Array>& arrays) {
    std::vector<Record> result;
    for (const Array& array : arrays) {
      for (std::uint64_t i = 0; i < array.count; ++i) {
        Record record;
        if (copy_stable(array.data + i * sizeof(record), &record)) result.push_back(record);
      }
    }
    return result;
  }

  std::string path_;
  const unsigned char* data_ = nullptr;
  std::unique_ptr<const unsigned char, Unmap> mapping_;  // nullptr: the caller owns the bytes
  std::uint64_t size_ = 0;                               // bytes that may be read
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
  uid_t file_owner_ = static_cast<uid_t>(-1);
  format::Header header_ = {};
  std::uint64_t left_out_bytes_ = 0;
  struct Chunks {
#define CHUNK(number, enumerator, record, member, ...) std::vector<Array> member;
#define CHUNK_PACKED(number, enumerator, record, member, ...) std::vector<Range> member;
#include "interpose/format/chunks.def"
  };
  Chunks chunks_;
  // For a dump that may still be written: the requested stacks, as they were at the first request.
  struct Copy {
    bool known = false;
    StackView view;
    std::vector<std::uint64_t> frames;
  };
  struct Copies {
    std::mutex mutex;
    std::unordered_map<format::Ref, Copy> stacks;
  };
  std::unique_ptr<Copies> copies_;  // nullptr: the dump is finished
  // Of a dump that may still be written: AllocationRecord::state of each record when the dump was opened.
  std::vector<std::uint32_t> first_states_;
  struct Texts {
    std::atomic<std::uint64_t> handed_out{0};  // bytes
    std::atomic<std::uint64_t> left_out{0};
  };
  std::unique_ptr<Texts> texts_ = std::make_unique<Texts>();
};

}  // namespace culprit::report
