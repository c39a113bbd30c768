#include "interpose/dump/dump_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/restrictions.h"

#include "interpose/base/text_writer.h"

namespace culprit {

using format::ChunkHeader;
using format::ChunkType;
using format::Ref;
using format::StopReason;

namespace {

constexpr std::uint64_t kLeastPiece = 2ULL << 20;  // of the range: the first chunks, and some
constexpr int kMostSuffixes = 10000;
constexpr int kRemovePages = 9;  // MADV_REMOVE
constexpr int kNoReadAhead = 1;  // MADV_RANDOM

struct ChunkSizes {
  std::uint64_t first;
  std::uint64_t next;
  std::uint32_t record_bytes;
};

ChunkSizes chunk_sizes(ChunkType type) {
  const format::ChunkRow& row = *format::chunk_row(type);
  return {std::uint64_t{1024} * row.first_kib, std::uint64_t{1024} * row.next_kib, row.record_bytes};
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Where a dump cannot be created under a name that is taken: 0 = it can get a numbered suffix, -1 = memory stands in
// for a device that keeps nothing, else an errno. A link counts as its target: /dev/stdout is a terminal or a pipe.
int taken_by(const char* path) {
  FileId taken;
  if (os.identify_path(path, &taken) != 0 || S_ISREG(taken.mode)) return 0;
  if (S_ISCHR(taken.mode)) return -1;
  return S_ISDIR(taken.mode) ? EISDIR : ESPIPE;
}

// Makes the folders of `path` that do not exist. Returns 0 or the last errno other than EEXIST. `path` is unchanged
// afterwards.
int make_folders(char* path) {
  if (calls_restricted()) return ENOENT;
  int error = 0;
  for (char* p = path + 1; *p != '\0'; ++p) {
    if (*p != '/') continue;
    *p = '\0';
    const int made = -os.make_folder(path);
    *p = '/';
    if (made != EEXIST) error = made;
  }
  return error;
}

// Writes `path` with a number before the extension of the file's name.
void add_suffix(const char* path, int suffix, char* to, std::size_t capacity) {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  const char* dot = std::strrchr(name, '.');
  const std::size_t stem = dot == nullptr || dot == name ? std::strlen(path) : static_cast<std::size_t>(dot - path);
  TextWriter(to, capacity).add(path, stem) << "." << suffix << path + stem;
}

}  // namespace

int DumpWriter::open_new(const char* path, bool makes_folders, OpenedFile* file) {
  std::size_t length = std::strlen(path);
  if (length == 0 || length + 8 >= kPathBytes) return ENAMETOOLONG;
  int error = 0;
  if (path_ == nullptr) path_ = static_cast<char*>(map_private(kPathBytes, &error));
  if (path_ == nullptr) return error;
  std::memcpy(path_, path, length + 1);
  for (int suffix = 1; suffix <= kMostSuffixes; ++suffix) {
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    *file = open_high(path_, kFlags, 0600);
    if (file->fd == -ENOENT && suffix == 1 && makes_folders) {
      error = make_folders(path_);
      if (error != 0) return error;
      *file = open_high(path_, kFlags, 0600);
    }
    if (file->fd >= 0) return 0;
    if (file->fd != -EEXIST) return -file->fd;
    if (suffix == 1) {
      error = taken_by(path_);
      in_memory_ = error == -1;
      if (in_memory_) return 0;
      if (error != 0) return error;
    }
    add_suffix(path, suffix, path_, kPathBytes);
  }
  return EEXIST;
}

// How many bytes to reserve and map at once where `least` are needed. A process that begins needs a dozen chunks of a
// few pages, and each growth takes 25 us (DECISIONS.md): files of the kernel are read, and a descriptor comes
// and goes.
std::uint64_t DumpWriter::bytes_ahead(std::uint64_t least) const {
  constexpr std::uint64_t kAtStart = 320 << 10;
  constexpr std::uint64_t kLater = 128 << 10;
  constexpr std::uint64_t kSmallFile = 1 << 20;
  const std::uint64_t ahead = mapped_ < kAtStart ? kAtStart - mapped_ : mapped_ < kSmallFile ? kLater : 0;
  const std::uint64_t room = limit_ > mapped_ ? limit_ - mapped_ : 0;
  return std::max(least, std::min(ahead, room));
}

// Reserves the next bytes of the file on disk: `*bytes`, or `least` where there is no room for so many below `limit`
// (RLIMIT_FSIZE) or on the disk. Returns 0 or an errno.
int DumpWriter::reserve_piece(int fd, std::uint64_t limit, std::uint64_t least, std::uint64_t* bytes) {
  if (mapped_ + *bytes > limit) *bytes = least;
  int error = -os.reserve(fd, mapped_, *bytes);
  if (error == 0 || *bytes == least) return error;
  *bytes = least;
  error = -os.reserve(fd, mapped_, least);
  return error;
}

// Maps the next `bytes` of the file, which are reserved on disk, or of private memory, behind the mapped part. Returns
// 0 or an errno.
int DumpWriter::map_piece(int fd, std::uint64_t bytes) {
  const int error = map_in_range(base_ + mapped_, bytes, in_memory_ ? -1 : fd, in_memory_ ? 0 : mapped_);
  if (error == 0) mapped_ += bytes;
  return error;
}

void DumpWriter::postpone_waits() {
  // The wait is then a hundredth of the time.
  constexpr std::uint64_t kNoWait = 2'000'000'000;
  may_wait_from_ns_.store(clock_ns(CLOCK_MONOTONIC_COARSE) + kNoWait, std::memory_order_relaxed);
}

int DumpWriter::start(const char* path, std::uint64_t limit, bool makes_folders) {
  look_at_restrictions();
  postpone_waits();
  limit_ = limit < kLargestDump ? limit / format::kChunkAlignment * format::kChunkAlignment : kLargestDump;
  OpenedFile file = {-1, false};
  fd_ = -1;
  int error = open_new(path, makes_folders, &file);
  if (error != 0) return error;
  if (!in_memory_) error = -os.identify(file.fd, &id_);
  if (error == 0) error = map_header(file.fd);
  const bool kept = file.may_be_kept && error == 0;
  fd_ = kept ? file.fd : -1;
  if (!kept && file.fd >= 0) os.close_file(file.fd);
  if (error != 0) {
    remove_useless();
    return error;
  }

  format::Header* fixed = header();
  std::memcpy(fixed->magic, format::kMagic, sizeof(fixed->magic));
  fixed->version = format::kVersion;
  fixed->header_bytes = format::kHeaderBytes;
  fixed->byte_order = format::kByteOrderMark;
  fixed->size_limit = limit_;
  __atomic_store_n(&fixed->file_bytes, size_, __ATOMIC_RELEASE);
  return 0;
}

void DumpWriter::remove_useless() {
  FileId named;
  if (in_memory_ || calls_restricted() || os.identify_path(path_, &named) != 0 || !named.same_file(id_)) return;
  unlink(path_);
}

int DumpWriter::map_header(int fd) {
  int error = 0;
  // Where the addresses do not suffice for the whole range (a container, a small virtual machine), it grows by pieces.
  for (reserved_ = range_piece(kLeastPiece, round_up(limit_, kLeastPiece));; reserved_ /= 2) {
    base_ = reserve_range(nullptr, reserved_, &error);
    if (base_ != nullptr || reserved_ / 2 < kLeastPiece) break;
  }
  if (base_ == nullptr) return error;
  error = 0;
  std::uint64_t bytes = in_memory_ ? format::kHeaderBytes : bytes_ahead(format::kHeaderBytes);
  if (!in_memory_) {
    const std::uint64_t limit = os.limit(RLIMIT_FSIZE);
    if (limit < format::kHeaderBytes) return EFBIG;
    error = reserve_piece(fd, limit, format::kHeaderBytes, &bytes);
  }
  if (error == 0) error = map_piece(fd, bytes);
  if (error != 0) return error;
  size_ = format::kHeaderBytes;
  // Without it the first store makes some kernels fill many pages with zeros, of which a short process uses a few.
  if (!in_memory_) os.advise(base_, mapped_, kNoReadAhead);
  return 0;
}

void DumpWriter::close() {
  if (path_ != nullptr) unmap_private(path_, kPathBytes);
  // Forgotten first: a child that is forked in between must not give back what may be another mapping by then.
  unsigned char* base = __atomic_exchange_n(&base_, nullptr, __ATOMIC_SEQ_CST);
  if (base != nullptr) give_back_range(base, reserved_, mapped_);
  // The target may have closed it and used the number again.
  if (id_.inode != 0 && is_ours(fd_)) os.close_file(fd_);
  std::memset(static_cast<void*>(this), 0, sizeof(*this));
}

void DumpWriter::stop(StopReason reason, int error) {
  int expected = 0;
  if (!stopped_.compare_exchange_strong(expected, static_cast<int>(reason))) return;
  stop_errno_.store(error, std::memory_order_relaxed);
  store_stop_reason();
  news_.store(1, std::memory_order_relaxed);
}

void DumpWriter::store_stop_reason() {
  header()->stop_errno = stop_errno();
  header()->stop_reason = stop_reason();
}

bool DumpWriter::is_ours(int fd) const {
  FileId now;
  return fd >= 0 && os.identify(fd, &now) == 0 && now.same_file(id_);
}

bool DumpWriter::check_truncated() {
  if (in_memory_ || base_ == nullptr) return false;
  SpinGuard guard(lock_);
  const OpenedFile file = borrow_descriptor();
  if (file.fd < 0) return false;
  const bool truncated = stop_if_truncated(file.fd);
  give_back_descriptor(file);
  return truncated;
}

bool DumpWriter::stop_if_truncated(int fd) {
  FileId now;
  if (os.identify(fd, &now) != 0 || now.bytes >= mapped_) return false;
  stop(StopReason::kTruncated, 0);
  return true;
}

bool DumpWriter::replace_lost(void* address) {
  auto* page = reinterpret_cast<unsigned char*>(reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{4095});
  if (base_ == nullptr || in_memory_ || page < base_ || page >= base_ + mapped_) return false;
  // A truncation takes all bytes up to the end of the file. The bytes before it may still be in the file.
  if (map_in_range(page, static_cast<std::uint64_t>(base_ + mapped_ - page), -1, 0) != 0) return false;
  stop(StopReason::kTruncated, 0);
  // The header that had the reason may be among the lost pages.
  store_stop_reason();
  return true;
}

// A target may close our descriptor ("close everything above 2") and open something else under the same number: then,
// and where no descriptor is kept, the file is opened again by its name. `fd` is negative when it is not there any
// more.
OpenedFile DumpWriter::borrow_descriptor() {
  if (is_ours(fd_)) return {fd_, true};
  const bool may_wait = clock_ns(CLOCK_MONOTONIC_COARSE) >= may_wait_from_ns_.load(std::memory_order_relaxed);
  OpenedFile file = open_high(path_, O_RDWR | O_NOFOLLOW, 0, may_wait);
  if (file.fd < 0) return file;
  if (!is_ours(file.fd)) {
    os.close_file(file.fd);
    return {-EBADF, false};
  }
  fd_ = file.may_be_kept ? file.fd : -1;  // the old number now belongs to the target: it is not ours to close
  return file;
}

void DumpWriter::give_back_descriptor(const OpenedFile& file) {
  if (!file.may_be_kept) os.close_file(file.fd);
}

// Extends the file by its name, where the program uses all its descriptors. A file that took the name meanwhile has
// another inode, and stays as it is.
bool DumpWriter::extend_by_name(std::uint64_t bytes) {
  FileId now;
  if (calls_restricted_now() || os.identify_path(path_, &now) != 0 || !now.same_file(id_) || now.bytes < mapped_)
    return false;
  if (os.resize(path_, mapped_ + bytes) != 0 || continue_mapping(base_ + mapped_, bytes) != 0) return false;
  mapped_ += bytes;
  return true;
}

// Reserves and maps the next `bytes` of the file, or `least` where there is no room for so many. On failure recording
// stops.
bool DumpWriter::extend_file(std::uint64_t least, std::uint64_t bytes) {
  const std::uint64_t limit = os.limit(RLIMIT_FSIZE);
  if (mapped_ + least > limit) {
    stop(StopReason::kFileSizeLimit, EFBIG);
    return false;
  }
  const OpenedFile file = borrow_descriptor();
  if (file.fd == -EMFILE && extend_by_name(least)) return true;
  if (file.fd < 0) {
    stop(file.fd == -EMFILE ? StopReason::kNoDescriptor : StopReason::kFileReplaced, -file.fd);
    return false;
  }
  if (stop_if_truncated(file.fd)) {
    // The file is not filled up again: a hole of zeros in the middle would look like a part that was never used.
    give_back_descriptor(file);
    return false;
  }
  int error = reserve_piece(file.fd, limit, least, &bytes);
  if (error == 0) error = map_piece(file.fd, bytes);
  give_back_descriptor(file);
  if (error != 0) stop(StopReason::kNoSpace, error);
  return error == 0;
}

bool DumpWriter::make_hole(Ref first, std::uint64_t bytes) {
  // By the address, because a program may close the descriptor or use all of them. Fails for private memory, which
  // takes the place of a file that was truncated.
  return !in_memory_ && !stopped() && os.advise(at<unsigned char>(first), bytes, kRemovePages) == 0;
}

bool DumpWriter::reserve_again(Ref first, std::uint64_t bytes) {
  SpinGuard guard(lock_);
  if (stopped()) return false;
  const OpenedFile file = borrow_descriptor();
  if (file.fd < 0) return false;
  const bool reserved =
      !stop_if_truncated(file.fd) && os.reserve(file.fd, std::uint64_t{first} * format::kRefUnit, bytes) == 0;
  give_back_descriptor(file);
  return reserved;
}

// Makes the range of addresses at least `bytes` long. On failure recording stops.
bool DumpWriter::grow_range(std::uint64_t bytes) {
  if (bytes <= reserved_) return true;
  const std::uint64_t least = round_up(bytes - reserved_, kLeastPiece);
  int error = 0;
  for (std::uint64_t piece : {range_piece(least, round_up(limit_, kLeastPiece) - reserved_), least}) {
    if (reserve_range(base_ + reserved_, piece, &error) == nullptr) continue;
    reserved_ += piece;
    return true;
  }
  stop(StopReason::kNoAddresses, error);
  return false;
}

// Adds `bytes` to the chunks.
bool DumpWriter::grow(std::uint64_t bytes) {
  if (size_ + bytes > mapped_ && !map_more(size_ + bytes - mapped_)) return false;
  size_ += bytes;
  return true;
}

bool DumpWriter::map_more(std::uint64_t least) {
  look_at_restrictions();
  const std::uint64_t bytes = in_memory_ ? least : bytes_ahead(least);
  if (!grow_range(mapped_ + bytes)) return false;
  if (!in_memory_) return extend_file(least, bytes);
  const int error = map_piece(-1, least);
  if (error != 0) stop(StopReason::kNoMemory, error);
  return error == 0;
}

// How large a chunk of this type may be below the limit.
std::uint64_t DumpWriter::room_for(ChunkType type) const {
  const format::ChunkRow& row = *format::chunk_row(type);
  const std::uint64_t own = limit_ / 32 * row.own_room;
  const std::uint64_t file = limit_ / 32 * row.file_room;
  const std::uint64_t total = open_[static_cast<int>(type)].total;
  const std::uint64_t own_room = own > total ? own - total : 0;
  const std::uint64_t file_room = file > size_ ? file - size_ : 0;
  return (own_room < file_room ? own_room : file_room) / format::kChunkAlignment * format::kChunkAlignment;
}

void DumpWriter::note_full(ChunkType type) {
  const std::uint32_t bit = 1U << (static_cast<unsigned>(type) % 32);
  if (__atomic_fetch_or(&header()->limited_types, bit, __ATOMIC_RELAXED) == 0)
    news_.store(1, std::memory_order_relaxed);
}

// nullptr when the dump cannot grow.
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
  chunk_header->flags = format::chunk_flags(type);
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
    const std::uint64_t least = round_up(bytes + sizeof(ChunkHeader), format::kChunkAlignment);
    std::uint64_t size = wanted > least ? wanted : least;
    const std::uint64_t room = room_for(type);
    if (least > room) {
      note_full(type);
      return 0;
    }
    if (size > room) size = room;
    std::uint64_t offset = size_;
    if (add_chunk_locked(type, size, 0, record_bytes, chunk.next_index) == nullptr) return 0;
    chunk.offset = offset;
    chunk.total += size;
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
