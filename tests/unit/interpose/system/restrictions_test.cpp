#include "interpose/system/restrictions.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "interpose/system/own_stack.h"
#include "tests/catch.h"

using namespace culprit;

TEST_CASE("a long run on the own stack looks at the restrictions again after 10 ms") {
  std::atomic<bool> begun{false}, done{false};
  std::uint64_t before = 0, after = 0;
  std::thread waits_for_second([&] {
    while (!begun) std::this_thread::yield();
    std::thread second([&] {
      while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    second.join();
  });
  on_own_stack([&] {
    look_at_restrictions();
    before = threads_seen();
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    calls_restricted_now();
    after = threads_seen();
  });
  done = true;
  waits_for_second.join();
  CHECK(after == before + 1);
}
