#include "interpose/control/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/descriptors.h"
#include "interpose/base/own_memory.h"
#include "interpose/base/text_writer.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

constexpr std::uint64_t kPieceBytes = 256 << 10;

// A raw system call, because write() is a cancellation point.
int write_all(int fd, const void* data, std::uint64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    long written = syscall(SYS_write, fd, from, bytes);
    if (written < 0 && errno != EINTR) return errno;
    if (written < 0) continue;
    from += written;
    bytes -= static_cast<std::uint64_t>(written);
  }
  return 0;
}

bool is_dump(const char* path) {
  int fd = os.open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
  if (fd < 0) return false;
  char magic[sizeof(format::kMagic)] = {};
  bool same = os.read_at(fd, magic, sizeof(magic), 0) == static_cast<std::int64_t>(sizeof(magic)) &&
              std::memcmp(magic, format::kMagic, sizeof(magic)) == 0;
  os.close_file(fd);
  return same;
}

// Other threads make and end allocations meanwhile. A record whose generation has changed since the copy may be half
// old and half new: it is dropped.
void drop_changed(unsigned char* copy, const unsigned char* from, std::uint64_t bytes) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  for (std::uint64_t at = 0; at + sizeof(format::AllocationRecord) <= bytes; at += sizeof(format::AllocationRecord)) {
    auto* record = reinterpret_cast<format::AllocationRecord*>(copy + at);
    const auto* live = reinterpret_cast<const format::AllocationRecord*>(from + at);
    std::uint32_t now = __atomic_load_n(&live->state, __ATOMIC_RELAXED);
    if (now >> format::kStateBits != record->state >> format::kStateBits) record->state = 0;
  }
}

int copy_chunk(int fd, const unsigned char* chunk, unsigned char* buffer) {
  const auto* header = reinterpret_cast<const format::ChunkHeader*>(chunk);
  bool allocations = header->type == format::ChunkType::kAllocations;
  int error = write_all(fd, header, sizeof(*header));
  for (std::uint64_t at = sizeof(*header); at < header->bytes && error == 0; at += kPieceBytes) {
    std::uint64_t bytes = header->bytes - at < kPieceBytes ? header->bytes - at : kPieceBytes;
    std::memcpy(buffer, chunk + at, bytes);
    if (allocations) drop_changed(buffer, chunk + at, bytes);
    error = write_all(fd, buffer, bytes);
  }
  return error;
}

int copy_dump(Process& process, int fd, unsigned char* buffer) {
  format::Header* header = process.dump.header();
  std::uint64_t end = __atomic_load_n(&header->file_bytes, __ATOMIC_ACQUIRE);
  std::memcpy(buffer, header, sizeof(*header));
  auto* copy = reinterpret_cast<format::Header*>(buffer);
  copy->file_bytes = end;
  copy->snapshot_ns = now_ns(process);
  if (copy->snapshot_ns == 0) copy->snapshot_ns = 1;
  int error = write_all(fd, copy, sizeof(*copy));
  const auto* base = reinterpret_cast<const unsigned char*>(header);
  for (std::uint64_t at = format::kHeaderBytes; at < end && error == 0;) {
    const auto* chunk = reinterpret_cast<const format::ChunkHeader*>(base + at);
    error = copy_chunk(fd, base + at, buffer);
    at += chunk->bytes;
  }
  return error;
}

}  // namespace

int write_snapshot(Process& process, const char* path) {
  if (access(path, F_OK) == 0 && !is_dump(path)) return EEXIST;
  char temporary[4096];
  TextWriter name(temporary, sizeof(temporary));
  (name << path << "." << process.pid << ".").hex(thread_state.index) << ".tmp";
  if (name.cut()) return ENAMETOOLONG;
  int error = 0;
  void* buffer = map_private(kPieceBytes, &error);
  if (buffer == nullptr) return error;
  const int fd = open_high(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600).fd;
  error = fd < 0 ? -fd : copy_dump(process, fd, static_cast<unsigned char*>(buffer));
  unmap_private(buffer, kPieceBytes);
  if (fd < 0) return error;
  os.close_file(fd);
  if (error == 0 && rename(temporary, path) != 0) error = errno;
  if (error != 0) unlink(temporary);
  return error;
}

}  // namespace culprit
