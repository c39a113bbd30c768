// Stores stacks that never repeat in the recorder's tables: each stack is new, is put into the record of an allocation
// that ends at once, and is then unused. Prints sizes every ten seconds. Exit code 1: the dump or the memory exceeded
// the bounds that hold for any number of stacks.
//
//   stack_soak [MILLIONS] [THREADS] [FRAMES]      100 million, 2 threads, 24 frames
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "interpose/base/clock.h"
#include "interpose/call_stack/stack_collection.h"
#include "interpose/dump/live_table.h"
#include "interpose/stacks/stack_memo.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

struct Tracker {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<StackTable> stacks;
  Zeroed<StackHolders> holders;
  Zeroed<StackCollection> collection;
  Zeroed<ModuleTable> modules;
  Zeroed<LiveTable> live;
  std::atomic<std::uint64_t> done{0};
  std::atomic<bool> wrong{false};
  StackCollection::Parts parts() { return {*stacks, *holders, *modules, nullptr, nullptr, nullptr, *dump}; }
};

void run(Tracker& all, std::uint64_t first, std::uint64_t count, int frame_count) {
  Zeroed<StackMemo> memo;
  Zeroed<ThreadRecords> own;
  StackHolder holder = {};
  bool in_section = false;
  holder.in_section = &in_section;
  holder.memo = &*memo;
  all.holders->enter(&holder);
  all.live->begin_thread(&*own);
  constexpr int kLive = 100;
  struct Kept {
    std::uint64_t number;
    format::Ref record;
  };
  std::vector<Kept> kept(kLive, Kept{0, 0});
  format::AllocationRecord fields = {};
  fields.kind = format::Kind::kDevice;
  std::uint64_t frames[kMaxStackDepth];
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = first + i;
    __atomic_store_n(&in_section, true, __ATOMIC_RELAXED);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (all.collection->is_due(all.parts())) all.collection->step(all.parts(), &holder);
    for (int f = 0; f < frame_count; ++f) frames[f] = number * 64 + static_cast<std::uint64_t>(f);
    fields.stack = all.stacks->intern_frames(frames, frame_count, 0, *all.dump);
    fields.handle = number + 1;
    Kept& one = kept[i % kLive];
    if (one.record != 0) {
      const auto* record = all.dump->at<format::AllocationRecord>(one.record);
      const auto* stack = all.dump->at<format::StackRecord>(record->stack);
      if (*reinterpret_cast<const std::uint64_t*>(stack + 1) != one.number * 64) all.wrong.store(true);
      all.live->take(
          space_of(fields.kind), one.number + 1, [] { return std::uint8_t{0}; }, *all.dump, &*own);
      all.live->retire(one.record, *all.dump, {fields.stack, 0, false, true}, &*own);
    }
    one = {number, all.live->add(fields, *all.dump, &*own)};
    __atomic_store_n(&in_section, false, __ATOMIC_RELEASE);
    if (i % 1024 == 1023) all.done.fetch_add(1024, std::memory_order_relaxed);
  }
  all.live->end_thread(&*own, *all.dump);
  all.holders->leave(&holder);
}

std::uint64_t resident_bytes() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file != nullptr && std::fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
  if (file != nullptr) std::fclose(file);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100) * 1000000;
  const std::uint64_t threads = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2;
  const int frames = argc > 3 ? std::atoi(argv[3]) : 24;
  if (count == 0 || threads == 0 || frames < 1 || frames > kMaxStackDepth) return 2;
  Tracker all;
  prepare_to_meet_threads();
  if (all.dump->start(all.folder.file("soak.dump").c_str()) != 0) return 3;
  const std::uint64_t began = clock_ns(CLOCK_MONOTONIC);
  std::vector<std::thread> running;
  for (std::uint64_t i = 0; i < threads; ++i)
    running.emplace_back([&, i] { run(all, (i << 40) + 1, count / threads, frames); });
  // The room begins with 4 MiB, and grows while a thread that lost its processor keeps a collection waiting; the others
  // are slowed down then. One byte more for each stack would be a hundred mebibytes in the long run.
  constexpr std::uint64_t kMostDump = 24 << 20;
  constexpr std::uint64_t kMostMemory = 40 << 20;
  double next = 10;
  const std::uint64_t whole = count / threads / 1024 * 1024 * threads;
  for (;;) {
    usleep(50000);
    const std::uint64_t done = all.done.load();
    const double seconds = static_cast<double>(clock_ns(CLOCK_MONOTONIC) - began) / 1e9;
    const std::uint64_t dump = all.dump->header()->file_bytes;
    const std::uint64_t memory = resident_bytes();
    if (done != whole && seconds < next) continue;
    next += 10;
    const double millions = static_cast<double>(done) / 1e6;
    std::printf(
        "%6.1f s  %6.1f million stacks  %5.2f million/s  dump %6.2f MiB  resident %6.2f MiB  %u sweeps  %llu merged\n",
        seconds, millions, millions / seconds, static_cast<double>(dump) / (1 << 20),
        static_cast<double>(memory) / (1 << 20), all.dump->header()->stack_sweeps,
        static_cast<unsigned long long>(all.dump->header()->merged_stacks));
    std::fflush(stdout);
    if (done != whole) continue;
    for (std::thread& thread : running) thread.join();
    const bool grew = dump > kMostDump || memory > kMostMemory;
    std::printf("%s%s\n", grew ? "GREW" : "flat", all.wrong.load() ? ", and a stack was WRONG" : "");
    return grew || all.wrong.load() ? 1 : 0;
  }
}
