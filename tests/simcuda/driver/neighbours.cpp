#include "tests/simcuda/driver/neighbours.h"

#include "tests/simcuda/neighbours.h"

namespace simcuda {
namespace {

SharedMachine* machine;
SharedProcess* own;
std::size_t uncharged;

std::int32_t take_place(SharedProcess& process, std::int32_t pid) {
  std::int32_t present = __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE);
  if (is_running(present)) return present;
  __atomic_compare_exchange_n(&process.pid, &present, pid, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE);
}

}  // namespace

void join_neighbours() {
  own = nullptr;
  if (machine == nullptr) machine = map_machine();
  if (machine == nullptr) return;
  const char* text = getenv("SIMCUDA_UNCHARGED_MB");
  uncharged = text == nullptr ? 0 : static_cast<std::size_t>(strtol(text, nullptr, 10)) << 20;
  const std::int32_t pid = getpid();
  for (SharedProcess& process : machine->processes) {
    if (take_place(process, pid) != pid) continue;
    own = &process;
    for (std::uint64_t& used : own->used) __atomic_store_n(&used, 0, __ATOMIC_RELEASE);
    return;
  }
}

void read_neighbours(DriverState& state) {
  if (machine == nullptr) return;
  for (auto& device : state.devices) device->others = uncharged;
  for (const SharedProcess& process : machine->processes) {
    const std::int32_t pid = __atomic_load_n(&process.pid, __ATOMIC_ACQUIRE);
    if (pid == 0 || &process == own || !is_running(pid)) continue;
    for (auto& device : state.devices)
      device->others += __atomic_load_n(&process.used[device->ordinal], __ATOMIC_ACQUIRE);
  }
}

void tell_neighbours(const DriverState& state) {
  if (own == nullptr) return;
  for (const auto& device : state.devices)
    __atomic_store_n(&own->used[device->ordinal], device->used, __ATOMIC_RELEASE);
}

}  // namespace simcuda
