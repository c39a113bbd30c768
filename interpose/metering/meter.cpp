#include "interpose/metering/meter.h"

#include <algorithm>
#include <utility>

#include "interpose/base/hash.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/driver/relaxed_capture.h"
#include "interpose/metering/balance_figures.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/process/current_place.h"
#include "interpose/process/known_threads.h"

namespace culprit {

using format::DriverMemory;

namespace {

constexpr int kMostAttempts = 16;  // at a reading that other threads change meanwhile
constexpr int kMostQuestions = 3;  // of them with NVML's figure

bool is_off(const Process& process) {
  return (process.mode.load(std::memory_order_relaxed) & (kModeExiting | kModeOff)) != 0;
}

// Recording is off or over, CUPTI tells about calls only once they are done, or several drivers share the records of a
// device.
bool may_not_read(Process& process) {
  return has_several_drivers() || is_off(process) || process.dump.header()->attached == format::Attached::kCupti ||
         !driver_ready();
}

}  // namespace

// The other threads' part in the live memory of a device.
struct Meter::OtherThreads {
  std::int64_t held_back;  // their changes that the device's sum does not contain yet (change_live_bytes())
  std::uint64_t changes;   // that they made
  bool busy;               // one of them is in a hook that changes the live memory
};

Meter::OtherThreads Meter::look_at_other_threads(std::uint8_t device) {
  OtherThreads others = {};
  for_each_known_thread([&](const ThreadState* thread) {
    if (thread == &thread_state) return;
    others.busy = others.busy || (__atomic_load_n(&thread->outermost_hook, __ATOMIC_ACQUIRE) != nullptr &&
                                  __atomic_load_n(&thread->hook_changes_memory, __ATOMIC_RELAXED));
    others.changes += __atomic_load_n(&thread->sums.changes, __ATOMIC_RELAXED);
    if (__atomic_load_n(&thread->sums.live_device, __ATOMIC_RELAXED) == device)
      others.held_back += __atomic_load_n(&thread->sums.live_delta, __ATOMIC_RELAXED);
  });
  return others;
}

namespace {

std::uint64_t live_sum(Process& process, std::uint8_t device) {
  const format::DeviceRecord* record = process.tables.contexts.known_device(device, process.dump);
  return record == nullptr ? 0 : __atomic_load_n(&record->live_bytes, __ATOMIC_RELAXED);
}

std::size_t stack_limit() {
  std::size_t limit = 0;
  return driver().cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS ? limit : 0;
}

// The threads that the device can run at a time.
std::uint64_t threads_of(std::uint8_t device) {
  int multiprocessors = 0, threads = 0;
  driver().cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  driver().cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
  return static_cast<std::uint64_t>(multiprocessors) * static_cast<std::uint64_t>(threads);
}

// Calls that load code, or get it ready to be launched: they take local memory for kernels that need more than the
// kernels before, and raise the stack limit accordingly (driver 580 on an H200: a launch, and an instantiation).
bool has_kernels(DriverMemory what) {
  return what == DriverMemory::kModules || what == DriverMemory::kGraphExecutables;
}

// Calls that may give memory back.
bool gives_back(DriverMemory what) {
  return what == DriverMemory::kLocalMemory || what == DriverMemory::kPrintfFifo || what == DriverMemory::kDeviceHeap ||
         what == DriverMemory::kOtherLimits;
}

// Code and streams: a process makes them to work on a device.
bool is_work(DriverMemory what) { return has_kernels(what) || what == DriverMemory::kStreams; }

// How much of the `grown` bytes is local memory.
std::int64_t local_memory(const Meter::Measurement& measurement, std::int64_t grown) {
  if (grown <= 0 || !has_kernels(measurement.what)) return 0;
  const RelaxedCapture relaxed;
  const std::size_t limit = stack_limit();
  if (limit <= measurement.stack_limit) return 0;
  return std::min(grown, static_cast<std::int64_t>((limit - measurement.stack_limit) * threads_of(measurement.device)));
}

}  // namespace

// Readings may take a hundredth of the time; the first ones are always made.
bool Meter::may_measure(Budget budget, std::uint64_t now, bool repeated) const {
  constexpr std::uint64_t kFree = 50'000'000;
  constexpr std::uint64_t kShare = 100 * kBudgets;
  return spent_ns_[static_cast<int>(budget)].load(std::memory_order_relaxed) <= (repeated ? 0 : kFree) + now / kShare;
}

CULPRIT_HOT bool Meter::needs_reading(Process& process, Measurement* measurement) {
  const Place place = current_place(process);
  if (place.device >= ContextTable::kMostDevices || is_off(process)) return false;
  measurement->device = place.device;
  device_use_of(process).note_made(process, place.device);
  StreamUse::Sort* sort = streams_.find(place.context, measurement->api, true);
  StreamUse::Expected expected = {};
  if (sort != nullptr) {
    expected = StreamUse::expected(*sort, thread_state.vacant_stream);
    if (CULPRIT_LIKELY(expected.next == StreamUse::Next::kKnown && expected.bytes == 0)) {
      measurement->streams = sort;
      return false;
    }
  }
  if (may_not_read(process)) return false;
  measurement->streams = sort;
  measurement->expected = expected;
  if (expected.next == StreamUse::Next::kTeaches) return true;
  return expected.next == StreamUse::Next::kRepeated && may_measure(measurement->budget, now_ns(process), true);
}

void Meter::ask(Process& process, std::uint8_t device, GpuQuestions::For whom, std::uint64_t state,
                format::GpuAccount* account) {
  gpu_questions_.ask(process, device, whom, state, account);
  if (account->problem != format::GpuProblem::kNone && account->problem != format::GpuProblem::kNoFigure) return;
  const bool shared = account->others != 0;
  __atomic_store_n(&shared_[device], shared, __ATOMIC_RELAXED);
  if (shared) __atomic_fetch_add(&seen_others_[device], 1, __ATOMIC_RELAXED);
}

OwnFigures::Figure Meter::figure_of(const Reading& reading) {
  return {static_cast<std::int64_t>(reading.own - reading.live), reading.mark};
}

// With the lock of `together_`, as all that concerns its figures.
void Meter::note_settled(Process& process, std::uint8_t device, const OwnFigures::Settled& settled) {
  CUcontext context = std::exchange(together_[device].unsettled_context, nullptr);
  if (settled.doubtful) __atomic_fetch_or(&unproven_[device], settled.kinds, __ATOMIC_RELAXED);
  if (!settled.known) return;
  __atomic_fetch_sub(&not_attributed_[device], settled.not_given, __ATOMIC_RELAXED);
  for (std::size_t kind = 0; kind < format::kDriverMemoryKinds; ++kind)
    __atomic_fetch_add(&taken_[device][kind], settled.bytes[kind], __ATOMIC_RELAXED);
  if (context == nullptr) return;
  const std::int64_t bytes =
      together_[device].context_bytes + settled.bytes[static_cast<std::size_t>(DriverMemory::kContexts)];
  if (bytes > 0)
    process.tables.contexts.set_bytes(context, static_cast<std::uint64_t>(bytes), format::kContextMeasured,
                                      process.dump);
}

// cuMemGetInfo's difference is this process's only while no other one uses the device. With the lock of `together_`.
Meter::Growth Meter::between(Process& process, const Measurement& measurement, const Reading& after) {
  constexpr std::int64_t kLowest = -(4 << 20);
  const std::uint8_t device = measurement.device;
  Together& together = together_[device];
  OwnFigures& figures = together.figures;
  const Reading& before = together.before;
  const auto live = static_cast<std::int64_t>(after.live - before.live);
  const std::int64_t by_device = static_cast<std::int64_t>(after.used - before.used) - live;
  bool alone = !__atomic_load_n(&shared_[device], __ATOMIC_RELAXED);
  if (alone && by_device < kLowest && !gives_back(measurement.what)) {
    // The call cannot have done that.
    __atomic_fetch_add(&seen_others_[device], 1, __ATOMIC_RELAXED);
    alone = false;
  }
  const bool comparable = after.own_known && (before.own_known || figures.is_known(after.mark));
  if (by_device == 0 && (!comparable || figures.has_unsettled())) {
    // No other process gave back at that moment what the call took, to the byte.
    if (after.own_known) note_settled(process, device, figures.settle(figure_of(after), 0));
    return {0, true, true};
  }
  if (!comparable || (figures.has_unsettled() && !alone)) {
    figures.add_unsettled(measurement.what, together.calls, alone, by_device);
    if (!alone) __atomic_fetch_add(&not_attributed_[device], together.calls, __ATOMIC_RELAXED);
    if (after.own_known) note_settled(process, device, figures.settle(figure_of(after), 0));
    return {by_device, alone, true};  // OwnFigures keeps in mind that no figure proves it
  }
  if (figures.has_unsettled()) {
    note_settled(process, device, figures.settle(figure_of(after), by_device));
    return {by_device, true, true};
  }
  const std::int64_t own = before.own_known ? static_cast<std::int64_t>(after.own - before.own) - live
                                            : figures.growth_until(figure_of(after));
  figures.settle(figure_of(after), 0);
  // More by one of them: a neighbour that has come and gone, or what the process got in between, and not in this call.
  return {before.own_known || !alone ? own : std::min(own, by_device), true, true};
}

// `context`: to read in; nullptr: the current one. Returns false if there is no reading, or if other threads were
// inside hooks at each attempt: the driver's figure then contains changes that no record shows yet.
bool Meter::read(Process& process, const Measurement& measurement, CUcontext context, At at, Reading* result) {
  const std::uint8_t device = measurement.device;
  const auto whom = at == At::kFirstContext ? GpuQuestions::For::kFirstContext
                    : at == At::kProcessEnd ? GpuQuestions::For::kLastBalance
                                            : GpuQuestions::For::kCall;
  const GraphBytes& graphs = graph_bytes_of(process);
  const std::uint64_t start = now_ns(process);
  flush_live_bytes(process);
  format::MemoryReading reading = {};
  std::uint64_t of_graphs = 0;
  bool done = false;
  format::GpuAccount account = {};
  {
    const RelaxedCapture relaxed;
    const PushedContext pushed(context);
    const bool usable = context == nullptr || pushed.done();
    for (int i = 0; usable && !done && i < kMostAttempts; ++i) {
      const OtherThreads before = look_at_other_threads(device);
      const std::uint64_t sum = live_sum(process, device);
      const std::uint32_t graph_changes = graphs.changes();
      const std::int64_t graph_live = graphs.live(device);
      const std::int64_t charged = __atomic_load_n(&charged_[device], __ATOMIC_RELAXED);
      // Trimming graph memory is no hook of ours.
      std::uint64_t of_graphs_before = 0;
      const bool apart = graphs.expected();
      if (apart && !read_graph_reserved(device, &of_graphs_before)) break;
      if (!read_memory(start, &reading)) break;
      account.problem = format::GpuProblem::kNoTime;
      result->mark = mark(process, before, device);
      std::uint64_t state = 0;
      result->used = reading.total_bytes - reading.free_bytes - of_graphs_before;
      result->live = sum + static_cast<std::uint64_t>(before.held_back - graph_live + charged);
      if (i < kMostQuestions && wants_figure(device, at, *result, &state)) ask(process, device, whom, state, &account);
      if (apart && !read_graph_reserved(device, &of_graphs)) break;
      const OtherThreads after = look_at_other_threads(device);
      done = !before.busy && !after.busy && after.held_back == before.held_back && live_sum(process, device) == sum &&
             graphs.changes() == graph_changes && of_graphs == of_graphs_before;
    }
  }
  spent_ns_[static_cast<int>(measurement.budget)].fetch_add(now_ns(process) - start, std::memory_order_relaxed);
  result->own_known = account.problem == format::GpuProblem::kNone && account.own_bytes >= of_graphs;
  result->own = account.own_bytes - of_graphs;
  return done;
}

// Anything that changes the process's bytes, and is no measured call. Without answers no figure is compared.
std::uint64_t Meter::mark(Process& process, const OtherThreads& others, std::uint8_t device) {
  if (!gpu_questions_.may_be_answered()) return 0;
  // The reserves of other pools are not read.
  if (other_pools_.load(std::memory_order_relaxed)) return marks_.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t reserved = 0, used = 0;
  CUmemoryPool pool = nullptr;
  if (driver().cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS && pool != nullptr)
    read_pool(pool, &reserved, &used);
  const std::uint64_t changes = others.changes + thread_state.sums.changes + graph_bytes_of(process).changes();
  return quick_hash(quick_hash(changes) + reserved);
}

// Whether to ask, because a question takes as long as the shorter ones of the measured calls. `*state`:
// GpuQuestions::ask().
bool Meter::wants_figure(std::uint8_t device, At at, const Reading& reading, std::uint64_t* state) {
  Together& together = together_[device];
  SpinGuard guard(together.lock);
  // That of the end of a call is the one of the next one's begin, which close() makes.
  const std::uint32_t changes = together.changes + (at == At::kEnd ? 1 : 0);
  *state = quick_hash(reading.mark + device) ^ (std::uint64_t{changes} + 1);
  switch (at) {
    case At::kBegin:
      return together.open == 0 && (!together.figures.is_known(reading.mark) || together.figures.has_unsettled());
    case At::kEnd:
      // between() needs none where free memory is as before the call.
      return together.open <= 1 && (together.figures.has_unsettled() ||
                                    reading.used - reading.live != together.before.used - together.before.live);
    case At::kFirstContext:
    case At::kProcessEnd:
      break;
  }
  return true;
}

// Other threads' measurements may begin or end between a reading and the lock. One that decides about the sum is then
// repeated: an old one would count their memory twice, or not at all.
void Meter::open(Process& process, Measurement* measurement, CUcontext context) {
  constexpr std::uint64_t kLongest = 60'000'000'000;  // of a call: its thread left it by a jump, or was cancelled
  Together& together = together_[measurement->device];
  for (int i = 0; i < kMostAttempts; ++i) {
    const std::uint32_t changes = __atomic_load_n(&together.changes, __ATOMIC_ACQUIRE);
    Reading reading = {};
    const bool done = read(process, *measurement, context, At::kBegin, &reading);
    const std::uint64_t now = now_ns(process);
    SpinGuard guard(together.lock);
    // `now` is older than the lock: another thread may have begun after it.
    if (together.open != 0 && now > together.began_ns + kLongest) together.open = 0;
    if (together.open == 0) {
      if (!done) break;
      if (together.changes != changes) continue;
      if (reading.own_known) note_settled(process, measurement->device, together.figures.settle(figure_of(reading), 0));
      together.calls = 0;
      together.kinds = 0;
      together.began_ns = now;
      together.before = reading;
    }
    ++together.open;
    ++together.calls;
    together.kinds |= bit_of(measurement->what);
    __atomic_store_n(&together.changes, together.changes + 1, __ATOMIC_RELEASE);
    measurement->begun = true;
    return;
  }
  note_unmeasured(measurement->device, measurement->what);
}

void Meter::note_unmeasured(std::uint8_t device, DriverMemory what) {
  __atomic_fetch_add(&unmeasured_[device], 1, __ATOMIC_RELAXED);
  SpinGuard guard(together_[device].lock);
  together_[device].figures.add_unread(bit_of(what));
}

Meter::Growth Meter::close(Process& process, const Measurement& measurement, CUcontext context) {
  constexpr Growth kNotKnown = {0, false, false};
  Together& together = together_[measurement.device];
  for (int i = 1;; ++i) {
    const std::uint32_t changes = __atomic_load_n(&together.changes, __ATOMIC_ACQUIRE);
    Reading reading = {};
    bool done = read(process, measurement, context, At::kEnd, &reading);
    SpinGuard guard(together.lock);
    if (together.open == 1 && together.changes != changes) {
      if (done && i < kMostAttempts) continue;
      done = false;
    }
    if (together.open == 0) return kNotKnown;
    __atomic_store_n(&together.changes, together.changes + 1, __ATOMIC_RELEASE);
    if (--together.open != 0) return kNotKnown;
    const std::uint32_t calls = together.calls;
    const bool measured = done && (together.kinds & (together.kinds - 1)) == 0;
    const Growth growth = measured ? between(process, measurement, reading) : kNotKnown;
    if (!measured) {
      __atomic_fetch_add(&unmeasured_[measurement.device], calls, __ATOMIC_RELAXED);
      together.figures.add_unread(together.kinds);
    }
    if (calls == 1) return growth;
    in_common_[measurement.device] += calls;
    if (growth.known) add(measurement.device, measurement.what, growth);
    return kNotKnown;
  }
}

void Meter::add(std::uint8_t device, DriverMemory what, const Growth& growth) {
  __atomic_fetch_add(&taken_[device][static_cast<std::size_t>(what)], growth.bytes, __ATOMIC_RELAXED);
  if (!growth.proven && growth.bytes != 0) __atomic_fetch_or(&unproven_[device], bit_of(what), __ATOMIC_RELAXED);
}

void Meter::note(Process& process, const Measurement& measurement, std::uint32_t context, const Growth& growth) {
  format::CallChargeRecord charge = {};
  charge.stack = current_stack(process);
  charge.bytes = growth.bytes;
  charge.first_ns = charge.last_ns = now_ns(process);
  charge.thread = thread_state.index;
  charge.context = context;
  charge.api = static_cast<std::uint16_t>(measurement.api);
  charge.device = measurement.device;
  charge.what = measurement.what;
  if (!process.tables.call_charges.add(charge, process.dump)) add_counter(process.dump.header()->dropped_others, 1);
  add(measurement.device, measurement.what, growth);
}

void Meter::begin(Process& process, Measurement* measurement) {
  if (may_not_read(process)) return;
  measurement->device = current_place(process).device;
  if (measurement->device >= ContextTable::kMostDevices) return;
  if (is_work(measurement->what)) device_use_of(process).note_made(process, measurement->device);
  if (!may_measure(measurement->budget, now_ns(process), false))
    return note_unmeasured(measurement->device, measurement->what);
  open(process, measurement, nullptr);
  if (measurement->begun && has_kernels(measurement->what)) {
    const RelaxedCapture relaxed;
    measurement->stack_limit = stack_limit();
  }
}

std::int64_t Meter::finish(Process& process, const Measurement& measurement) {
  const Growth growth = close(process, measurement, nullptr);
  const std::int64_t grown = growth.bytes;
  if (growth.known && grown == 0) return 0;
  const std::uint32_t context = current_place(process).context;
  const std::int64_t for_local = local_memory(measurement, growth.known ? grown : INT64_MAX);
  if (for_local != 0) {
    Measurement local = measurement;
    local.what = DriverMemory::kLocalMemory;
    note(process, local, context, {for_local, true, growth.proven});
    SpinGuard guard(together_[measurement.device].lock);
    together_[measurement.device].figures.add_given(bit_of(local.what), growth.known ? 0 : for_local);
  }
  if (!growth.known) return 0;
  if (grown != for_local) note(process, measurement, context, {grown - for_local, true, growth.proven});
  return grown - for_local;
}

void Meter::finish_stream(Process& process, const Measurement& measurement, bool made) {
  StreamUse::Sort* streams = measurement.streams;
  Growth growth = {};
  if (measurement.begun) growth = close(process, measurement, nullptr);
  if (streams != nullptr && made && !measurement.begun && measurement.expected.next != StreamUse::Next::kTeaches) {
    growth = {measurement.expected.bytes, true, true};  // as far as the measured ones are
    // Another thread's reading has it.
    __atomic_fetch_add(&charged_[measurement.device], growth.bytes, __ATOMIC_RELAXED);
  }
  if (streams != nullptr && made) {
    StreamUse::note_made(*streams, &thread_state.vacant_stream);
    if (measurement.begun && growth.known && measurement.expected.raises)
      StreamUse::note_measured(*streams, growth.bytes);
  }
  if (growth.known && growth.bytes != 0) note(process, measurement, current_place(process).context, growth);
}

void Meter::begin_context(Process& process, Measurement* measurement) {
  if (may_not_read(process) || measurement->device >= ContextTable::kMostDevices) return;
  CUcontext known = process.tables.contexts.any_context_on(measurement->device);
  if (known != nullptr) return open(process, measurement, known);
  measurement->first = measurement->begun = true;
}

void Meter::finish_context(Process& process, const Measurement& measurement, CUcontext made) {
  Growth growth = {};
  std::uint16_t flags = format::kContextMeasured;
  if (measurement.first) {
    Reading reading = {};
    if (made == nullptr || !read(process, measurement, made, At::kFirstContext, &reading)) return;
    const std::uint64_t all = reading.own_known ? reading.own : reading.used;
    growth = {static_cast<std::int64_t>(all - reading.live), true, true};
    if (!reading.own_known) flags = format::kContextFirst;
    Together& together = together_[measurement.device];
    SpinGuard guard(together.lock);
    together.figures.begin_at_nothing(reading.mark);
    if (reading.own_known) {
      together.figures.settle(figure_of(reading), growth.bytes);
    } else {
      together.figures.add_unsettled(DriverMemory::kContexts, 1, true, growth.bytes);
      together.unsettled_context = made;
      together.context_bytes = growth.bytes;
    }
  } else {
    growth = close(process, measurement, made);
  }
  const std::int64_t grown = growth.bytes;
  if (made == nullptr || !growth.known || grown <= 0) return;
  const std::uint32_t context =
      process.tables.contexts.set_bytes(made, static_cast<std::uint64_t>(grown), flags, process.dump);
  note(process, measurement, context, growth);
}

void Meter::note_context_ended(Process& process, std::uint32_t context) {
  look_ups_.forget();
  streams_.forget_context(context);
  std::uint8_t device = format::kNoDevice;
  process.tables.call_charges.end_context(context, process.dump, [&](const format::CallChargeRecord& charge) {
    device = charge.device;
    add(device, charge.what, {-charge.bytes, true, true});
  });
  if (device < ContextTable::kMostDevices) {
    SpinGuard guard(together_[device].lock);
    note_settled(process, device, together_[device].figures.forget());
  }
  if (device >= ContextTable::kMostDevices || process.tables.contexts.any_context_on(device) != nullptr) return;
  for (std::int64_t& taken : taken_[device]) __atomic_store_n(&taken, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&unproven_[device], 0, __ATOMIC_RELAXED);
}

// Calls that had no figure of their own get the one of the balance.
CULPRIT_COLD void Meter::settle(Process& process, std::uint8_t device, At at) {
  Together& together = together_[device];
  {
    SpinGuard guard(together.lock);
    if (!together.figures.has_unsettled() || together.open != 0) return;
  }
  Measurement measurement = {};
  measurement.device = device;
  Reading reading = {};
  const std::uint32_t changes = __atomic_load_n(&together.changes, __ATOMIC_ACQUIRE);
  if (!read(process, measurement, nullptr, at, &reading) || !reading.own_known) return;
  SpinGuard guard(together.lock);
  if (together.open == 0 && together.changes == changes)
    note_settled(process, device, together.figures.settle(figure_of(reading), 0));
}

}  // namespace culprit
