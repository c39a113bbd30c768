// Leaves allocations of coroutines, in the way that the argument names: of 1001 bytes where an exception leaves the
// body that has their address, of 1002 bytes where none does.
#include <cuda_runtime_api.h>

#include <coroutine>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "tests/subjects/check.h"

namespace {

struct Promise {
  std::exception_ptr error;
  std::coroutine_handle<> continuation = std::noop_coroutine();
  void return_void() {}
  void unhandled_exception() { error = std::current_exception(); }
};

// Initial: what the body waits for first. The end of a coroutine resumes the one that waits for it.
template <typename Initial>
struct Task {
  struct promise_type : Promise {
    Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    Initial initial_suspend() { return {}; }
    struct End {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> own) noexcept {
        return own.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    End final_suspend() noexcept { return {}; }
  };
  std::coroutine_handle<promise_type> handle;

  bool await_ready() { return handle.done(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
    handle.promise().continuation = waiting;
    return handle;
  }
  void await_resume() {
    std::exception_ptr error = handle.promise().error;
    handle.destroy();
    if (error) std::rethrow_exception(error);
  }
};
using Lazy = Task<std::suspend_always>;
using Eager = Task<std::suspend_never>;
struct Pause : std::suspend_always {};

template <typename Any>
SUBJECT_FUNCTION void run(Any task) {
  for (int i = 0; i < 9 && !task.handle.done(); ++i) task.handle.resume();
  task.handle.destroy();
}

SUBJECT_FUNCTION void fail() { throw std::runtime_error("residual is NaN"); }
SUBJECT_FUNCTION void use(const void* pointer) { asm volatile("" : : "r"(pointer) : "memory"); }
SUBJECT_FUNCTION void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

Lazy same_part() {
  void* pointer = allocate(1001);
  fail();
  CHECKED(cudaFree(pointer));
  co_return;
}
Eager at_once() {
  void* pointer = allocate(1001);
  fail();
  CHECKED(cudaFree(pointer));
  co_return;
}
Lazy later_part() {
  void* pointer = allocate(1001);
  co_await Pause{};
  fail();
  CHECKED(cudaFree(pointer));
}
Eager at_once_and_later() {
  void* pointer = allocate(1001);
  co_await Pause{};
  fail();
  CHECKED(cudaFree(pointer));
}
Lazy several() {
  void* pointers[3] = {allocate(1001), nullptr, nullptr};
  co_await Pause{};
  pointers[1] = allocate(1001);
  co_await Pause{};
  pointers[2] = allocate(1001);
  co_await Pause{};
  fail();
  for (void* pointer : pointers) CHECKED(cudaFree(pointer));
}
Lazy child() {
  void* pointer = allocate(1001);
  co_await Pause{};
  fail();
  CHECKED(cudaFree(pointer));
}
Lazy parent() {
  void* pointer = allocate(1004);
  Lazy task = child();
  co_await Pause{};
  task.handle.resume();
  co_await task;
  CHECKED(cudaFree(pointer));
}
struct Worker {
  Lazy work(std::size_t bytes) const {
    void* pointer = allocate(bytes);
    co_await Pause{};
    fail();
    CHECKED(cudaFree(pointer));
  }
};
template <typename T>
Lazy of_template(T bytes) {
  void* pointer = allocate(bytes);
  co_await Pause{};
  fail();
  CHECKED(cudaFree(pointer));
}

// No exception leaves the body.
Lazy dropped() {
  void* pointer = allocate(1002);
  co_await Pause{};
  CHECKED(cudaFree(pointer));
}
Lazy caught_inside() {
  void* pointer = allocate(1002);
  co_await Pause{};
  try {
    fail();
  } catch (const std::exception&) {
  }
  co_await Pause{};
  use(pointer);
}
// The exception leaves a body that does not own the memory.
Lazy borrows(void* pointer) {
  co_await Pause{};
  use(pointer);
  fail();
  use(pointer);
}
Lazy fails_or_waits(bool fails) {
  void* pointer = allocate(fails ? 1003 : 1002);
  co_await Pause{};
  if (fails) {
    CHECKED(cudaFree(pointer));
    fail();
  }
  co_await Pause{};
  CHECKED(cudaFree(pointer));
}
Lazy frees(bool fails) {
  struct Owner {
    void* pointer = allocate(1003);
    ~Owner() { CHECKED(cudaFree(pointer)); }
  } owner;
  co_await Pause{};
  if (fails) fail();
}
// A loop that throws and frees, beside memory of the program's own.
SUBJECT_FUNCTION void many_times() {
  for (int i = 0; i < 100; ++i) run(frees(true));
}

SUBJECT_FUNCTION void two_instances() {
  Lazy waits = fails_or_waits(false);
  waits.handle.resume();
  run(fails_or_waits(true));
  waits.handle.destroy();
}

SUBJECT_FUNCTION void* lends() {
  void* pointer = allocate(1002);
  run(borrows(pointer));
  return pointer;
}

}  // namespace

int main(int, char** argv) {
  const char* way = argv[1];
  const auto is = [&](const char* name) { return std::strcmp(way, name) == 0; };
  if (is("same_part")) run(same_part());
  if (is("at_once")) run(at_once());
  if (is("later_part")) run(later_part());
  if (is("at_once_and_later")) run(at_once_and_later());
  if (is("several")) run(several());
  if (is("parent")) run(parent());
  if (is("member")) run(Worker().work(1001));
  if (is("template")) run(of_template<long>(1001));
  const auto lambda = [](std::size_t bytes) -> Lazy {
    void* pointer = allocate(bytes);
    co_await Pause{};
    fail();
    CHECKED(cudaFree(pointer));
  };
  if (is("lambda")) run(lambda(1001));
  if (is("dropped")) {
    Lazy task = dropped();
    task.handle.resume();
    task.handle.destroy();
  }
  if (is("caught_inside")) {
    Lazy task = caught_inside();
    for (int i = 0; i < 2; ++i) task.handle.resume();
    task.handle.destroy();
  }
  if (is("borrows")) use(lends());
  if (is("two_instances")) two_instances();
  if (is("many_times")) many_times();
  return 0;
}
