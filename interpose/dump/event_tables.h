// The tables of fixed or slowly growing size: refused frees, failed calls, memory released by teardown, threads.
// Every function is thread-safe.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "interpose/dump/dump_writer.h"
#include "interpose/system/hash_index.h"

namespace culprit {

// Refused frees. Equal ones (same type, api, code and stacks) share a record, so a loop of bad frees needs one.
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

// Failed calls other than frees. Equal ones (api, code, stack) share a record, so a loop of them needs one.
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

// Calls that made the driver take memory. Equal ones (stack, api, context) share a record.
class CallChargeTable {
 public:
  // Adds `charge` (`state` and `count` are ignored). Returns false when the table is full.
  bool add(const format::CallChargeRecord& charge, DumpWriter& dump);

  // An executable graph was made, or destroyed, by a call like `like`. count_made() returns false when the table is
  // full.
  bool count_made(const format::CallChargeRecord& like, DumpWriter& dump);
  void count_destroyed(const format::CallChargeRecord& like, DumpWriter& dump);

  // A context ended, and the memory on its charges with it. Calls visit(charge) for each of them. The charges stay,
  // without the context; equal ones are added up.
  template <typename Visit>
  void end_context(std::uint32_t context, DumpWriter& dump, Visit visit) {
    SpinGuard guard(lock_);
    for (int i = 0; i < count_; ++i) {
      auto* charge = dump.at<format::CallChargeRecord>(records_[i]);
      if (charge->state == 0 || charge->context != context) continue;
      visit(*charge);
      end_locked(charge, dump);
    }
  }

 private:
  static constexpr int kCapacity = 1024;
  format::CallChargeRecord* find_locked(const format::CallChargeRecord& like, std::uint32_t context, DumpWriter& dump);
  bool insert_locked(const format::CallChargeRecord& charge, DumpWriter& dump);
  void end_locked(format::CallChargeRecord* charge, DumpWriter& dump);

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
  // Removes and returns the cancellation of `thread`. Returns false when there is none.
  bool take(pthread_t thread, Cancel* cancel);
  // Calls visit(stack) for each slot; 0 = unused.
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

// Evidence of why allocations were not freed. Equal evidence is stored once: many allocations share few reasons.
class EvidenceTable {
 public:
  // The record with these fields (`state` is ignored). Returns 0, and counts it, when the table or the dump is full.
  format::Ref intern(const format::EvidenceRecord& evidence, DumpWriter& dump);

  // Adds evidence to `record`: `change(fields)` sets the new fields. When two threads do so at the same time, one
  // change may be lost.
  template <typename Change>
  void add(format::AllocationRecord* record, DumpWriter& dump, Change change) {
    format::EvidenceRecord fields = {};
    format::Ref known = __atomic_load_n(&record->evidence, __ATOMIC_RELAXED);
    if (known != 0) fields = *dump.at<format::EvidenceRecord>(known);
    change(fields);
    format::Ref ref = intern(fields, dump);
    if (ref != 0) __atomic_store_n(&record->evidence, ref, __ATOMIC_RELAXED);
  }

  // Gives the index's memory back; empty afterwards. Not while other threads use this.
  void free_memory() { index_.free_memory(); }

 private:
  static constexpr std::uint32_t kCapacity = 65536;  // 2 MiB
  SpinLock lock_;
  HashIndex index_;
};

// Memory that was released with its context, summed by (stack, teardown stack, device, kind, api, name). When the table
// is full, new combinations are summed by (device, kind, api) alone, without stacks.
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
  static constexpr std::uint32_t kCapacity = 16384;  // 1.3 MiB, and two stacks each
  SpinLock lock_;
  HashIndex index_;
};

// Threads that called CUDA. The number of an ended thread is reused once no record names it, so that a program that
// starts a thread for each task does not grow the dump.
//
// To read the operating system's name of a new thread takes the kernel longer than to make the thread. So where the
// last threads were short ones, a new thread's name is read later: at its first new stack, after 10 ms at a stack that
// is walked, when it ends and leaves something, or when the process exits.
class ThreadTable {
 public:
  // Registers the calling thread. Returns its index, format::kNoIndex when there is no room.
  std::uint32_t add(std::uint64_t now_ns, DumpWriter& dump);

  // The calling thread, which has this index, is ending. `made`: records that ever named it; `ended`: those of them
  // that it ended itself.
  void end(std::uint32_t index, std::uint64_t now_ns, std::uint64_t made, std::uint64_t ended, DumpWriter& dump);

  // A record that names another thread was dropped.
  void count_gone_elsewhere(std::uint32_t index, DumpWriter& dump);

  format::ThreadRecord* record(std::uint32_t index, DumpWriter& dump);

  // Reads the calling thread's name if that was left for later and the thread runs for some time now.
  void name_if_due(std::uint32_t index, std::uint64_t now_ns, DumpWriter& dump);
  // Reads the names of all running threads that have none.
  void name_the_running(DumpWriter& dump);

  // Names the thread of this index with at most kMostName bytes. The room is reused for later threads with this index.
  static constexpr std::uint32_t kMostName = 111;
  void set_name(std::uint32_t index, const char* name, DumpWriter& dump);

  // Likewise a thread in this state, running or ended, with the kernel's number `tid`. Returns false when there is
  // none.
  bool set_name_of(std::uint32_t tid, format::ThreadState state, const char* name, DumpWriter& dump);

 private:
  static constexpr std::uint32_t kCapacity = 65536;
  static constexpr std::uint32_t kPage = 256;
  void write_name(std::uint32_t index, const char* name, DumpWriter& dump);
  void reuse_if_unnamed(std::uint32_t index, DumpWriter& dump);

  static constexpr std::uint64_t kShortNs = 10000000;
  static constexpr std::uint32_t kManyShort = 16;

  std::atomic<std::uint32_t> short_ones_;  // the last threads that ended so soon; one that did not halves it
  SpinLock lock_;
  std::uint32_t next_;
  std::uint32_t free_count_;
  std::uint32_t free_[kCapacity];         // untouched pages cost nothing
  format::Ref pages_[kCapacity / kPage];  // chunks of kPage records, to find a record by its index
  format::Ref names_[kCapacity];          // strings
};

// Reads the calling thread's name into `record`. `quick`: by a system call that a new seccomp filter may forbid.
void refresh_thread_name(format::ThreadRecord* record, bool quick = false);

}  // namespace culprit
