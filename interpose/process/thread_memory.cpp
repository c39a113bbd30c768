#include "interpose/process/thread_memory.h"

#include <cstring>

#include "interpose/base/own_memory.h"

namespace culprit {
namespace {

// Whether clearing costs less than new mappings, and little memory is kept.
bool used_little(const ThreadData& data) {
  return data.memory != nullptr && data.paths != nullptr && data.memory->stacks.used_little() &&
         data.paths->used_little();
}

template <typename Part>
void wipe(Part* part) {
  std::memset(static_cast<void*>(part), 0, sizeof(*part));
}

// All but libunwind's cache, and `judged`, which each use sets anew.
void clear(ThreadMemory* memory) {
  wipe(&memory->records);
  memory->stacks.change_thread();
  wipe(&memory->failures);
  if (memory->python.used) wipe(&memory->python);
  wipe(&memory->nestings);
  wipe(&memory->holder);
}

}  // namespace

ThreadData SpareThreadData::take(DumpWriter& dump) {
  {
    SpinGuard guard(lock_);
    if (count_ != 0) return kept_[--count_];
  }
  int error = 0;
  return {static_cast<ThreadMemory*>(map_private(sizeof(ThreadMemory), &error)), ThreadPaths::create(dump)};
}

void SpareThreadData::give(ThreadData data) {
  if (used_little(data) && !memory_is_limited()) {
    clear(data.memory);
    data.paths->clear();
    SpinGuard guard(lock_);
    if (count_ != kMost) {
      kept_[count_++] = data;
      return;
    }
  }
  free_thread_data(data);
}

void SpareThreadData::free_memory() {
  while (count_ != 0) free_thread_data(kept_[--count_]);
}

void free_thread_data(ThreadData data) {
  if (data.paths != nullptr) data.paths->destroy();
  if (data.memory != nullptr) unmap_private(data.memory, sizeof(ThreadMemory));
}

}  // namespace culprit
