#include "interpose/dump_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

namespace culprit {

using format::ChunkHeader;
using format::ChunkType;
using format::Ref;
using format::StopReason;

namespace {

constexpr std::uint64_t kReservedAddressRange = 64ULL << 30;  // the most that a Ref can name
constexpr std::uint64_t kSmallestAddressRange = 64ULL << 20;
constexpr int kMostSuffixes = 10000;

struct ChunkSizes {
  std::uint64_t first;
  std::uint64_t next;
  std::uint32_t record_bytes;
};

// The first chunks stay under 1 MiB together, so that a program with one allocation leaves a small file.
ChunkSizes chunk_sizes(ChunkType type) {
  constexpr std::uint64_t kKiB = 1024;
  switch (type) {
    case ChunkType::kAllocations:
      return {256 * kKiB, 1024 * kKiB, sizeof(format::AllocationRecord)};
    case ChunkType::kStacks:
      return {128 * kKiB, 512 * kKiB, 0};
    case ChunkType::kModules:
      return {16 * kKiB, 32 * kKiB, sizeof(format::ModuleRecord)};
    case ChunkType::kStrings:
      return {32 * kKiB, 64 * kKiB, 0};
    case ChunkType::kThreads:
      return {20 * kKiB, 20 * kKiB, sizeof(format::ThreadRecord)};
    case ChunkType::kContexts:
      return {4 * kKiB, 16 * kKiB, sizeof(format::ContextRecord)};
    case ChunkType::kDevices:
      return {12 * kKiB, 16 * kKiB, sizeof(format::DeviceRecord)};
    case ChunkType::kErrors:
      return {32 * kKiB, 64 * kKiB, sizeof(format::ErrorRecord)};
    case ChunkType::kReleases:
      return {16 * kKiB, 64 * kKiB, sizeof(format::ReleaseRecord)};
    case ChunkType::kCounters:
      return {20 * kKiB, 68 * kKiB, sizeof(format::ThreadCounters)};
    case ChunkType::kApis:
      return {32 * kKiB, 32 * kKiB, sizeof(format::ApiRecord)};
    case ChunkType::kPythonFrames:
      return {8 * kKiB, 64 * kKiB, sizeof(format::PythonFrameRecord)};
    case ChunkType::kThrows:
      return {16 * kKiB, 32 * kKiB, sizeof(format::ThrowRecord)};
    case ChunkType::kFailedCalls:
      return {16 * kKiB, 32 * kKiB, sizeof(format::FailedCallRecord)};
    case ChunkType::kEvidence:
      return {4 * kKiB, 16 * kKiB, sizeof(format::EvidenceRecord)};
    case ChunkType::kHolders:
      return {16 * kKiB, 256 * kKiB, sizeof(format::HolderRecord)};
    case ChunkType::kMarks:
      return {4 * kKiB, 64 * kKiB, sizeof(format::MarkRecord)};
    case ChunkType::kLabels:
      return {4 * kKiB, 64 * kKiB, sizeof(format::LabelRecord)};
    case ChunkType::kTimeLines:
      return {16 * kKiB, 52 * kKiB, sizeof(format::TimeLineRecord)};
    case ChunkType::kPictures:
      return {8 * kKiB, 16 * kKiB, sizeof(format::PictureRecord)};
    case ChunkType::kSpans:
      return {4 * kKiB, 16 * kKiB, sizeof(format::SpanRecord)};
    case ChunkType::kSites:
      return {16 * kKiB, 64 * kKiB, sizeof(format::SiteRecord)};
  }
  return {64 * kKiB, 64 * kKiB, 0};
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

int DumpWriter::open_new(const char* path) {
  std::size_t length = std::strlen(path);
  if (length == 0 || length + 8 >= kPathBytes) return ENAMETOOLONG;
  int error = 0;
  if (path_ == nullptr) path_ = static_cast<char*>(map_private(kPathBytes, &error));
  if (path_ == nullptr) return error;
  std::memcpy(path_, path, length + 1);
  for (int suffix = 1; suffix <= kMostSuffixes; ++suffix) {
    fd_ = os.open_file(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd_ >= 0) return 0;
    if (fd_ != -EEXIST) return -fd_;
    std::snprintf(path_ + length, kPathBytes - length, ".%d", suffix);
  }
  return EEXIST;
}

int DumpWriter::start(const char* path) {
  int error = open_new(path);
  if (error != 0) return error;
  error = -os.identify(fd_, &id_);
  if (error != 0) return error;

  for (reserved_ = kReservedAddressRange; reserved_ >= kSmallestAddressRange; reserved_ /= 2) {
    base_ = static_cast<unsigned char*>(
        os.map(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0, &error));
    if (base_ != nullptr) break;
  }
  if (base_ == nullptr) return error;
  os.advise(base_, reserved_, MADV_DONTFORK);

  if (os.file_size_limit() < format::kHeaderBytes) return EFBIG;
  error = -os.reserve(fd_, 0, format::kHeaderBytes);
  if (error != 0) return error;
  if (os.map(base_, format::kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0, &error) == nullptr)
    return error;
  os.advise(base_, format::kHeaderBytes, MADV_DONTFORK);
  size_ = format::kHeaderBytes;

  format::Header* fixed = header();
  std::memcpy(fixed->magic, format::kMagic, sizeof(fixed->magic));
  fixed->version = format::kVersion;
  fixed->header_bytes = format::kHeaderBytes;
  fixed->byte_order = format::kByteOrderMark;
  __atomic_store_n(&fixed->file_bytes, size_, __ATOMIC_RELEASE);
  return 0;
}

void DumpWriter::close() {
  if (path_ != nullptr) os.unmap(path_, kPathBytes);
  if (base_ != nullptr) os.unmap(base_, reserved_);
  FileId now;
  // The target may have closed it and used the number again.
  if (fd_ >= 0 && id_.inode != 0 && os.identify(fd_, &now) == 0 && now.device == id_.device && now.inode == id_.inode)
    os.close_file(fd_);
  std::memset(static_cast<void*>(this), 0, sizeof(*this));
}

void DumpWriter::stop(StopReason reason, int error) {
  int expected = 0;
  if (!stopped_.compare_exchange_strong(expected, 1)) return;
  format::Header* fixed = header();
  fixed->stop_errno = error;
  fixed->stop_reason = reason;
}

// A target may close our descriptor ("close everything above 2") and open something else under the same number.
bool DumpWriter::check_descriptor() {
  FileId now;
  if (os.identify(fd_, &now) == 0 && now.device == id_.device && now.inode == id_.inode) return true;
  int fd = os.open_file(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0) return false;
  if (os.identify(fd, &now) == 0 && now.device == id_.device && now.inode == id_.inode) {
    fd_ = fd;  // the old number now belongs to the target: it is not ours to close
    return true;
  }
  os.close_file(fd);
  return false;
}

bool DumpWriter::grow(std::uint64_t bytes) {
  if (size_ + bytes > reserved_) {
    stop(StopReason::kTooLarge, 0);
    return false;
  }
  if (size_ + bytes > os.file_size_limit()) {
    stop(StopReason::kFileSizeLimit, EFBIG);
    return false;
  }
  if (!check_descriptor()) {
    stop(StopReason::kFileReplaced, EBADF);
    return false;
  }
  int error = -os.reserve(fd_, size_, bytes);
  if (error == 0) {
    void* wanted = base_ + size_;
    os.map(wanted, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, size_, &error);
    if (error == 0) {
      os.advise(wanted, bytes, MADV_DONTFORK);
      size_ += bytes;
      return true;
    }
  }
  stop(StopReason::kNoSpace, error);
  return false;
}

// nullptr when the dump can not grow.
ChunkHeader* DumpWriter::add_chunk_locked(ChunkType type, std::uint64_t bytes, std::uint64_t used,
                                          std::uint32_t record_bytes, std::uint32_t first_index) {
  std::uint64_t offset = size_;
  if (stopped() || !grow(bytes)) return nullptr;
  auto* chunk_header = reinterpret_cast<ChunkHeader*>(base_ + offset);
  chunk_header->type = type;
  chunk_header->bytes = bytes;
  chunk_header->used = used;
  chunk_header->record_bytes = record_bytes;
  chunk_header->first_index = first_index;
  __atomic_store_n(&chunk_header->magic, format::kChunkMagic, __ATOMIC_RELEASE);
  __atomic_store_n(&header()->file_bytes, size_, __ATOMIC_RELEASE);
  return chunk_header;
}

Ref DumpWriter::allocate_chunk(ChunkType type, std::uint64_t bytes, std::uint64_t* payload_bytes) {
  const std::uint64_t size = round_up(bytes, format::kChunkAlignment);
  SpinGuard guard(lock_);
  const ChunkHeader* chunk =
      add_chunk_locked(type, size, size - sizeof(ChunkHeader), chunk_sizes(type).record_bytes, 0);
  if (chunk == nullptr) return 0;
  *payload_bytes = size - sizeof(ChunkHeader);
  return static_cast<Ref>((reinterpret_cast<const unsigned char*>(chunk + 1) - base_) /
                          static_cast<long>(format::kRefUnit));
}

Ref DumpWriter::allocate_locked(ChunkType type, std::uint64_t bytes, std::uint32_t record_bytes, std::uint32_t count) {
  OpenChunk& chunk = open_[static_cast<int>(type)];
  if (chunk.offset == 0 || chunk.used + bytes > chunk.capacity) {
    ChunkSizes sizes = chunk_sizes(type);
    std::uint64_t wanted = chunk.offset == 0 ? sizes.first : sizes.next;
    std::uint64_t size =
        round_up(wanted > bytes + sizeof(ChunkHeader) ? wanted : bytes + sizeof(ChunkHeader), format::kChunkAlignment);
    std::uint64_t offset = size_;
    if (add_chunk_locked(type, size, 0, record_bytes, chunk.next_index) == nullptr) return 0;
    chunk.offset = offset;
    chunk.used = 0;
    chunk.capacity = size - sizeof(ChunkHeader);
  }
  std::uint64_t place = chunk.offset + sizeof(ChunkHeader) + chunk.used;
  chunk.used += bytes;
  chunk.next_index += count;
  return static_cast<Ref>(place / format::kRefUnit);
}

Ref DumpWriter::append(ChunkType type, const void* head, std::uint64_t head_bytes, const void* body,
                       std::uint64_t body_bytes) {
  SpinGuard guard(lock_);
  Ref ref = allocate_locked(type, round_up(head_bytes + body_bytes, format::kRefUnit), 0, 0);
  if (ref == 0) return 0;
  unsigned char* place = at<unsigned char>(ref);
  std::memcpy(place, head, head_bytes);
  if (body_bytes != 0) std::memcpy(place + head_bytes, body, body_bytes);
  publish_used(type);
  return ref;
}

void DumpWriter::publish_used(ChunkType type) {
  OpenChunk& chunk = open_[static_cast<int>(type)];
  auto* chunk_header = reinterpret_cast<ChunkHeader*>(base_ + chunk.offset);
  __atomic_store_n(&chunk_header->used, chunk.used, __ATOMIC_RELEASE);
}

Ref DumpWriter::allocate_records(ChunkType type, std::uint32_t count, std::uint32_t* first_index) {
  std::uint32_t record_bytes = chunk_sizes(type).record_bytes;
  SpinGuard guard(lock_);
  Ref ref = allocate_locked(type, static_cast<std::uint64_t>(record_bytes) * count, record_bytes, count);
  if (ref == 0) return 0;
  if (first_index != nullptr) *first_index = open_[static_cast<int>(type)].next_index - count;
  publish_used(type);
  return ref;
}

Ref DumpWriter::add_string(const char* text, std::uint64_t bytes) {
  format::StringRecord head = {static_cast<std::uint32_t>(bytes), {}};
  return append(ChunkType::kStrings, &head, sizeof(head), text, bytes);
}

}  // namespace culprit
