// Creates the dump file, maps it, and hands out space in it, independently of the records' meaning.
//
//   address range (PROT_NONE): offset in file = address - base, so a Ref becomes a pointer by one addition. Reserved at
//   the start; where the address space is limited in small pieces, each behind the last
//   +--------+-------+-------+--------------------------------------------+
//   | header | chunk | chunk |  not yet mapped ...                        |
//   +--------+-------+-------+--------------------------------------------+
//
// Growing reserves the disk space first (posix_fallocate), so that a full disk is an error code here and never a SIGBUS
// in the user's thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/format/dump_format.h"
#include "interpose/system/descriptors.h"
#include "interpose/system/os.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

// All zeros = not started.
class DumpWriter {
 public:
  // Creates the file (O_EXCL, O_NOFOLLOW, mode 0600) and, with `makes_folders`, the folders of its path that do not
  // exist, and writes the header's fixed part. When a file or a dangling link has the name "a.dump", the file is
  // "a.1.dump", "a.2.dump", ... `path` is copied. Returns 0 or an errno: EISDIR for a folder, ESPIPE for a file that
  // cannot be mapped (a FIFO, a socket, a block device). With a character device (/dev/null) the dump leaves no file.
  // Call once. The file grows up to `limit` bytes (CULPRIT_MAX_DUMP).
  int start(const char* path, std::uint64_t limit = kLargestDump, bool makes_folders = true);

  // Begins anew the time in which no call waits for a descriptor that can be kept (open_high()): start() and the use
  // may lie far apart, and a thread that is stopped must not wait. Thread-safe with all but start() and close().
  void postpone_waits();

  // Unmaps and closes the file, which stays. All zeros afterwards. No other thread may use this any more.
  void close();

  // Appends one record of a packed chunk: `head`, then `body`, padded to 16 bytes with zeros. Returns 0 when the dump
  // cannot grow. Either recording has stopped permanently (stopped(); the reason is in the header), or this type has
  // used up its share of the limit (is_full()). In that case other types may still have room, and the caller may reuse
  // records that are no longer needed. Thread-safe.
  format::Ref append(format::ChunkType type, const void* head, std::uint64_t head_bytes, const void* body,
                     std::uint64_t body_bytes);

  // Zeroed space for `count` records of a record array, all in one chunk. `first_index` (may be null) receives the
  // running number of the first. Returns 0 like append(). Thread-safe.
  format::Ref allocate_records(format::ChunkType type, std::uint32_t count, std::uint32_t* first_index);

  // A chunk of about `bytes` for the caller alone, whose `used` covers all of it. Returns the start of its zeroed
  // payload and stores the payload's size; 0 like append(). Thread-safe.
  format::Ref allocate_chunk(format::ChunkType type, std::uint64_t bytes, std::uint64_t* payload_bytes);

  // Gives the disk blocks of whole pages back, which are zeros afterwards. Returns false where the file system cannot
  // do that. No thread may use these pages until reserve_again() returns true. Thread-safe.
  bool make_hole(format::Ref first, std::uint64_t bytes);
  // Reserves the blocks again. Returns false when the disk is full, or the file cannot be opened.
  bool reserve_again(format::Ref first, std::uint64_t bytes);

  // Calls visit(const Record&) for every record of this type that was ever handed out. Thread-safe; records that other
  // threads change at the same time may be seen half-changed. `most`: reads no chunks beyond so many bytes of the dump.
  template <typename Record, typename Visit>
  void for_each_record(format::ChunkType type, Visit visit, std::uint64_t most = ~0ULL) const {
    std::uint64_t end = recorded_bytes();
    if (end > most) end = most;
    for (std::uint64_t offset = format::kHeaderBytes; offset < end;) {
      const auto* chunk = reinterpret_cast<const format::ChunkHeader*>(base_ + offset);
      if (__atomic_load_n(&chunk->magic, __ATOMIC_ACQUIRE) == 0) return;
      const auto* records = reinterpret_cast<const Record*>(chunk + 1);
      std::uint64_t count = chunk->type == type ? __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE) / sizeof(Record) : 0;
      for (std::uint64_t i = 0; i < count; ++i) visit(records[i]);
      offset += chunk->bytes;
    }
  }

  // Bytes of the header and all chunks so far. Thread-safe.
  std::uint64_t recorded_bytes() const { return __atomic_load_n(&header()->file_bytes, __ATOMIC_ACQUIRE); }

  // How many records of this type were ever handed out, at least; no more are counted than one chunk above `enough`.
  template <typename Record>
  std::uint64_t count_records(format::ChunkType type, std::uint64_t enough) const {
    const std::uint64_t end = recorded_bytes();
    std::uint64_t count = 0;
    for (std::uint64_t offset = format::kHeaderBytes; offset < end && count <= enough;) {
      const auto* chunk = reinterpret_cast<const format::ChunkHeader*>(base_ + offset);
      if (__atomic_load_n(&chunk->magic, __ATOMIC_ACQUIRE) == 0) break;
      if (chunk->type == type) count += __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE) / sizeof(Record);
      offset += chunk->bytes;
    }
    return count;
  }

  // Stores a string. Returns 0 when there is no room.
  format::Ref add_string(const char* text, std::uint64_t bytes);

  template <typename T>
  T* at(format::Ref ref) const {
    return reinterpret_cast<T*>(base_ + static_cast<std::uint64_t>(ref) * format::kRefUnit);
  }
  // Of a record that for_each_record() visits.
  format::Ref ref_of(const void* record) const {
    return static_cast<format::Ref>((static_cast<const unsigned char*>(record) - base_) / format::kRefUnit);
  }
  format::Header* header() const { return reinterpret_cast<format::Header*>(base_); }
  const char* path() const { return path_; }
  // False: the dump is in private memory and is lost when the process ends.
  bool leaves_file() const { return !in_memory_; }
  bool stopped() const { return stopped_.load(std::memory_order_relaxed) != 0; }
  // The reason, and an errno or 0. The header has the same values unless the file was truncated.
  format::StopReason stop_reason() const {
    return static_cast<format::StopReason>(stopped_.load(std::memory_order_acquire));
  }
  int stop_errno() const { return stop_errno_.load(std::memory_order_relaxed); }

  // Handles a SIGBUS at `address` after the file was truncated: replaces the mapping from there on by private memory
  // and stops recording (kTruncated). Returns false when the address is outside the dump, or there is no memory.
  // Signal-safe.
  bool replace_lost(void* address);

  // Whether the file has become shorter than its mapping; recording stops then.
  bool check_truncated();

  // Bytes of the header and all chunks; of the file, which has room ahead; and the limit of the file.
  std::uint64_t size() const { return size_; }
  std::uint64_t file_size() const { return mapped_; }
  std::uint64_t limit() const { return limit_; }
  // A chunk of this type was refused because of the limit.
  bool is_full(format::ChunkType type) const {
    return (__atomic_load_n(&header()->limited_types, __ATOMIC_RELAXED) >> (static_cast<unsigned>(type) % 32) & 1) != 0;
  }

  // Recording stopped or the limit was reached, and no warning was given yet. take_news() returns true to one caller.
  bool has_news() const { return news_.load(std::memory_order_relaxed) != 0; }
  bool take_news() { return has_news() && news_.exchange(0, std::memory_order_relaxed) != 0; }

  // Marks recording as permanently stopped. Idempotent; the first reason stays.
  void stop(format::StopReason reason, int error);

  static constexpr std::uint64_t kLargestDump = 64ULL << 30;  // the largest offset of a Ref

 private:
  static constexpr std::size_t kPathBytes = 4096;
  static constexpr int kTypes = format::kChunkTypes + 1;
  struct OpenChunk {
    std::uint64_t offset;  // of the ChunkHeader; 0 = none yet
    std::uint64_t used;    // payload bytes
    std::uint64_t capacity;
    std::uint64_t total;  // bytes of all chunks of this type
    std::uint32_t next_index;
  };

  format::Ref allocate_locked(format::ChunkType type, std::uint64_t bytes, std::uint32_t record_bytes,
                              std::uint32_t count);
  format::ChunkHeader* add_chunk_locked(format::ChunkType type, std::uint64_t bytes, std::uint64_t used,
                                        std::uint32_t record_bytes, std::uint32_t first_index);
  void publish_used(format::ChunkType type);
  std::uint64_t room_for(format::ChunkType type) const;
  void note_full(format::ChunkType type);
  bool grow(std::uint64_t bytes);
  bool map_more(std::uint64_t least);
  OpenedFile borrow_descriptor();
  void give_back_descriptor(const OpenedFile& file);
  bool is_ours(int fd) const;
  bool stop_if_truncated(int fd);
  void store_stop_reason();
  bool grow_range(std::uint64_t bytes);
  bool extend_file(std::uint64_t least, std::uint64_t bytes);
  bool extend_by_name(std::uint64_t bytes);
  int map_header(int fd);
  // Removes the file of a dump whose header found no room: it would have no content.
  void remove_useless();
  int open_new(const char* path, bool makes_folders, OpenedFile* file);
  std::uint64_t bytes_ahead(std::uint64_t least) const;
  int reserve_piece(int fd, std::uint64_t limit, std::uint64_t least, std::uint64_t* bytes);
  int map_piece(int fd, std::uint64_t bytes);

  // Read on every call: together, in the first cache line.
  unsigned char* base_;
  std::atomic<int> stopped_;  // a format::StopReason, 0 = not stopped
  std::atomic<int> news_;

  std::atomic<int> stop_errno_;
  std::uint64_t reserved_;  // bytes of address range
  std::uint64_t size_;      // bytes of chunks
  std::uint64_t mapped_;    // bytes of file: some are mapped ahead of the chunks
  std::uint64_t limit_;     // of the file
  int fd_;                  // a high number; -1 = none kept: the file is opened by its name whenever it grows
  bool in_memory_;
  FileId id_;
  SpinLock lock_;
  OpenChunk open_[kTypes];
  char* path_;  // in its own memory: the fields after this object in Process are read on every call, the path is not
  std::atomic<std::uint64_t> may_wait_from_ns_;  // of CLOCK_MONOTONIC_COARSE: see open_high()
};

// Adds to a counter that readers see. Relaxed: no reader uses a counter to synchronize.
inline void add_counter(std::uint64_t& counter, std::uint64_t amount) {
  __atomic_fetch_add(&counter, amount, __ATOMIC_RELAXED);
}

}  // namespace culprit
