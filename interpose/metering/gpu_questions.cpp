#include "interpose/metering/gpu_questions.h"

#include <limits.h>
#include <linux/futex.h>

#include "interpose/base/store_release.h"
#include "interpose/dump/truncation_guard.h"
#include "interpose/process/file_of_run.h"
#include "interpose/process/process.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/os.h"
#include "interpose/system/process_names.h"

namespace culprit {

using format::GpuAccount;
using format::GpuProblem;
using format::GpuQuestion;

namespace {

constexpr std::uint64_t kLongestNs = 1'000'000;  // a wait
constexpr std::uint64_t kFreeNs = 10'000'000;    // the first waits, before the share
constexpr std::uint64_t kShare = 100;

void call(format::GpuQuestions* file) {
  __atomic_fetch_add(&file->calls, 1, __ATOMIC_RELEASE);
  os.futex(&file->calls, FUTEX_WAKE, INT_MAX, 0);
}

// The other side may be of another user, or changed by one: sums of what it says do not overflow, and names end.
void make_harmless(GpuAccount* account) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  bool plausible = account->own_bytes < kMost && account->others_bytes < kMost;
  for (format::GpuNeighbour& one : account->largest) {
    plausible = plausible && one.bytes < kMost;
    one.name[sizeof(one.name) - 1] = '\0';
  }
  if (account->problem > format::kLastGpuProblem || !plausible) account->problem = GpuProblem::kNoFigure;
}

}  // namespace

void GpuQuestions::open(Process& process) {
  const Options& options = process.options;
  problem_ = GpuProblem::kNoRun;
  if (options.run_starts[0] == '\0') return;
  problem_ = GpuProblem::kNotReached;
  file_ = map_file_of_run<format::GpuQuestions>(options.run_starts, format::kGpuQuestionsEnding,
                                                format::kGpuQuestionsVersion);
  if (file_ == nullptr) return;
  guard_mapping(file_, sizeof(*file_));
  problem_ = GpuProblem::kNone;
  // NVML takes some 20 ms to start: about as long as the driver does.
  __atomic_store_n(&file_->wanted, 1U, __ATOMIC_RELEASE);
  call(file_);
}

void GpuQuestions::close() {
  if (file_ == nullptr) return;
  guard_mapping(nullptr, 0);
  os.unmap(file_, sizeof(*file_));
}

GpuProblem GpuQuestions::take_place(Process& process) {
  if (place_ != nullptr) return GpuProblem::kNone;
  for (GpuQuestion& place : file_->places) {
    std::uint32_t free = 0;
    if (!__atomic_compare_exchange_n(&place.pid, &free, static_cast<std::uint32_t>(process.pid), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    place.pid_namespace = process.dump.header()->pid_namespace;
    place.start_ticks = process.dump.header()->start_time_ticks;
    place.asked = place.answered = 0;
    __atomic_store_n(&place.ready, 1U, __ATOMIC_RELEASE);
    place_ = &place;
    return GpuProblem::kNone;
  }
  return GpuProblem::kTooMany;
}

GpuProblem GpuQuestions::wait(Process& process, std::uint32_t number) {
  const std::uint64_t begin = now_ns(process);
  std::uint64_t waited = 0;
  GpuProblem problem = GpuProblem::kNone;
  while (true) {
    const std::uint32_t answered = __atomic_load_n(&place_->answered, __ATOMIC_ACQUIRE);
    if (answered == number) break;
    if (waited >= kLongestNs) {
      problem = GpuProblem::kLate;
      break;
    }
    os.futex(&place_->answered, FUTEX_WAIT, answered, static_cast<std::uint32_t>((kLongestNs - waited) / 1000 + 1));
    waited = now_ns(process) - begin;
  }
  waited_ns_ += waited;
  return problem;
}

// Readings that come once are worth longer waits.
bool GpuQuestions::comes_once(For whom) { return whom == For::kFirstContext || whom == For::kLastBalance; }

bool GpuQuestions::has_time(Process& process) const { return waited_ns_ <= kFreeNs + now_ns(process) / kShare; }

// The question with this number. `*account` receives the answer, or a problem. Beside processes that begin and end,
// NVML takes some milliseconds.
void GpuQuestions::take_answer(Process& process, std::uint32_t number, For whom, GpuAccount* account) {
  constexpr int kMostWaits = 3;
  constexpr int kMostLastWaits = 25;
  const auto waits_again = [&](int waits) {
    if (!comes_once(whom)) return false;
    return waits < kMostWaits || (whom == For::kLastBalance && waits < kMostLastWaits && has_time(process));
  };
  int waits = 0;
  do account->problem = wait(process, number);
  while (account->problem == GpuProblem::kLate && waits_again(++waits));
  if (account->problem != GpuProblem::kNone) return;
  state_ = 0;
  std::memcpy(account, &place_->answer, sizeof(*account));
  make_harmless(account);
  if (account->problem == GpuProblem::kNoNvml) problem_ = account->problem;  // it stays so
}

void GpuQuestions::ask_in_place(Process& process, const format::DeviceRecord& device, For whom, std::uint64_t state,
                                GpuAccount* account) {
  const std::uint32_t last = __atomic_load_n(&place_->asked, __ATOMIC_RELAXED);
  const bool same = state != 0 && state == state_ && (place_->names != 0 || whom == For::kCall) &&
                    std::memcmp(place_->uuid, device.uuid, sizeof(place_->uuid)) == 0;
  const bool overdue = __atomic_load_n(&place_->answered, __ATOMIC_ACQUIRE) != last;
  if (overdue || same) {
    account->problem = GpuProblem::kLate;
    if (overdue && !comes_once(whom)) return;
    take_answer(process, last, whom, account);
    if (same || account->problem == GpuProblem::kLate) return;
  }
  std::memcpy(place_->uuid, device.uuid, sizeof(place_->uuid));
  place_->mig = (device.flags & format::kDeviceMig) != 0 ? 1 : 0;
  place_->names = whom == For::kCall ? 0 : 1;
  state_ = state;
  store_release(&place_->asked, last + 1);
  call(file_);
  take_answer(process, last + 1, whom, account);
}

void GpuQuestions::ask(Process& process, std::uint8_t device, For whom, std::uint64_t state, GpuAccount* account) {
  *account = {};
  account->problem = problem_;
  if (file_ == nullptr || problem_ != GpuProblem::kNone) return;
  const format::DeviceRecord* record = process.tables.contexts.known_device(device, process.dump);
  account->problem = GpuProblem::kNotShown;
  if (record == nullptr) return;
  account->problem = GpuProblem::kInCapture;
  if (has_captures(process) || !busy_.try_lock()) return;
  if (!comes_once(whom) && !has_time(process)) {
    account->problem = GpuProblem::kNoTime;
  } else {
    account->problem = is_in_signal_handler() ? GpuProblem::kInHandler : take_place(process);
  }
  if (account->problem == GpuProblem::kNone) ask_in_place(process, *record, whom, state, account);
  busy_.unlock();
}

}  // namespace culprit
