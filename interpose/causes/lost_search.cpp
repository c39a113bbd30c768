#include "interpose/causes/lost_search.h"

#include <new>

#include "interpose/base/store_release.h"
#include "interpose/causes/lost_searcher.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"

namespace culprit {

using format::LostSearch;

void search_lost(Process& process, const CallerState& caller) {
  format::Header* header = process.dump.header();
  if (header->lost_search != LostSearch::kNotRun) return;
  if (!process.options.search_lost) return;
  const std::uint64_t start = clock_ns(CLOCK_MONOTONIC);
  LostSearch end = LostSearch::kGivenUp;
  std::uint64_t bytes = 0;
  int error = 0;
  if (void* memory = map_private(sizeof(LostSearcher), &error)) {
    auto* search = new (memory) LostSearcher(process, caller);
    end = search->run(&bytes);
    search->~LostSearcher();
    unmap_private(memory, sizeof(LostSearcher));
  }
  header->lost_search_bytes = bytes;
  header->lost_search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  store_release(&header->lost_search, process.dump.stopped() ? LostSearch::kGivenUp : end);
}

}  // namespace culprit
