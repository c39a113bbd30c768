// The tables of fixed or slowly growing size: refused frees, failed calls, memory released by teardown, threads.
// All zeros = empty; they live in memory that the kernel wipes in a fork child. Every function is thread-safe.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "interpose/base/hash_index.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

// Refused frees. Equal ones (same type, api, code and stacks) share a record, so a loop of bad frees costs one.
class ErrorTable {
 public:
  // Adds or counts `error` (`state` and `count` are ignored). Returns its record, 0 when the table is full.
  format::Ref add(const format::ErrorRecord& error, DumpWriter& dump);

 private:
  static constexpr int kCapacity = 320;
  SpinLock lock_;
  int count_;
  format::Ref records_[kCapacity];
};

// Failed calls that are no frees. Equal ones (api, code, stack) share a record, so a loop of them costs one.
class FailedCallTable {
 public:
  // Adds or counts `call` (`state` and `count` are ignored). Returns its record, 0 when the table is full.
  format::Ref add(const format::FailedCallRecord& call, DumpWriter& dump);

 private:
  static constexpr int kCapacity = 320;
  SpinLock lock_;
  int count_;
  format::Ref records_[kCapacity];
};

// Threads that were cancelled and have not ended yet, the last few.
struct Cancel {
  pthread_t thread;
  format::Ref stack;  // of pthread_cancel
  std::uint64_t time_ns;
};
class CancelTable {
 public:
  void add(const Cancel& cancel);
  // Takes the cancellation of `thread` out. False when there is none.
  bool take(pthread_t thread, Cancel* cancel);
  // Calls visit(stack) for each; 0 where there is none.
  template <typename Visit>
  void for_each_stack(Visit visit) {
    SpinGuard guard(lock_);
    for (const Cancel& cancel : cancels_) visit(cancel.stack);
  }

 private:
  static constexpr std::uint32_t kCapacity = 64;
  SpinLock lock_;
  std::uint32_t next_;
  Cancel cancels_[kCapacity];  // time_ns 0 = unused
};

// What is known of why allocations were not freed. Equal evidence is stored once: many allocations, few reasons.
class EvidenceTable {
 public:
  // The record with these fields (`state` is ignored). 0 when there is no room, or the table is full; that is counted.
  format::Ref intern(const format::EvidenceRecord& evidence, DumpWriter& dump);

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() { index_.free_memory(); }

 private:
  static constexpr std::uint32_t kCapacity = 65536;  // 2 MiB
  SpinLock lock_;
  HashIndex index_;
};

// Memory that went with its context, added up by (stack, teardown stack, device, kind, api). When the table is full
// what is new is added up by (device, kind, api) alone, without stacks.
class ReleaseTable {
 public:
  // Adds one allocation (`count` 1) to its sum. Returns false when there is no room.
  bool add(const format::ReleaseRecord& added, DumpWriter& dump);

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() { index_.free_memory(); }

  template <typename Visit>
  void for_each(DumpWriter& dump, Visit visit) {
    SpinGuard guard(lock_);
    index_.for_each([&](const HashIndex::Entry& entry) { visit(*dump.at<format::ReleaseRecord>(entry.value)); });
  }

 private:
  static constexpr std::uint32_t kCapacity = 16384;  // 1.3 MiB, and as many stacks twice
  SpinLock lock_;
  HashIndex index_;
};

// Threads that called CUDA. The number of a thread that ended is used again once no record names it any more, so that a
// program which starts a thread for each task does not grow the dump.
class ThreadTable {
 public:
  // Registers the calling thread. Returns its index, format::kNoIndex when there is no room.
  std::uint32_t add(std::uint64_t now_ns, DumpWriter& dump);

  // The calling thread, which has this index, is ending. `made`: records that name it, ever; `ended`: those of them
  // that it ended itself.
  void end(std::uint32_t index, std::uint64_t now_ns, std::uint64_t made, std::uint64_t ended, DumpWriter& dump);

  // A record that names another thread was dropped.
  void count_gone_elsewhere(std::uint32_t index, DumpWriter& dump);

  format::ThreadRecord* record(std::uint32_t index, DumpWriter& dump);

  // Gives the thread with this index a name of its own, of at most kMostName bytes, in room that serves all threads
  // which ever have this index. Call in the thread itself.
  static constexpr std::uint32_t kMostName = 111;
  void set_name(std::uint32_t index, const char* name, DumpWriter& dump);

 private:
  static constexpr std::uint32_t kCapacity = 65536;
  static constexpr std::uint32_t kPage = 256;
  void reuse_if_unnamed(std::uint32_t index, DumpWriter& dump);

  SpinLock lock_;
  std::uint32_t next_;
  std::uint32_t free_count_;
  std::uint32_t free_[kCapacity];         // untouched pages cost nothing
  format::Ref pages_[kCapacity / kPage];  // kPage records each, so that an index finds its record
  format::Ref names_[kCapacity];          // strings
};

// Reads the calling thread's name into `record`.
void refresh_thread_name(format::ThreadRecord* record);

}  // namespace culprit
