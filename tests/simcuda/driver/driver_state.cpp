// The life cycle of the driver: cuInit, the lock, fork and exit.
//
// At exit the driver shuts down first: a handler that cuInit registers makes every later call return
// CUDA_ERROR_DEINITIALIZED, so that calls in destructors of the program and cudart come too late, as with the real
// driver.
//
// In a fork child of an initialized process the real driver always returns CUDA_ERROR_NOT_INITIALIZED. Here cuInit in
// the child starts a driver of its own, so that programs that fork can be tested; it does not know the parent's
// allocations.
#include "tests/simcuda/driver/driver_state.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/neighbours.h"
#include "tests/simcuda/driver/own_memory.h"
#include "tests/simcuda/driver/pools.h"

namespace simcuda {
namespace {

enum class Phase { kBeforeInit, kRunning, kShutDown };

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
Phase phase = Phase::kBeforeInit;     // guarded by lock
DriverState* driver_state = nullptr;  // guarded by lock
std::uint64_t generation = 1;         // guarded by lock

constexpr int kMaxDevices = 16;
constexpr std::uint64_t kManagedBase = 0x6f1d5ac00000;
constexpr std::uint64_t kDeviceBase = 0x702d6ac00000;
constexpr std::size_t kDeviceRange = std::size_t{1} << 39;  // addresses for each device, far more than its memory
constexpr std::size_t kDefaultMemoryMb = 80 * 1024;

// A plain pointer, deleted when its thread ends, by a pthread key: a destructor would run at exit() before the exit
// handlers, in which the real driver still works.
thread_local ThreadState* current_thread_state = nullptr;

ThreadState* make_thread_state() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    pthread_key_create(&made, [](void* state) {
      delete static_cast<ThreadState*>(state);
      current_thread_state = nullptr;
    });
    return made;
  }();
  auto* state = new ThreadState;
  pthread_setspecific(key, state);
  return state;
}

void shut_down() {
  pthread_mutex_lock(&lock);
  phase = Phase::kShutDown;
  pthread_mutex_unlock(&lock);
}

void before_fork() { pthread_mutex_lock(&lock); }
void after_fork_in_parent() { pthread_mutex_unlock(&lock); }
void after_fork_in_child() {
  pthread_mutex_init(&lock, nullptr);  // its owner does not exist here
  if (phase == Phase::kRunning) phase = Phase::kBeforeInit;
  // Dropped, not deleted: its objects describe the parent's devices, whose memory is not mapped here.
  driver_state = nullptr;
  ++generation;
}

// Reads a count from the environment; a value that is not a number above zero counts as not set.
long environment_number(const char* name, long default_value) {
  const char* text = getenv(name);
  if (text == nullptr) return default_value;
  long value = strtol(text, nullptr, 10);
  return value > 0 ? value : default_value;
}

// The mapped size of each range of addresses. valgrind and ThreadSanitizer have no room for a large one.
std::size_t range_bytes() {
  long megabytes = environment_number("SIMCUDA_RANGE_MB", 0);
  return megabytes > 0 ? static_cast<std::size_t>(megabytes) << 20 : kDeviceRange;
}

bool has_memory(const DriverState& state) {
  bool usable = state.managed_space->usable();
  for (auto& device : state.devices) usable = usable && device->space->usable();
  return usable;
}

DriverState* make_state() {
  auto* state = new DriverState;
  join_neighbours();
  state->own_memory = read_own_memory();
  const char* same = getenv("SIMCUDA_SAME_ADDRESSES");
  state->same_addresses = same != nullptr && *same == '1';
  const char* count_text = getenv("SIMCUDA_DEVICES");
  long count = count_text == nullptr ? 1 : strtol(count_text, nullptr, 10);  // 0 is a machine without a GPU
  if (count < 0) count = 0;
  if (count > kMaxDevices) count = kMaxDevices;
  std::size_t megabytes = static_cast<std::size_t>(environment_number("SIMCUDA_MEMORY_MB", kDefaultMemoryMb));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    device->total = megabytes << 20;
    std::uint64_t base = kDeviceBase + (state->same_addresses ? 0 : ordinal * kDeviceRange);
    bool identity = ordinal == 0 || !state->same_addresses;
    device->space = std::make_unique<AddressSpace>(base, range_bytes(), identity);
    device->default_pool = make_default_pool(*state, *device);
    device->current_pool = device->default_pool;
    state->devices.push_back(std::move(device));
  }
  state->managed_space = std::make_unique<AddressSpace>(kManagedBase, range_bytes(), true);
  return state;
}

}  // namespace

void DriverState::destroy(Object* object) {
  if (objects.erase(object) == 0) return;
  object->release(*this);
  delete object;
}

void DriverState::empty_context(Context& context) {
  // Objects first: modules and external memory own allocations. An object may end others of the same context.
  std::vector<Object*> owned;
  for (Object* object : objects) {
    if (object->context == &context) owned.push_back(object);
  }
  for (Object* object : owned) destroy(object);
  context.legacy_stream = nullptr;
  context.per_thread_streams.clear();
  context.peers.clear();
  auto release_all = [&](AllocationMap& map) {
    for (auto entry = map.begin(); entry != map.end();) {
      auto next = std::next(entry);
      Allocation& allocation = entry->second;
      if (allocation.context == &context) {
        // Memory from a pool or a graph belongs to the device: NVIDIA's driver (580, on an H200) keeps it in use after
        // cuCtxDestroy and cudaDeviceReset, and a later free of it succeeds.
        if (allocation.pool != nullptr || allocation.graph_memory != nullptr) {
          allocation.context = nullptr;
        } else {
          release_allocation(*this, allocation);
        }
      }
      entry = next;
    }
  };
  release_all(devices[context.device]->memory);
  release_all(managed);
  release_all(host);
  return_context(*this, context);
}

namespace {

// Its stack leads to all that the driver knows.
void* wait_for_ever(void* state) {
  void* volatile known = state;
  while (known != nullptr) pause();
  return nullptr;
}

// NVIDIA's driver has threads of its own from cuInit() on; here only with SIMCUDA_THREADS=n.
void start_threads() {
  const char* text = getenv("SIMCUDA_THREADS");
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  for (int left = text == nullptr ? 0 : atoi(text); left > 0; --left)
    pthread_create(&thread, &attributes, wait_for_ever, driver_state);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

CUresult initialize_driver() {
  pthread_mutex_lock(&lock);
  CUresult status = CUDA_SUCCESS;
  if (phase == Phase::kShutDown) {
    status = CUDA_ERROR_DEINITIALIZED;
  } else if (phase == Phase::kBeforeInit) {
    static bool handlers_installed = false;
    if (!handlers_installed) {
      handlers_installed = true;
      atexit(shut_down);
      pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    driver_state = make_state();
    if (driver_state->devices.empty()) {
      delete driver_state;
      driver_state = nullptr;
      status = CUDA_ERROR_NO_DEVICE;
    } else if (!has_memory(*driver_state)) {
      delete driver_state;
      driver_state = nullptr;
      status = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
      phase = Phase::kRunning;
      start_threads();
    }
  }
  pthread_mutex_unlock(&lock);
  return status;
}

Call::Call(Need need) {
  pthread_mutex_lock(&lock);
  if (phase != Phase::kRunning) {
    status_ = phase == Phase::kShutDown ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  state_ = driver_state;
  status_ = CUDA_SUCCESS;
  read_neighbours(*state_);
  if (need == Need::kInit) return;
  ThreadState& thread = thread_state();
  if (thread.stack.empty() || thread.stack.back().context == nullptr) {
    status_ = CUDA_ERROR_INVALID_CONTEXT;
  } else if (!is_alive(*state_, thread.stack.back())) {
    status_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  } else {
    context_ = thread.stack.back().context;
  }
}

Call::~Call() {
  if (state_ != nullptr) tell_neighbours(*state_);
  pthread_mutex_unlock(&lock);
}

ThreadState& thread_state() {
  ThreadState*& state = current_thread_state;
  if (state == nullptr) state = make_thread_state();
  if (state->generation != generation) {
    state->generation = generation;
    state->stack.clear();
  }
  return *state;
}

bool is_alive(const DriverState& state, const CurrentContext& current) {
  const Context* context = state.find<Context>(current.context);
  return context != nullptr && context->active && context->serial == current.serial;
}

}  // namespace simcuda

SIM(cuInit)(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::initialize_driver();
}
