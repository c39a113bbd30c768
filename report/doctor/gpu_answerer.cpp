#include "report/doctor/gpu_answerer.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>
#include <map>

#include "interpose/format/gpu_questions.h"
#include "report/base/environment.h"
#include "report/cuda/library_names.h"
#include "report/doctor/nvml_accounts.h"
#include "report/doctor/nvml_question.h"
#include "report/model/record_facts.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

using format::GpuQuestion;
using format::GpuQuestions;

void futex(std::uint32_t* word, int operation, std::uint32_t value, const timespec* limit) {
  ::syscall(SYS_futex, word, operation, value, limit, nullptr, 0);
}

class Answering {
 public:
  Answering(GpuQuestions* questions, const std::string& library, const std::string& proc)
      : questions_(*questions), proc_(proc), pid_namespace_(own_pid_namespace(proc)), accounts_(library, proc) {}

  [[noreturn]] void go_on() {
    constexpr timespec kPause = {1, 0};
    while (true) {
      const std::uint32_t calls = __atomic_load_n(&questions_.calls, __ATOMIC_ACQUIRE);
      if (__atomic_load_n(&questions_.wanted, __ATOMIC_ACQUIRE) != 0) accounts_.start();
      bool answered = false;
      for (std::size_t i = 0; i < GpuQuestions::kPlaces; ++i) answered = look_at(i) || answered;
      if (answered) continue;
      free_places();
      futex(&questions_.calls, FUTEX_WAIT, calls, &kPause);
    }
  }

 private:
  // A process that has a place, as this one sees it.
  struct Asker {
    std::uint32_t number = 0;  // its own, as it says
    std::uint64_t start_ticks = 0;
    std::uint32_t pid = 0;  // 0: not known
  };

  // In another PID namespace the process has another number there.
  std::uint32_t find(const GpuQuestion& place) const {
    if (place.pid_namespace == pid_namespace_) return place.pid;
    const std::string wanted = "pid:[" + std::to_string(place.pid_namespace) + "]";
    std::uint32_t found = 0;
    for_each_entry(proc_, [&](const char* name) {
      const std::optional<std::uint32_t> pid = whole_number(name);
      if (!pid || found != 0) return;
      const ProcessFolder folder(proc_, std::uint64_t{*pid});
      if (folder.link("ns/pid") != wanted) return;
      if (innermost_number(folder) == place.pid) found = *pid;
    });
    return found;
  }

  const Asker& asker_of(std::size_t index, const GpuQuestion& place) {
    Asker& asker = askers_[index];
    if (asker.number == place.pid && asker.start_ticks == place.start_ticks) return asker;
    asker = {place.pid, place.start_ticks, find(place)};
    return asker;
  }

  bool look_at(std::size_t index) {
    GpuQuestion& place = questions_.places[index];
    if (__atomic_load_n(&place.ready, __ATOMIC_ACQUIRE) == 0) return false;
    const std::uint32_t asked = __atomic_load_n(&place.asked, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&place.answered, __ATOMIC_RELAXED) == asked) return false;
    format::DeviceRecord device = {};
    std::memcpy(device.uuid, place.uuid, sizeof(device.uuid));
    if (place.mig != 0) device.flags = format::kDeviceMig;
    place.answer = accounts_.account(uuid_text(device), asker_of(index, place).pid, place.names != 0);
    __atomic_store_n(&place.answered, asked, __ATOMIC_RELEASE);
    futex(&place.answered, FUTEX_WAKE, INT_MAX, nullptr);
    return true;
  }

  // Of processes that have ended.
  void free_places() {
    for (std::size_t i = 0; i < GpuQuestions::kPlaces; ++i) {
      GpuQuestion& place = questions_.places[i];
      if (__atomic_load_n(&place.ready, __ATOMIC_ACQUIRE) == 0) continue;
      const Asker& asker = asker_of(i, place);
      if (asker.pid == 0) continue;
      const std::optional<ProcessStat> stat = ProcessFolder(proc_, std::uint64_t{asker.pid}).stat();
      if (stat && !stat->has_ended() && stat->start_ticks == place.start_ticks) continue;
      askers_[i] = {};
      __atomic_store_n(&place.ready, 0U, __ATOMIC_RELAXED);
      __atomic_store_n(&place.pid, 0U, __ATOMIC_RELEASE);
    }
  }

  GpuQuestions& questions_;
  const std::string proc_;
  const std::uint64_t pid_namespace_;
  NvmlAccounts accounts_;
  std::array<Asker, GpuQuestions::kPlaces> askers_;
};

}  // namespace

GpuAnswerer::GpuAnswerer(const std::string& run_starts) {
  helper_.start_with_file<GpuQuestions>(
      run_starts, format::kGpuQuestionsEnding, format::kGpuQuestionsVersion,
      "processes of the run cannot ask about GPUs", [](GpuQuestions* questions) {
        Answering(questions, value_or("CULPRIT_NVML", kManagementLibrary), value_or("CULPRIT_PROC", "/proc")).go_on();
      });
}

}  // namespace culprit::report
