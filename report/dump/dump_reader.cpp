#include "report/dump/dump_reader.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "report/base/cut_off_files.h"
#include "report/base/input_file.h"

namespace culprit::report {

using namespace format;

namespace {

// How many bytes of text string() hands out: so many, and so many for each byte of the file. A program with a million
// Python frames needs a tenth of that.
constexpr std::uint64_t kTextOfAnyDump = 16 << 20;
constexpr std::uint64_t kTextForEachByte = 4;

}  // namespace

std::optional<std::uint64_t> StackView::native_frame(std::uint32_t depth) const {
  for (std::uint32_t i = frame_count; i > 0 && depth != 0; --i) {
    const std::uint64_t frame = frames[i - 1];
    const bool is_python = (frame >> format::kFrameModuleShift & format::kFrameModuleMask) == format::kPythonModule;
    if (!is_python && --depth == 0) return frame;
  }
  return std::nullopt;
}

Dump Dump::open(const std::string& path) {
  const InputFile input = open_input(path);
  if (!input.file.is_open() && input.error == 0) {
    throw DumpError(DumpProblem::kNotADump, path + ": " + input.problem + "; name a dump (culprit.*.dump)");
  }
  struct stat info = {};
  if (!input.file.is_open() || ::fstat(input.file.get(), &info) != 0) {
    throw DumpError(DumpProblem::kCannotOpen,
                    path + ": cannot be opened: " + std::strerror(input.error != 0 ? input.error : errno));
  }
  if (static_cast<std::uint64_t>(info.st_size) < kHeaderBytes) {
    throw DumpError(info.st_size == 0 ? DumpProblem::kTruncated : DumpProblem::kNotADump,
                    path + ": too small to be a dump of culprit (" + std::to_string(info.st_size) + " bytes)");
  }
  Dump dump;
  dump.path_ = path;
  dump.file_device_ = info.st_dev;
  dump.file_inode_ = info.st_ino;
  dump.file_owner_ = info.st_uid;
  watch_for_cut_off_files();
  // MAP_SHARED, so that the current records of a running target are seen.
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, input.file.get(), 0);
  if (memory == MAP_FAILED) {
    throw DumpError(DumpProblem::kCannotOpen, path + ": cannot be mapped: " + std::strerror(errno));
  }
  dump.data_ = static_cast<const unsigned char*>(memory);
  dump.size_ = static_cast<std::uint64_t>(info.st_size);
  dump.mapping_ = {dump.data_, Unmap{static_cast<std::size_t>(info.st_size)}};
  try {
    dump.parse();
  } catch (const DumpError&) {
    dump.check_whole();  // the true reason
    throw;
  }
  return dump;
}

void Dump::check_whole() const {
  if (mapping_ == nullptr || !take_cut_off(mapping_.get(), mapping_.get_deleter().bytes)) return;
  throw DumpError(DumpProblem::kTruncated, path_ +
                                               ": was cut off while it was read; copy it again from where it was "
                                               "written, or record it anew");
}

Dump Dump::from_bytes(const void* data, std::size_t size, const std::string& name) {
  if (size < kHeaderBytes) {
    throw DumpError(DumpProblem::kNotADump,
                    name + ": too small to be a dump of culprit (" + std::to_string(size) + " bytes)");
  }
  Dump dump;
  dump.path_ = name;
  dump.data_ = static_cast<const unsigned char*>(data);
  dump.size_ = size;
  dump.parse();
  return dump;
}

void Dump::Unmap::operator()(const unsigned char* begin) const {
  take_cut_off(begin, bytes);
  ::munmap(const_cast<unsigned char*>(begin), bytes);
}

void Dump::damaged(std::uint64_t offset, const std::string& what) const {
  throw DumpError(DumpProblem::kDamaged, path_ + ": damaged at byte " + std::to_string(offset) + ": " + what +
                                             "; copy it again from where it was written, or record it anew");
}

void Dump::check_header() {
  if (std::memcmp(data_, kMagic, sizeof(kMagic)) != 0) {
    throw DumpError(DumpProblem::kNotADump, path_ + ": is not a dump of culprit; name a file that libculprit.so wrote");
  }
  // The live counters may be changing: one copy makes the whole report consistent.
  std::memcpy(&header_, data_, sizeof(header_));
  if (header_.byte_order != kByteOrderMark) {
    const bool swapped = header_.byte_order == __builtin_bswap32(kByteOrderMark);
    throw DumpError(swapped ? DumpProblem::kByteOrder : DumpProblem::kDamaged,
                    path_ + (swapped ? ": was written on a machine of the other byte order; read it there"
                                     : ": its header is damaged (byte order mark)"));
  }
  if (header_.version > kVersion || header_.version < kOldestReadableVersion) {
    throw DumpError(DumpProblem::kOtherVersion,
                    path_ + ": has layout version " + std::to_string(header_.version) +
                        ", this culprit reads versions " + std::to_string(kOldestReadableVersion) + " to " +
                        std::to_string(kVersion) +
                        "; use the culprit command of the release that libculprit.so came from");
  }
  if (header_.header_bytes != kHeaderBytes) damaged(offsetof(Header, header_bytes), "unexpected header size");
  if (header_.file_bytes < kHeaderBytes || header_.file_bytes % kChunkAlignment != 0) {
    damaged(offsetof(Header, file_bytes), "impossible file size");
  }
  if (header_.file_bytes > size_ && header_.stop_reason == StopReason::kTruncated) {
    throw DumpError(DumpProblem::kTruncated, path_ + ": was cut off while the program ran: " + std::to_string(size_) +
                                                 " of " + std::to_string(header_.file_bytes) +
                                                 " bytes are there, so that nothing is known; run it again");
  }
  if (header_.file_bytes > size_) {
    throw DumpError(DumpProblem::kTruncated, path_ + ": is cut off: " + std::to_string(size_) + " of " +
                                                 std::to_string(header_.file_bytes) +
                                                 " bytes are there; copy it again from where it was written");
  }
}

void Dump::parse() {
  check_header();
  size_ = header_.file_bytes;
  const bool may_grow = header_.process_state != ProcessState::kExited && header_.snapshot_ns == 0;
  if (may_grow) copies_ = std::make_unique<Copies>();
  std::uint64_t offset = kHeaderBytes;
  while (offset < size_) {
    const std::uint64_t bytes = parse_chunk(offset);
    if (bytes == 0) break;
    offset += bytes;
  }
  if (may_grow) keep_first_states();
}

// Returns the chunk's size, or 0 when it was reserved but not published (by a running or killed target).
std::uint64_t Dump::parse_chunk(std::uint64_t offset) {
  const auto* live = reinterpret_cast<const ChunkHeader*>(data_ + offset);
  const std::uint32_t magic = __atomic_load_n(&live->magic, __ATOMIC_ACQUIRE);
  if (magic == 0) return 0;
  if (magic != kChunkMagic) damaged(offset, "no chunk begins here");
  ChunkHeader chunk;
  std::memcpy(&chunk, live, sizeof(chunk));
  chunk.used = __atomic_load_n(&live->used, __ATOMIC_ACQUIRE);
  if (chunk.bytes < kChunkAlignment || chunk.bytes % kChunkAlignment != 0 || chunk.bytes > size_ - offset) {
    damaged(offset, "impossible chunk size");
  }
  if (chunk.used > chunk.bytes - sizeof(ChunkHeader)) damaged(offset, "more used than there is");

  const std::uint64_t payload = offset + sizeof(ChunkHeader);
  const ChunkRow* row = chunk_row(chunk.type);
  if (row == nullptr && (chunk.flags & kChunkMayBeSkipped) != 0) {
    left_out_bytes_ += chunk.bytes;
    return chunk.bytes;
  }
  if (row == nullptr) {
    damaged(offset, "unknown chunk type " + std::to_string(static_cast<std::uint32_t>(chunk.type)));
  }
  if (row->record_bytes != 0 && chunk.record_bytes != row->record_bytes) damaged(offset, "records of unexpected size");
  switch (chunk.type) {
#define CHUNK(number, enumerator, record, member, ...)                                           \
  case ChunkType::enumerator:                                                                    \
    chunks_.member.push_back({data_ + payload, chunk.used / sizeof(record), chunk.first_index}); \
    break;
#define CHUNK_PACKED(number, enumerator, record, member, ...)  \
  case ChunkType::enumerator:                                  \
    chunks_.member.push_back({payload, payload + chunk.used}); \
    break;
#include "interpose/format/chunks.def"
  }
  return chunk.bytes;
}

// Finds the packed record at `ref`: returns its address and, in `rest`, the bytes from there to the end of its chunk's
// used part (at least header_bytes). nullptr when the reference is invalid.
const unsigned char* Dump::in_packed(const std::vector<Range>& ranges, Ref ref, std::uint64_t header_bytes,
                                     std::uint64_t* rest) const {
  if (ref == 0) return nullptr;
  const std::uint64_t offset = std::uint64_t{ref} * kRefUnit;
  auto after = std::upper_bound(ranges.begin(), ranges.end(), offset,
                                [](std::uint64_t value, const Range& range) { return value < range.begin; });
  if (after == ranges.begin()) return nullptr;
  const Range& range = *std::prev(after);
  if (offset >= range.end || range.end - offset < header_bytes) return nullptr;
  *rest = range.end - offset;
  return data_ + offset;
}

std::string_view Dump::string(Ref ref) const {
  std::uint64_t rest = 0;
  const unsigned char* at = in_packed(chunks_.strings, ref, sizeof(StringRecord), &rest);
  if (at == nullptr) return {};
  StringRecord record;
  std::memcpy(&record, at, sizeof(record));
  if (record.bytes > rest - sizeof(StringRecord)) return {};
  if (texts_->handed_out.fetch_add(record.bytes, std::memory_order_relaxed) >
      kTextOfAnyDump + kTextForEachByte * size_) {
    ++texts_->left_out;
    return {};
  }
  return {reinterpret_cast<const char*>(at + sizeof(StringRecord)), record.bytes};
}

bool Dump::stack(Ref ref, StackView* view) const {
  if (copies_ == nullptr) return read_stack(ref, view, nullptr);
  const std::lock_guard<std::mutex> guard(copies_->mutex);
  const auto [at, is_new] = copies_->stacks.try_emplace(ref);
  Copy& copy = at->second;
  if (is_new) copy.known = read_stack(ref, &copy.view, &copy.frames);
  *view = copy.view;
  return copy.known;
}

// If `copy` is not null, it receives the frames, and `view` points into it.
bool Dump::read_stack(Ref ref, StackView* view, std::vector<std::uint64_t>* copy) const {
  std::uint64_t rest = 0;
  const unsigned char* at = in_packed(chunks_.stacks, ref, sizeof(StackRecord), &rest);
  if (at == nullptr) return false;
  StackRecord record;
  std::memcpy(&record, at, sizeof(record));
  if (record.frame_count > (rest - sizeof(StackRecord)) / sizeof(std::uint64_t)) return false;
  const auto* frames = reinterpret_cast<const std::uint64_t*>(at + sizeof(StackRecord));
  if (copy != nullptr) {
    copy->assign(frames, frames + record.frame_count);
    frames = copy->data();
  }
  if (record.check != 0 && ((record.flags & kStackFree) != 0 || record.born > header_.stack_sweeps ||
                            record.check != stack_check(frames, record.frame_count, record.flags))) {
    return false;
  }
  view->frames = frames;
  view->frame_count = record.frame_count;
  view->flags = record.flags;
  view->allocations = record.allocations;
  return true;
}

std::string Dump::api_name(std::uint16_t index) const {
  ApiRecord record;
  if (!indexed(chunks_.apis, index, &record)) return {};
  return std::string(record.name, ::strnlen(record.name, sizeof(record.name)));
}

std::vector<TimeLineRecord> Dump::time_lines() const {
  std::vector<TimeLineRecord> result;
  for (const Array& array : chunks_.time_lines) {
    for (std::uint64_t i = 0; i < array.count; ++i) {
      TimeLineRecord line = {};
      // The process may be writing the record now, or was killed while it did.
      bool settled = false;
      for (int tries = 0; tries < 100 && !settled; ++tries) {
        settled = copy_stable(array.data + i * sizeof(line), &line) && line.state % 2 == 0;
      }
      if (line.state == 0 || line.bucket_ns == 0 || line.used > kTimeLineBuckets) continue;
      const bool known = std::any_of(result.begin(), result.end(),
                                     [&](const TimeLineRecord& one) { return one.device == line.device; });
      if (!known) result.push_back(line);
    }
  }
  return result;
}

CallCounts Dump::call_counts() const {
  CallCounts counts;
  counts.allocations = header_.allocations;
  counts.frees = header_.frees;
  counts.objects = header_.objects;
  counts.object_frees = header_.object_frees;
  for (const Array& array : chunks_.counters) {
    for (std::uint64_t i = 0; i < array.count; ++i) {
      const auto* block = reinterpret_cast<const ThreadCounters*>(array.data + i * sizeof(ThreadCounters));
      counts.allocations += __atomic_load_n(&block->allocations, __ATOMIC_RELAXED);
      counts.frees += __atomic_load_n(&block->frees, __ATOMIC_RELAXED);
      counts.objects += __atomic_load_n(&block->objects, __ATOMIC_RELAXED);
      counts.object_frees += __atomic_load_n(&block->object_frees, __ATOMIC_RELAXED);
      for (const StackCounter& counter : block->stacks) {
        const Ref stack = __atomic_load_n(&counter.stack, __ATOMIC_RELAXED);
        if (stack != 0) counts.by_stack[stack] += __atomic_load_n(&counter.allocations, __ATOMIC_RELAXED);
      }
    }
  }
  counts.allocations -= std::min(counts.objects, counts.allocations);
  counts.frees -= std::min(counts.object_frees, counts.frees);
  return counts;
}

bool Dump::is_live(std::uint32_t state) {
  const auto kind = format::state_of(state);
  return kind == AllocationState::kLive || kind == AllocationState::kFreeing;
}

void Dump::keep_first_states() {
  first_states_.reserve(allocation_records());
  for (const Array& array : chunks_.allocations) {
    for (std::uint64_t i = 0; i < array.count; ++i) {
      const auto* state = reinterpret_cast<const std::uint32_t*>(array.data + i * sizeof(AllocationRecord));
      first_states_.push_back(__atomic_load_n(state, __ATOMIC_ACQUIRE));
    }
  }
}

}  // namespace culprit::report
