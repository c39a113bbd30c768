// The state of a process is one object: each room's struct derives from that of the room below it.
#include "interpose/control/control_state.h"
#include "interpose/events/pool_places.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

namespace culprit {

TEST_CASE("each room reaches its parts in the one object, behind those of the room below", "[state]") {
  Zeroed<EventsState> state;
  Process& process = *state;
  const auto* begin = reinterpret_cast<const char*>(&process);
  const char* last = reinterpret_cast<const char*>(&process.summary_done);
  for (const void* part :
       {static_cast<const void*>(&view_of(process)), static_cast<const void*>(&breakdown_lock_of(process)),
        static_cast<const void*>(&graph_bytes_of(process)), static_cast<const void*>(&meter_of(process)),
        static_cast<const void*>(&marks_of(process)), static_cast<const void*>(&pool_places_of(process))}) {
    CHECK(static_cast<const char*>(part) > last);
    last = static_cast<const char*>(part);
  }
  CHECK(last + sizeof(PoolPlaces) <= begin + sizeof(EventsState));
}

TEST_CASE("the fields of the hot path lie in three cache lines, the first of them in the wiped page", "[state]") {
  Zeroed<EventsState> state;
  Process& process = *state;
  const auto offset = [&](const auto& field) {
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&field) - reinterpret_cast<const char*>(&process));
  };
  CHECK(offset(process.phase) == 0);
  CHECK(offset(process.clock) < 64);
  CHECK(offset(process.in_use) == Process::kWipedBytes);
  CHECK(offset(process.dump) == Process::kWipedBytes + 64);
  CHECK(offset(process.hooks) % 64 == 0);
}

TEST_CASE("zeros are an empty state", "[state]") {
  Zeroed<EventsState> state;
  Process& process = *state;
  CHECK(process.phase.load() == Phase::kNone);
  CHECK(pool_places_of(process).of(reinterpret_cast<CUmemoryPool>(0x1000)) == PoolPlaces::kUnknown);
  CHECK_FALSE(meter_of(process).look_ups().contains(1));
  CHECK(breakdown_lock_of(process).try_lock());
  CHECK(graph_bytes_of(process).changes() == 0);
}

}  // namespace culprit
