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

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"
#include "report/dump/dump_error.h"

namespace culprit::report {

// Points into the mapped dump; valid as long as the Dump.
struct StackView {
  const std::uint64_t* frames = nullptr;  // innermost first
  std::uint32_t frame_count = 0;
  std::uint32_t flags = 0;
  std::uint64_t allocations = 0;  // calls with this stack that allocated something, without those in CallCounts
};

// Calls over the whole run: the sums in the header plus the counts that threads have not added to them yet.
struct CallCounts {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::unordered_map<format::Ref, std::uint64_t> by_stack;  // to be added to StackView::allocations
};

// Not thread-safe while it is opened or moved; afterwards const and usable from any thread.
class Dump {
 public:
  // Maps `path`. Throws DumpError.
  static Dump open(const std::string& path);
  // Reads a dump in memory, which must be aligned to 16 bytes and outlive the Dump. Throws DumpError.
  static Dump from_bytes(const void* data, std::size_t size, const std::string& name);

  Dump(Dump&& other) noexcept;
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;
  Dump& operator=(Dump&&) = delete;
  ~Dump();

  const std::string& path() const { return path_; }
  dev_t file_device() const { return file_device_; }
  ino_t file_inode() const { return file_inode_; }
  // The header as it was when the dump was opened; see call_counts() for its totals.
  const format::Header& header() const { return header_; }

  // The text at `ref`; empty when `ref` is 0 or invalid.
  std::string_view string(format::Ref ref) const;
  // False when `ref` is 0 or invalid, or when its space was given to other stacks since the dump was opened. The answer
  // for a `ref` is always the same.
  bool stack(format::Ref ref, StackView* view) const;
  // False when there is no such record.
  bool module(std::uint32_t index, format::ModuleRecord* record) const { return indexed(modules_, index, record); }
  bool thread(std::uint32_t index, format::ThreadRecord* record) const { return indexed(threads_, index, record); }
  bool context(std::uint32_t index, format::ContextRecord* record) const { return indexed(contexts_, index, record); }
  bool error(format::Ref ref, format::ErrorRecord* record) const { return named(errors_, ref, record); }
  bool evidence(format::Ref ref, format::EvidenceRecord* record) const { return named(evidence_, ref, record); }
  bool thrown(format::Ref ref, format::ThrowRecord* record) const { return named(throws_, ref, record); }
  bool failed_call(format::Ref ref, format::FailedCallRecord* record) const {
    return named(failed_calls_, ref, record);
  }
  bool mark(format::Ref ref, format::MarkRecord* record) const { return named(marks_, ref, record); }
  bool label(format::Ref ref, format::LabelRecord* record) const { return named(labels_, ref, record); }
  bool python_frame(format::Ref ref, format::PythonFrameRecord* record) const {
    return named(python_frames_, ref, record) && record->born <= header_.stack_sweeps;
  }
  // The driver's symbol, "cuMemAlloc_v2"; "" when unknown.
  std::string api_name(std::uint16_t index) const;

  std::vector<format::DeviceRecord> devices() const { return all<format::DeviceRecord>(devices_); }
  std::vector<format::ErrorRecord> errors() const { return all<format::ErrorRecord>(errors_); }
  std::vector<format::ReleaseRecord> releases() const { return all<format::ReleaseRecord>(releases_); }
  std::vector<format::ContextRecord> contexts() const { return all<format::ContextRecord>(contexts_); }
  std::vector<format::HolderRecord> holders() const { return all<format::HolderRecord>(holders_); }

  std::vector<format::MarkRecord> marks() const { return all<format::MarkRecord>(marks_); }
  std::vector<format::SpanRecord> spans() const { return all<format::SpanRecord>(spans_); }
  // At most one for each device; `used` is within bounds and bucket_ns not 0.
  std::vector<format::TimeLineRecord> time_lines() const;
  std::vector<format::SiteRecord> sites() const { return all<format::SiteRecord>(sites_); }

  std::vector<format::PictureRecord> pictures() const { return all<format::PictureRecord>(pictures_); }

  CallCounts call_counts() const;

  // The number of allocation records, live or not.
  std::uint64_t allocation_records() const {
    std::uint64_t count = 0;
    for (const Array& array : allocations_) count += array.count;
    return count;
  }

  // Calls visit(const format::AllocationRecord&, format::Ref) for every live allocation, in file order, which is the
  // order of ascending references.
  template <typename Visitor>
  void for_each_allocation(Visitor&& visit) const {
    for (const Array& array : allocations_) {
      for (std::uint64_t i = 0; i < array.count; ++i) {
        format::AllocationRecord record;
        const unsigned char* from = array.data + i * sizeof(record);
        if (!copy_stable(from, &record) || !is_live(record)) continue;
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

  Dump() = default;
  void parse();
  void check_header();
  std::uint64_t parse_chunk(std::uint64_t offset);
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& what) const;
  static bool is_live(const format::AllocationRecord& record);
  bool read_stack(format::Ref ref, StackView* view, std::vector<std::uint64_t>* copy) const;
  const unsigned char* in_packed(const std::vector<Range>& ranges, format::Ref ref, std::uint64_t header_bytes,
                                 std::uint64_t* rest) const;

  // Copies a record that begins with `state`; false when the record is empty or changed during the copy.
  template <typename Record>
  static bool copy_stable(const unsigned char* from, Record* to) {
    static_assert(sizeof(Record::state) == 4 && offsetof(Record, state) == 0);
    const auto* state = reinterpret_cast<const std::uint32_t*>(from);
    const std::uint32_t before = __atomic_load_n(state, __ATOMIC_ACQUIRE);
    if (before == 0) return false;
    std::memcpy(static_cast<void*>(to), from, sizeof(Record));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(state, __ATOMIC_RELAXED) == before;
  }
  static bool copy_stable(const unsigned char* from, format::ModuleRecord* to) {
    std::memcpy(to, from, sizeof(*to));
    return true;
  }
  static bool copy_stable(const unsigned char* from, format::PythonFrameRecord* to) {
    std::memcpy(to, from, sizeof(*to));
    return true;
  }
  static bool copy_stable(const unsigned char* from, format::ApiRecord* to) {
    std::memcpy(to, from, sizeof(*to));
    return true;
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
  std::size_t mapped_bytes_ = 0;  // 0: the caller owns the bytes
  std::uint64_t size_ = 0;        // bytes that may be read
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
  format::Header header_ = {};
  std::vector<Array> allocations_, modules_, threads_, contexts_, devices_, errors_, releases_, apis_, counters_,
      throws_, failed_calls_, evidence_, holders_, sites_, python_frames_, spans_, marks_, labels_, time_lines_,
      pictures_;
  std::vector<Range> stacks_, strings_;
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
};

}  // namespace culprit::report
