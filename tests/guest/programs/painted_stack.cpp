// Measures the stack use of a call, in each of the states that make a recorder slow. The test compares the figures of a
// run alone with those of a run under the library.
#include <pthread.h>

#include "tests/guest/programs/painted.h"

namespace {

constexpr size_t kBytes = 1024 * 1024;

guest::Painted* stack;
unsigned char* frame;  // of the last measured function
void (*step)();
CUdeviceptr memory;

// Repaints the stack below this function's frame, so that earlier use does not count.
__attribute__((noinline)) void start_measuring() {
  unsigned char* here = static_cast<unsigned char*>(__builtin_frame_address(0));
  for (unsigned char* at = stack->memory(); at + 256 < here; ++at)
    *const_cast<volatile unsigned char*>(at) = guest::kPaint;
}

void entry() {
  frame = static_cast<unsigned char*>(__builtin_frame_address(0));
  step();
  KEEP_FRAME();
}

long long depth() { return frame - stack->lowest_touched(); }

void measure(const char* name, void (*function)()) {
  guest::Painted fresh(kBytes);
  stack = &fresh;
  step = function;
  guest::run_on(fresh.memory(), fresh.bytes(), entry);
  guest::figure(name, depth());
}

void start() { guest::start_cuda(); }
GUEST_FUNCTION void make() {
  memory = guest::allocate(512);
  KEEP_FRAME();
}
GUEST_FUNCTION void make_elsewhere() {
  memory = guest::allocate(512);
  KEEP_FRAME();
}
GUEST_FUNCTION void make_deep(int levels) {
  if (levels == 0) {
    make();
  } else {
    make_deep(levels - 1);
  }
  KEEP_FRAME();
}
void make_at_depth() { make_deep(200); }
void end() { guest::release(memory); }
void end_again() { HOLDS(cuMemFree(memory) != CUDA_SUCCESS); }
void make_too_much() {
  CUdeviceptr none = 0;
  HOLDS(cuMemAlloc(&none, size_t{1} << 50) != CUDA_SUCCESS);
}
void make_event() {
  CUevent event = nullptr;
  CHECKED(cuEventCreate(&event, 0));
  CHECKED(cuEventDestroy(event));
}
GUEST_FUNCTION void make_and_throw() {
  memory = guest::allocate(512);
  throw 1;
}
void throw_and_catch() {
  try {
    make_and_throw();
  } catch (int) {
  }
}
void throw_and_rethrow() {
  try {
    try {
      make_and_throw();
    } catch (int) {
      throw;
    }
  } catch (int) {
  }
}

bool measure_end;

void* thread_main(void*) {
  frame = static_cast<unsigned char*>(__builtin_frame_address(0));
  guest::use_context();
  guest::pair();
  make();  // not freed, so that the thread's end has something to record
  if (measure_end) start_measuring();
  return nullptr;
}

void measure_thread(const char* name, bool only_end) {
  guest::Painted fresh(kBytes);
  stack = &fresh;
  measure_end = only_end;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  HOLDS(pthread_attr_setstack(&attributes, fresh.memory(), fresh.bytes()) == 0);
  pthread_t thread;
  CHECKED(pthread_create(&thread, &attributes, thread_main, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  guest::figure(name, depth());
}

void exit_thread() { pthread_exit(nullptr); }

void* exiting_main(void*) {
  frame = static_cast<unsigned char*>(__builtin_frame_address(0));
  guest::use_context();
  make();
  start_measuring();
  exit_thread();
  return nullptr;
}

void measure_thread_exit(const char* name) {
  guest::Painted fresh(kBytes);
  stack = &fresh;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  HOLDS(pthread_attr_setstack(&attributes, fresh.memory(), fresh.bytes()) == 0);
  pthread_t thread;
  CHECKED(pthread_create(&thread, &attributes, exiting_main, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  guest::figure(name, depth());
}

}  // namespace

int main() {
  // The first throw loads what the C++ runtime needs; the first thread exit loads libgcc_s.
  try {
    throw 1;
  } catch (int) {
  }
  measure("first-call-of-process", start);
  measure("first-allocation", make);
  measure("new-stack", make_elsewhere);
  measure("known-stack", make_elsewhere);
  measure("free", end);
  measure("refused-free", end_again);
  measure("refused-free-again", end_again);
  measure("failed-allocation", make_too_much);
  measure("deep-stack", make_at_depth);
  measure("event", make_event);
  measure("throw", throw_and_catch);
  measure("throw-again", throw_and_catch);
  measure("rethrow", throw_and_rethrow);
  measure_thread("first-call-of-thread", false);
  measure_thread("second-thread", false);
  measure_thread("thread-end", true);
  measure_thread_exit("pthread-exit");
  guest::say("measured");
  return 0;
}
