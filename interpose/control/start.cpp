#include "interpose/control/start.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/base/own_module.h"
#include "interpose/base/store_release.h"
#include "interpose/base/text_writer.h"
#include "interpose/control/audit_state.h"
#include "interpose/control/control_state.h"
#include "interpose/control/marks.h"
#include "interpose/control/recording_switch.h"
#include "interpose/driver/api.h"
#include "interpose/driver/driver.h"
#include "interpose/dump/truncation_guard.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_count.h"
#include "interpose/loader/loader_lock.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/attach_state.h"
#include "interpose/process/exit_handlers.h"
#include "interpose/process/job_rank.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"
#include "interpose/process/run_starts.h"
#include "interpose/process/variables.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/system/descriptors.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/process_names.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

void describe_process(Process& process, const Variables& variables, bool called) {
  format::Header* header = process.dump.header();
  header->pid = static_cast<std::uint32_t>(process.pid);
  const bool all_calls = !calls_restricted();
  if (all_calls) header->parent_pid = static_cast<std::uint32_t>(getppid());
  header->pid_namespace = pid_namespace();
  header->start_time_ticks = start_time_ticks();
  header->start_realtime_ns = clock_ns(CLOCK_REALTIME);
  std::uint64_t boot_ns = clock_ns(CLOCK_BOOTTIME);
  std::uint64_t ticks_a_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  std::uint64_t began_ns = header->start_time_ticks * (1000000000 / ticks_a_second);
  if (began_ns != 0 && boot_ns > began_ns) header->process_age_ns = boot_ns - began_ns;
  boot_id(header->boot_id, sizeof(header->boot_id));
  host_name(header->host, sizeof(header->host));
  copy_text(header->run_id, sizeof(header->run_id), process.options.run_id);

  char text[16384];
  const std::size_t length = program_path(text, sizeof(text));
  if (length > 0) header->executable = process.dump.add_string(text, length);
  std::size_t bytes = command_line(text, sizeof(text));
  if (bytes > 0) header->command_line = process.dump.add_string(text, bytes);
  if (all_calls && getcwd(text, sizeof(text)) != nullptr)
    header->working_directory = process.dump.add_string(text, std::strlen(text));
  header->tool_version = process.dump.add_string(CULPRIT_VERSION, std::strlen(CULPRIT_VERSION));
  const JobRank rank = find_job_rank(variables);
  header->rank = static_cast<std::uint32_t>(rank.rank + 1);
  header->job_size = static_cast<std::uint32_t>(rank.size);
  header->hook_calls = called ? 1 : 0;
  header->stack_depth_limit = static_cast<std::uint32_t>(process.options.depth);
  int version = 0;
  if (called && driver_ready() && driver().cuDriverGetVersion(&version) == CUDA_SUCCESS)
    header->driver_version = version;

  std::uint32_t count = static_cast<std::uint32_t>(kNamedApiCount);
  format::Ref apis = process.dump.allocate_records(format::ChunkType::kApis, count, nullptr);
  for (std::uint32_t i = 0; apis != 0 && i < count; ++i) {
    auto* record = process.dump.at<format::ApiRecord>(apis) + i;
    copy_text(record->name, sizeof(record->name), api_name(static_cast<Api>(i)));
  }
}

}  // namespace

int start_recording(Process& process, bool called) {
  process.pid = static_cast<int>(getpid());
  drop_copy(process);
  process.in_use = true;
  const Variables variables(attached_here() ? attach_request().out : nullptr);
  read_options(variables, &process.options);
  apply_attach_options(&process.options);
  if (process.options.verify_stacks) process.mode.fetch_or(kModeVerify);
  if (process.options.depth == 0) process.mode.fetch_or(kModeNoStacks);
  // mlockall() locked this library's image too. It must not use up the program's RLIMIT_MEMLOCK, like later mappings.
  if (memory_locked()) os.unlock(const_cast<char*>(__ehdr_start), static_cast<std::uint64_t>(_end - __ehdr_start));
  process.clock.start();
  StackMemo::choose_comparison();
  find_loader_count();
  watch_for_unseen_unloadings();
  char path[Options::kPathBytes];
  const bool fits =
      expand_path(process.options.out, process.pid, variables, path, sizeof(path)) && !process.options.paths_cut;
  const bool makes_folders = !is_in_folder_of_run(process.options, path);
  const int error = fits ? process.dump.start(path, process.options.max_dump, makes_folders) : ENAMETOOLONG;
  if (threads_seen() == 1) prepare_to_meet_threads();  // a fork child
  if (error != 0) {
    warn_not_recording(process.options, path, error);
    note_run_start(process.options, process.pid, error, path);
    return error;
  }
  // At once: another culprit may look at the header before the attach is done.
  if (attached_here()) process.dump.header()->attached = attached_how();
  note_run_start(process.options, process.pid, 0, path);
  process.stacks.table.set_limit(process.options.max_dump / 2);
  guard_dump(process.dump);
  warn_refused_options(process.options);
  describe_process(process, variables, called);
  meter_of(process).gpu_questions().open(process);
  begin_switched(process);
  note_audit_state(process);
  // Not in an attached process, where a detach would have to wait for the threads' records too.
  if (has_several_lives()) process.mode.fetch_or(kModeSeveralLives);
  if (!loaded_late() && !has_several_drivers()) process.tables.live.start_young();
  begin_marks(process);
  static std::uint32_t generations = 0;  // a fork child inherits and continues the count
  process.generation = ++generations;
  register_exit_handlers(process.options.search_holders);
  return 0;
}

namespace {

// Of the recording that ended and is not released yet: nothing was added up at its end.
bool unsettled = false;

}  // namespace

Process* prepare_recording(int* error) {
  unsettled = false;  // a fork child inherits it from a parent in the middle of a detach
  Process* process = mapped_process();
  Phase expected = Phase::kNone;
  if (process == nullptr ||
      (!process->phase.compare_exchange_strong(expected, Phase::kDetached) && expected != Phase::kDetached)) {
    *error = process == nullptr ? ENOMEM : EBUSY;
    return nullptr;
  }
  *error = start_recording(*process, true);
  if (*error == 0) return process;
  release_recording();
  return nullptr;
}

void end_recording(Process& process) {
  // A walk over so many takes a millisecond.
  constexpr std::uint64_t kFew = 16384;
  unsettled = process.dump.count_records<format::AllocationRecord>(format::ChunkType::kAllocations, kFew) > kFew;
  if (!unsettled) sum_live_bytes(process);
  format::Header* header = process.dump.header();
  header->end_time_ns = now_ns(process);
  process.session.store(0);
  process.phase.store(Phase::kDetached);
  store_release(&header->process_state, format::ProcessState::kDetached);
}

void release_recording() {
  Process* process = known_process();
  if (process == nullptr) return;
  if (unsettled) settle_live_bytes(*process);
  unsettled = false;
  for_each_known_thread(release_thread);
  process->spares.free_memory();
  process->tables.free_memory();
  process->stacks.free_memory();
  process->python.free_memory();
  marks_of(*process).free_memory();
  meter_of(*process).gpu_questions().close();
  unguard_dump();
  process->dump.close();
  clear_process(*process);
  process->phase.store(Phase::kDetached, std::memory_order_release);
}

void prepare_for_driver_threads() {
  static std::atomic<int> prepared_in;
  if (loaded_late() || recording_failed() || process_if_recording() != nullptr) return;
  const int pid = static_cast<int>(getpid());
  if (prepared_in.exchange(pid, std::memory_order_relaxed) == pid) return;
  on_own_stack([] {
    look_at_restrictions();
    if (threads_seen() != 1) return;
    prepare_to_meet_threads();
    grow_descriptor_table();
  });
}

}  // namespace culprit
