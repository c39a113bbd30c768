// The balance of a device: what the memory in use is for, at one moment.
#include "interpose/driver/driver.h"
#include "interpose/metering/balance_figures.h"
#include "interpose/metering/meter.h"
#include "interpose/process/current_place.h"
#include "interpose/process/process.h"

namespace culprit {

using format::BalanceRecord;

namespace {

constexpr int kMostQuestions = 3;  // for NVML's figure of the moment

}  // namespace

// The account of the moment of the balance. A neighbour may take or give back memory between the two readings: they
// belong together if free memory was the same before the question and after it.
CULPRIT_COLD void Meter::take_share(Process& process, BalanceRecord* balance) {
  const std::uint8_t device = balance->device;
  format::ShareRecord share = {};
  share.moment = balance->moment;
  share.device = device;
  share.time_ns = balance->time_ns;
  const auto whom =
      balance->moment == format::Moment::kExit ? GpuQuestions::For::kLastBalance : GpuQuestions::For::kBalance;
  // Of this moment: the answer to a question of an earlier one does not count. The next one where the neighbours' bytes
  // have changed since the answer.
  std::uint64_t state = balance->time_ns * 4 + 1;
  for (int i = 0; i < kMostQuestions; ++i) {
    ask(process, device, whom, state, &share.account);
    format::MemoryReading after;
    if (share.account.problem != format::GpuProblem::kNone || !read_memory(balance->time_ns, &after)) break;
    if (after.free_bytes == balance->free_bytes) break;
    balance->free_bytes = after.free_bytes;
    ++state;
  }
  share.unproven = __atomic_load_n(&unproven_[device], __ATOMIC_RELAXED);
  {
    SpinGuard guard(together_[device].lock);
    share.unproven |= together_[device].figures.given_kinds();
  }
  share.not_attributed = __atomic_load_n(&not_attributed_[device], __ATOMIC_RELAXED);
  share.seen_others = __atomic_load_n(&seen_others_[device], __ATOMIC_RELAXED);
  SpinGuard guard(balance_lock_);
  if (shares_[device] == 0)
    shares_[device] = process.dump.allocate_records(format::ChunkType::kShares, kMoments, nullptr);
  if (shares_[device] == 0) return;
  auto* record =
      process.dump.at<format::ShareRecord>(shares_[device]) + (static_cast<std::uint32_t>(balance->moment) - 1);
  share.uses = record->uses + 1;
  __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
  *record = share;
  __atomic_store_n(&record->state, share.uses, __ATOMIC_RELEASE);
}

void Meter::take_balance(Process& process, std::uint8_t device, format::Moment moment) {
  if (device >= ContextTable::kMostDevices || has_captures(process) || !driver_ready()) return;
  const DriverUse use;
  format::MemoryReading reading;
  CUdevice current = -1;
  const std::uint64_t now = now_ns(process);
  if (driver().cuCtxGetDevice(&current) != CUDA_SUCCESS || current != device || !read_memory(now, &reading)) return;
  BalanceRecord balance = {};
  balance.moment = moment;
  balance.device = device;
  balance.time_ns = now;
  balance.free_bytes = reading.free_bytes;
  balance.total_bytes = reading.total_bytes;
  if (moment != format::Moment::kPeak)
    settle(process, device, moment == format::Moment::kExit ? At::kProcessEnd : At::kEnd);
  take_share(process, &balance);
  add_up_live(process, &balance);
  balance.flags |= format::kBalanceExecutables;
  read_pools(process, &balance);
  read_limits(&balance);
  balance.unmeasured = __atomic_load_n(&unmeasured_[device], __ATOMIC_RELAXED);
  balance.together = __atomic_load_n(&in_common_[device], __ATOMIC_RELAXED);
  for (std::uint32_t i = 0; i < format::kDriverMemoryKinds; ++i)
    balance.taken[i] = __atomic_load_n(&taken_[device][i], __ATOMIC_RELAXED);

  SpinGuard guard(balance_lock_);
  if (balances_[device] == 0)
    balances_[device] = process.dump.allocate_records(format::ChunkType::kBalances, kMoments, nullptr);
  if (balances_[device] == 0) return;
  auto* record = process.dump.at<BalanceRecord>(balances_[device]) + (static_cast<std::uint32_t>(moment) - 1);
  const std::uint32_t uses = record->uses + 1;
  __atomic_store_n(&record->state, 0U, __ATOMIC_RELEASE);
  balance.state = 0;
  balance.uses = uses;
  *record = balance;
  __atomic_store_n(&record->state, uses, __ATOMIC_RELEASE);
}

}  // namespace culprit
