#include "interpose/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/api.h"
#include "interpose/attach.h"
#include "interpose/events.h"
#include "interpose/job_rank.h"
#include "interpose/known_threads.h"
#include "interpose/late_load.h"
#include "interpose/lifecycle.h"
#include "interpose/log.h"
#include "interpose/stack_memo.h"
#include "interpose/thread_names.h"
#include "interpose/thread_paths.h"

namespace culprit {

__thread ThreadState thread_state __attribute__((tls_model("initial-exec"))) = {};

Process* quick_process = nullptr;
std::atomic<std::uint32_t> module_generation;

namespace {

std::atomic<Process*> the_process;
bool wiped_on_fork = false;

// The mapping is made once and serves all descendants; which one of two racing threads made it does not matter.
Process* mapped_process() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process != nullptr) return process;
  int error = 0;
  void* memory = os.map(nullptr, sizeof(Process), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error);
  if (memory == nullptr) return nullptr;
  bool wiped = os.advise(memory, sizeof(Process), MADV_WIPEONFORK) == 0;
  Process* expected = nullptr;
  if (!the_process.compare_exchange_strong(expected, static_cast<Process*>(memory))) {
    os.unmap(memory, sizeof(Process));
    return expected;
  }
  wiped_on_fork = wiped;
  if (wiped) __atomic_store_n(&quick_process, static_cast<Process*>(memory), __ATOMIC_RELEASE);
  return static_cast<Process*>(memory);
}

// Field 22 of /proc/self/stat; the program's name in field 2 may hold spaces and parentheses.
std::uint64_t start_time_ticks() {
  char text[1024];
  if (read_small_file("/proc/self/stat", text, sizeof(text)) == 0) return 0;
  const char* place = std::strrchr(text, ')');
  if (place == nullptr) return 0;
  for (int field = 2; field < 22 && place != nullptr; ++field) place = std::strchr(place + 1, ' ');
  return place == nullptr ? 0 : std::strtoull(place + 1, nullptr, 10);
}

void describe_process(Process& process) {
  format::Header* header = process.dump.header();
  header->pid = static_cast<std::uint32_t>(process.pid);
  header->parent_pid = static_cast<std::uint32_t>(getppid());
  struct stat space;
  if (stat("/proc/self/ns/pid", &space) == 0) header->pid_namespace = space.st_ino;
  header->start_time_ticks = start_time_ticks();
  header->start_realtime_ns = clock_ns(CLOCK_REALTIME);
  std::uint64_t boot_ns = clock_ns(CLOCK_BOOTTIME);
  std::uint64_t ticks_a_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  std::uint64_t began_ns = header->start_time_ticks * (1000000000 / ticks_a_second);
  if (began_ns != 0 && boot_ns > began_ns) header->process_age_ns = boot_ns - began_ns;
  if (read_small_file("/proc/sys/kernel/random/boot_id", header->boot_id, sizeof(header->boot_id)) > 36)
    header->boot_id[36] = '\0';
  struct utsname host;
  if (uname(&host) == 0) std::snprintf(header->host, sizeof(header->host), "%.63s", host.nodename);

  char text[16384];
  long length = readlink("/proc/self/exe", text, sizeof(text) - 1);
  if (length > 0) header->executable = process.dump.add_string(text, static_cast<std::uint64_t>(length));
  std::size_t bytes = read_small_file("/proc/self/cmdline", text, sizeof(text));
  if (bytes > 0) header->command_line = process.dump.add_string(text, bytes);
  if (getcwd(text, sizeof(text)) != nullptr)
    header->working_directory = process.dump.add_string(text, std::strlen(text));
  header->tool_version = process.dump.add_string(CULPRIT_VERSION, std::strlen(CULPRIT_VERSION));
  const JobRank rank = find_job_rank();
  header->rank = static_cast<std::uint32_t>(rank.rank + 1);
  header->job_size = static_cast<std::uint32_t>(rank.size);
  header->hook_calls = 1;
  header->stack_depth_limit = static_cast<std::uint32_t>(process.options.depth);
  int version = 0;
  if (driver_ready() && driver().cuDriverGetVersion(&version) == CUDA_SUCCESS) header->driver_version = version;

  std::uint32_t count = static_cast<std::uint32_t>(kApiCount);
  format::Ref apis = process.dump.allocate_records(format::ChunkType::kApis, count, nullptr);
  for (std::uint32_t i = 0; apis != 0 && i < count; ++i) {
    auto* record = process.dump.at<format::ApiRecord>(apis) + i;
    std::snprintf(record->name, sizeof(record->name), "%s", api_name(static_cast<Api>(i)));
  }
}

// A thread that is being cancelled must not be unwound from in here: everybody else would wait for it for ever.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_;
};

// Returns 0, or the errno for which there is no dump.
int start(Process& process) {
  NoCancellation guard;
  process.pid = static_cast<int>(getpid());
  read_options(&process.options);
  apply_attach_options(&process.options);
  if (process.options.verify_stacks) process.mode.fetch_or(kModeVerify);
  if (process.options.depth == 0) process.mode.fetch_or(kModeNoStacks);
  process.clock.start();
  StackMemo::choose_comparison();
  char path[4096];
  expand_path(process.options.out, process.pid, path, sizeof(path));
  int error = process.dump.start(path);
  if (error != 0) {
    warn_not_recording(process.options, path, error);
    return error;
  }
  describe_process(process);
  begin_switched(process);
  // Not where a detach would have to wait for the threads' records too.
  if (!loaded_late()) process.live.start_young();
  begin_marks(process);
  static std::uint32_t generations = 0;  // inherited by a fork child, which counts on from there
  process.generation = ++generations;
  register_exit_handlers();
  return 0;
}

// What register_thread() made, of a thread that does not use it any more.
void release_thread(ThreadState* state) {
  if (state->paths != nullptr) state->paths->destroy();
  if (state->memory != nullptr) os.unmap(state->memory, sizeof(ThreadMemory));
  state->paths = nullptr;
  state->memory = nullptr;
  state->counters = nullptr;
  state->generation = 0;
  state->session = ThreadState::kNoSession;
}

void register_thread(Process& process) {
  thread_state.generation = process.generation;
  thread_state.label = label_at_start();
  thread_state.times = {};
  thread_state.error_number = &errno;
  thread_state.forget_context();
  thread_state.stream = nullptr;
  thread_state.index = process.threads.add(now_ns(process), process.dump);
  if (thread_state.index == format::kNoIndex) add_counter(process.dump.header()->dropped_others, 1);
  if (thread_state.named) apply_thread_name(process.threads, thread_state.index, process.dump);
  thread_state.made = thread_state.ended = 0;
  watch_thread_end();
  // A fork child did not inherit its parent's, and the range may long be somebody else's: forget it, never unmap it.
  int error = 0;
  thread_state.memory = static_cast<ThreadMemory*>(map_private(sizeof(ThreadMemory), &error));
  thread_state.paths = ThreadPaths::create(process.dump);
  if (thread_state.memory == nullptr) {
    process.holders.enter_unwatched();
  } else {
    process.live.begin_thread(&thread_state.memory->records);
    StackHolder& holder = thread_state.memory->holder;
    holder.in_section = &thread_state.in_tracker;
    holder.memo = &thread_state.memory->stacks;
    holder.python = &thread_state.memory->python;
    holder.paths = thread_state.paths;
    // A thread whose end was noticed as often as the system allows may be gone at any time.
    if (thread_state.ends < kMostEnds) {
      process.holders.enter(&holder);
    } else {
      process.holders.enter_unwatched();
    }
  }
  thread_state.path = 0;
  thread_state.counters = process.counters.take(process.dump);
  thread_state.calls_to_watch = 0;
  thread_state.live_delta = 0;
  thread_state.live_device = format::kNoDevice;
  const bool complete =
      thread_state.memory != nullptr && thread_state.paths != nullptr && thread_state.counters != nullptr;
  thread_state.session = complete ? process.generation : ThreadState::kNoSession;
}

}  // namespace

Process* process_if_recording() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr || process->phase.load(std::memory_order_acquire) != Phase::kRecording) return nullptr;
  if (!wiped_on_fork && process->pid != static_cast<int>(getpid())) return nullptr;
  return process;
}

Process* recording_process() {
  if (loaded_late() && !attached_here()) return nullptr;
  if (the_process.load(std::memory_order_acquire) == nullptr && !recording_wanted()) return nullptr;
  Process* process = mapped_process();
  if (process == nullptr) return nullptr;
  if (!wiped_on_fork && process->pid != 0 && process->pid != static_cast<int>(getpid())) {
    std::memset(static_cast<void*>(process), 0, sizeof(*process));
  }
  for (;;) {
    Phase phase = process->phase.load(std::memory_order_acquire);
    if (phase == Phase::kRecording) return process;
    if (phase == Phase::kFailed || phase == Phase::kDetached || (phase == Phase::kNone && !recording_wanted()))
      return nullptr;
    Phase expected = Phase::kNone;
    if (phase == Phase::kNone && process->phase.compare_exchange_strong(expected, Phase::kStarting)) {
      if (start(*process) == 0) {
        begin_recording(*process);
      } else {
        process->phase.store(Phase::kFailed, std::memory_order_release);
      }
    } else {
      sched_yield();  // another thread is starting it: a millisecond at most
    }
  }
}

void begin_recording(Process& process) {
  process.session.store(process.generation, std::memory_order_release);
  process.phase.store(Phase::kRecording, std::memory_order_release);
}

Process* prepare_recording(int* error) {
  Process* process = mapped_process();
  Phase expected = Phase::kNone;
  if (process == nullptr ||
      (!process->phase.compare_exchange_strong(expected, Phase::kDetached) && expected != Phase::kDetached)) {
    *error = process == nullptr ? ENOMEM : EBUSY;
    return nullptr;
  }
  *error = start(*process);
  if (*error == 0) return process;
  release_recording();
  return nullptr;
}

void end_recording(Process& process) {
  sum_live_bytes(process);
  format::Header* header = process.dump.header();
  header->end_time_ns = now_ns(process);
  process.session.store(0);
  process.phase.store(Phase::kDetached);
  __atomic_store_n(&header->process_state, format::ProcessState::kDetached, __ATOMIC_RELEASE);
}

void release_recording() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return;
  for_each_known_thread(release_thread);
  process->live.free_memory();
  process->stacks.free_memory();
  process->python.free_memory();
  process->evidence.free_memory();
  process->throws.free_memory();
  process->sites.free_memory();
  process->marks.free_memory();
  process->releases.free_memory();
  process->dump.close();
  // All but the phase, by which the hooks of threads that pass by see that there is nothing.
  auto* bytes = reinterpret_cast<char*>(process);
  std::memset(bytes + sizeof(process->phase), 0, sizeof(*process) - sizeof(process->phase));
  process->phase.store(Phase::kDetached, std::memory_order_release);
}

Process* Recording::begin(int* saved_errno) {
  *saved_errno = errno;
  thread_state.in_tracker = true;
  // A detach waits for the threads that it knows of: before looking whether something is recorded.
  Process* process = loaded_late() && !know_this_thread() ? nullptr : recording_process();
  if (process == nullptr) {
    thread_state.in_tracker = false;
    return nullptr;
  }
  if (thread_state.generation != process->generation) register_thread(*process);
  return process;
}

void keep_stacks(format::Ref first, format::Ref second) {
  if (thread_state.memory == nullptr) return;
  // A throw may be recorded while the what() of another one runs; no deeper.
  format::Ref* place = &thread_state.memory->holder.kept[thread_state.asks_what ? 2 : 0];
  __atomic_store_n(place, first, __ATOMIC_RELEASE);
  __atomic_store_n(place + 1, second, __ATOMIC_RELEASE);
}

std::uint32_t intern_path(const RawStack& stack, const StackChecks& checks) {
  ThreadPaths* paths = thread_state.paths;
  if (paths == nullptr) return 0;
  std::uint32_t epoch = paths->epoch();
  std::uint32_t path = paths->intern(stack, checks.pointers);
  if (paths->epoch() != epoch && thread_state.memory != nullptr) thread_state.memory->stacks.forget_all();
  return path;
}

void collect_stacks(Process& process) {
  const bool python = (process.mode.load(std::memory_order_acquire) & kModePython) != 0;
  const StackCollection::Parts parts = {
      process.stacks,    process.holders,  process.modules, python ? &process.python : nullptr,
      &process.pictures, &process.cancels, process.dump};
  if (CULPRIT_LIKELY(!process.collection.is_due(parts)) || thread_state.memory == nullptr) return;
  process.collection.step(parts, &thread_state.memory->holder);
}

namespace {

// Once for the whole process after a module went; each thread's memo notices by the generation itself.
void forget_unloaded(Process& process, std::uint32_t generation) {
  std::uint32_t known = process.module_generation.load(std::memory_order_acquire);
  if (known == generation || !process.module_generation.compare_exchange_strong(known, generation)) return;
  process.modules.refresh(process.dump);
  process.stacks.forget_addresses();
  forget_unwind_information();
}

// `checks` may be null; else the calling thread's `path` is set too.
format::Ref walk_stack(Process& process, const std::uint64_t* frame, StackChecks* checks) {
  RawStack stack;
  capture_stack(process.options.depth, frame, &stack, checks);
  collect_stacks(process);
  bool is_new = false;
  format::Ref ref = process.stacks.intern(stack, process.modules, process.dump, &is_new);
  if (is_new) {
    if (format::ThreadRecord* thread = process.threads.record(thread_state.index, process.dump))
      refresh_thread_name(thread);
  }
  if (ref == 0) add_counter(process.dump.header()->dropped_stacks, 1);
  if (thread_state.memory != nullptr) __atomic_store_n(&thread_state.memory->holder.walked, ref, __ATOMIC_RELEASE);
  if (checks != nullptr) thread_state.path = intern_path(stack, *checks);
  return ref;
}

void verify_stack(Process& process, format::Ref remembered) {
  format::Header* header = process.dump.header();
  add_counter(header->stacks_verified, 1);
  if (walk_stack(process, nullptr, nullptr) != remembered) add_counter(header->stack_mismatches, 1);
}

}  // namespace

format::Ref find_current_stack(Process& process) {
  if (process.options.depth == 0) {
    thread_state.path = 0;
    return 0;
  }
  std::uint32_t generation = module_generation.load(std::memory_order_acquire);
  if (process.module_generation.load(std::memory_order_relaxed) != generation) forget_unloaded(process, generation);
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread_state.outermost_hook);
  format::Ref ref = 0;
  StackMemo* memo = frame == nullptr || thread_state.memory == nullptr ? nullptr : &thread_state.memory->stacks;
  if (memo != nullptr) ref = memo->look_up(frame, generation, &thread_state.path);
  if (ref == 0) {
    if (process.options.python) process.python.look(process);
    StackChecks checks;
    ref = walk_stack(process, frame, &checks);
    if (memo != nullptr) memo->remember(frame, generation, ref, thread_state.path, checks);
  } else if (process.options.verify_stacks) {
    verify_stack(process, ref);
  }
  if (thread_state.paths != nullptr) thread_state.paths->see(thread_state.path);
  return with_python_frames(process, ref);
}

Place ask_current_place(Process& process) {
  thread_state.forget_context();
  CUcontext handle = nullptr;
  if (!driver_ready() || driver().cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == nullptr) return {};
  thread_state.context_place = process.contexts.of_handle(handle, now_ns(process), process.dump);
  thread_state.context_epoch = process.contexts.epoch();
  return thread_state.context_place;
}

void verify_place(Process& process, Place remembered) {
  format::Header* header = process.dump.header();
  add_counter(header->contexts_verified, 1);
  Place now = ask_current_place(process);
  if (now.context != remembered.context || now.device != remembered.device) add_counter(header->context_mismatches, 1);
}

}  // namespace culprit
