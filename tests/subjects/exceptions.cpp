// Exceptions that leak memory, and exceptions that do not: one mode each, named by the first argument. Each size is
// allocated at one place only. Built with g++ and clang++, -O0 and -O2, shared and static cudart.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

// In a function of its own where a mode does not say otherwise: the allocation is its caller's.
#define ALLOCATE(pointer, bytes) CHECKED(cudaMalloc(&pointer, bytes))

void* kept;
std::vector<void*> kept_on_heap;
int one = 1;  // unknown to the compiler, so that a condition on it is not constant

__attribute__((constructor)) void forget_constant() {
  if (getenv("EXCEPTIONS_ONE") != nullptr) one = 2;
}

struct Guard {
  void* pointer = nullptr;
  ~Guard() { cudaFree(pointer); }
};

struct Noisy {
  std::string text = "a local with a destructor, too long to be stored inside";
  ~Noisy() { kept_on_heap.reserve(text.size()); }
};

struct Plain {};  // no std::exception
struct Left {
  virtual ~Left() = default;
  int number = 7;
};
struct Custom : Left, virtual std::exception {
  const char* what() const noexcept override { return "custom"; }
};

SUBJECT_FUNCTION void check_residual() {
  if (one == 1) throw std::runtime_error("residual is NaN");
}

SUBJECT_FUNCTION void step() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1001);
  check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void callee() {
  try {
    step();
  } catch (const std::runtime_error& error) {
    puts(error.what());
  }
}

SUBJECT_FUNCTION void same_function() {
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 1101);
    if (one == 1) throw std::logic_error("plain");
    CHECKED(cudaFree(buffer));
  } catch (const std::exception& error) {
    puts(error.what());
  }
}

SUBJECT_FUNCTION void same_function_destructor() {
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 1201);
    Noisy noisy;
    if (one == 1) throw std::logic_error(noisy.text);
    CHECKED(cudaFree(buffer));
  } catch (const std::exception&) {
    puts("caught");
  }
}

SUBJECT_FUNCTION void same_function_call() {
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 1251);
    Noisy noisy;
    check_residual();
    CHECKED(cudaFree(buffer));
  } catch (...) {
    puts("caught");
  }
}

// Allocated before the try block: the catching function can still free it, but does not.
SUBJECT_FUNCTION void before_try() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1301);
  try {
    check_residual();
  } catch (const std::exception&) {
    kept = buffer;
  }
  void* other = nullptr;
  ALLOCATE(other, 1302);
  kept_on_heap.push_back(other);
}

// Two try blocks in a row: the first one's memory is unrelated to the second one's exception.
SUBJECT_FUNCTION void two_blocks() {
  void* buffer = nullptr;
  try {
    ALLOCATE(buffer, 1401);
  } catch (const std::exception&) {
    puts("never");
  }
  kept_on_heap.push_back(buffer);
  try {
    if (one == 1) throw std::runtime_error("second");
  } catch (const std::exception& error) {
    puts(error.what());
  }
}

SUBJECT_FUNCTION void nested_blocks() {
  try {
    void* outer = nullptr;
    ALLOCATE(outer, 1501);
    try {
      void* inner = nullptr;
      ALLOCATE(inner, 1502);
      if (one == 1) throw std::runtime_error("not for the inner handler");
      CHECKED(cudaFree(inner));
    } catch (const std::logic_error&) {
      puts("never");
    }
    CHECKED(cudaFree(outer));
  } catch (const std::exception&) {
    puts("outer");
  }
}

// Caught by the inner handler: the outer block goes on.
SUBJECT_FUNCTION void inner_block() {
  try {
    void* outer = nullptr;
    ALLOCATE(outer, 1551);
    kept_on_heap.push_back(outer);
    try {
      void* inner = nullptr;
      ALLOCATE(inner, 1552);
      if (one == 1) throw std::runtime_error("for the inner handler");
      CHECKED(cudaFree(inner));
    } catch (const std::runtime_error&) {
      puts("inner");
    }
    check_residual();
  } catch (const std::logic_error&) {
    puts("never");
  } catch (...) {
    puts("the second one");
  }
}

SUBJECT_FUNCTION int recurse(int depth) {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1601);
  if (depth == 0) {
    check_residual();
    return 0;
  }
  int result = recurse(depth - 1) + 1;
  CHECKED(cudaFree(buffer));
  return result;
}
SUBJECT_FUNCTION void recursion() {
  try {
    recurse(3);
  } catch (const std::exception&) {
    puts("caught");
  }
}

// Recursion that is caught half way: the outer levels go on.
SUBJECT_FUNCTION int recurse_and_catch(int depth) {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1651);
  int result = 1;
  if (depth == 0) {
    check_residual();
  } else if (depth == 2) {
    try {
      result += recurse_and_catch(depth - 1);
    } catch (const std::exception&) {
      puts("half way");
    }
  } else {
    result += recurse_and_catch(depth - 1);
  }
  CHECKED(cudaFree(buffer));
  return result;
}
SUBJECT_FUNCTION void recursion_half_way() { recurse_and_catch(4); }

SUBJECT_FUNCTION void rethrow_inside() {
  try {
    check_residual();
  } catch (...) {
    throw;
  }
}
SUBJECT_FUNCTION void rethrow_through() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1701);
  rethrow_inside();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void rethrow() {
  try {
    rethrow_through();
  } catch (const std::exception& error) {
    puts(error.what());
  }
}

SUBJECT_FUNCTION void wrap() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1751);
  try {
    check_residual();
  } catch (const std::exception&) {
    std::throw_with_nested(std::logic_error("while solving"));
  }
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void nested_exception() {
  try {
    wrap();
  } catch (const std::exception& error) {
    try {
      std::rethrow_if_nested(error);
    } catch (const std::exception& inner) {
      puts(inner.what());
    }
  }
}

SUBJECT_FUNCTION void throw_moved(const std::exception_ptr& moved) {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1802);
  std::rethrow_exception(moved);
}
SUBJECT_FUNCTION void throw_in_thread() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1801);
  check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void moved_exception() {
  std::exception_ptr moved;
  std::thread([&] {
    try {
      throw_in_thread();
    } catch (...) {
      moved = std::current_exception();
    }
  }).join();
  try {
    throw_moved(moved);
  } catch (const std::exception& error) {
    puts(error.what());
  }
}

SUBJECT_FUNCTION void catches_itself() {
  try {
    check_residual();
  } catch (const std::exception&) {
    puts("inside");
  }
}
SUBJECT_FUNCTION void caught_in_callee() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 1901);
  catches_itself();
  kept_on_heap.push_back(buffer);
}

SUBJECT_FUNCTION void guarded() {
  Guard guard;
  ALLOCATE(guard.pointer, 2001);
  check_residual();
}
SUBJECT_FUNCTION void freed_by_guard() {
  void* live = nullptr;
  ALLOCATE(live, 2002);
  try {
    guarded();
  } catch (const std::exception&) {
    puts("caught");
  }
  kept_on_heap.push_back(live);
}

SUBJECT_FUNCTION void hand_out(void** out) {
  ALLOCATE(*out, 2101);
  check_residual();
}
SUBJECT_FUNCTION void freed_later() {
  void* out = nullptr;
  try {
    hand_out(&out);
  } catch (const std::exception&) {
    puts("caught");
  }
  CHECKED(cudaFree(out));
}

// Other memory of the owner's callers is freed while the frames are unwound, after the inner ones are gone.
SUBJECT_FUNCTION void freed_on_the_way_inner() {
  void* buffers[3];
  for (void*& buffer : buffers) ALLOCATE(buffer, 2201);
  check_residual();
  for (void* buffer : buffers) CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void freed_on_the_way_outer() {
  Guard guard;
  ALLOCATE(guard.pointer, 2202);
  freed_on_the_way_inner();
}
SUBJECT_FUNCTION void freed_on_the_way() {
  try {
    freed_on_the_way_outer();
  } catch (const std::exception&) {
    puts("caught");
  }
}

SUBJECT_FUNCTION void* make(bool fail) {
  void* buffer = nullptr;
  ALLOCATE(buffer, 2301);
  if (fail) check_residual();
  return buffer;
}
// Earlier calls of the same function handed their memory on to their caller.
SUBJECT_FUNCTION void earlier_calls() {
  for (int i = 0; i < 5; ++i) kept_on_heap.push_back(make(false));
  try {
    kept_on_heap.push_back(make(true));
  } catch (const std::exception&) {
    puts("caught");
  }
}
// earlier_calls() with a CUDA call of the caller in between, which proves that the earlier calls had returned.
SUBJECT_FUNCTION void earlier_calls_proven() {
  for (int i = 0; i < 5; ++i) {
    kept_on_heap.push_back(make(false));
    void* other = nullptr;
    ALLOCATE(other, 2302);
    CHECKED(cudaFree(other));
  }
  try {
    kept_on_heap.push_back(make(true));
  } catch (const std::exception&) {
    puts("caught");
  }
}

// earlier_calls() from one place: only the variable of the last call tells the calls apart.
SUBJECT_FUNCTION void earlier_calls_same_place() {
  for (int i = 0; i < 6; ++i) {
    try {
      kept_on_heap.push_back(make(i == 5));
    } catch (const std::exception&) {
      puts("caught");
    }
  }
}

SUBJECT_FUNCTION void fail_in_loop(int i) {
  void* buffer = nullptr;
  ALLOCATE(buffer, 2401);
  if (i % 4 == 3) check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void some_calls() {
  for (int i = 0; i < 12; ++i) {
    try {
      fail_in_loop(i);
    } catch (const std::exception&) {
      puts("caught");
    }
  }
}

SUBJECT_FUNCTION void other_types() {
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 2501);
    if (one == 1) throw 42;
    CHECKED(cudaFree(buffer));
  } catch (int) {
    puts("int");
  }
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 2502);
    if (one == 1) throw Plain();
    CHECKED(cudaFree(buffer));
  } catch (const Plain&) {
    puts("plain");
  }
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 2503);
    if (one == 1) throw Custom();
    CHECKED(cudaFree(buffer));
  } catch (const std::exception& error) {
    puts(error.what());
  }
  try {
    void* buffer = nullptr;
    ALLOCATE(buffer, 2504);
    if (one == 1) throw "text";
    CHECKED(cudaFree(buffer));
  } catch (const char* text) {
    puts(text);
  }
}

SUBJECT_FUNCTION void fail_deep(int depth) {
  if (depth == 0) {
    check_residual();
  } else {
    fail_deep(depth - 1);
  }
  kept = nullptr;
}
SUBJECT_FUNCTION void deep_owner() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 2601);
  fail_deep(90);
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void call_deep(int depth) {
  if (depth == 0) {
    deep_owner();
  } else {
    call_deep(depth - 1);
  }
  kept = nullptr;
}
SUBJECT_FUNCTION void deep_stacks() {
  void* live = nullptr;
  ALLOCATE(live, 2602);
  kept_on_heap.push_back(live);
  try {
    call_deep(100);
  } catch (const std::exception&) {
    puts("caught");
  }
}

int compare_and_throw(const void*, const void*) {
  check_residual();
  return 0;
}
SUBJECT_FUNCTION void sort_and_throw() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 2701);
  int numbers[] = {2, 1};
  qsort(numbers, 2, sizeof(int), compare_and_throw);
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void c_frames() {
  try {
    sort_and_throw();
  } catch (const std::exception&) {
    puts("caught");
  }
}

SUBJECT_FUNCTION void in_child() {
  void* parents = nullptr;
  ALLOCATE(parents, 2801);
  pid_t child = fork();
  if (child == 0) {
    // A child that throws before it calls CUDA, and one that has a context of its own to call.
    callee();
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECKED(cudaFree(parents));
}

// Memory that a destructor allocates during unwinding was not abandoned by that exception.
struct AllocatesAtEnd {
  ~AllocatesAtEnd() {
    void* late = nullptr;
    ALLOCATE(late, 2901);
    kept_on_heap.push_back(late);
    catches_itself();
  }
};
SUBJECT_FUNCTION void destructor_frames() {
  AllocatesAtEnd late;
  void* buffer = nullptr;
  ALLOCATE(buffer, 2902);
  check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void made_while_unwinding() {
  try {
    destructor_frames();
  } catch (const std::exception&) {
    puts("caught");
  }
}

SUBJECT_FUNCTION void never_caught() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 3001);
  check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void must_not_throw() noexcept { never_caught(); }
SUBJECT_FUNCTION void noexcept_function() {
  try {
    Guard guard;
    must_not_throw();
  } catch (...) {
    puts("never");
  }
}
struct ThrowsAtEnd {
  ~ThrowsAtEnd() noexcept(false) {
    if (one == 1) throw std::logic_error("second");
  }
};
SUBJECT_FUNCTION void second_exception() {
  ThrowsAtEnd second;
  never_caught();
}
SUBJECT_FUNCTION void throw_while_unwinding() {
  try {
    second_exception();
  } catch (...) {
    puts("never");
  }
}

// A library that turns exceptions into error codes, as extension modules of Python do; it throws, too, and is unloaded.
SUBJECT_FUNCTION void call_back() {
  void* buffer = nullptr;
  ALLOCATE(buffer, 3101);
  check_residual();
  CHECKED(cudaFree(buffer));
}
SUBJECT_FUNCTION void library(const char* path, bool unload) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  auto guarded_call = reinterpret_cast<int (*)(void (*)())>(dlsym(handle, "guarded_call"));
  auto throw_and_keep = reinterpret_cast<void (*)()>(dlsym(handle, "throw_and_keep"));
  void* mine = nullptr;
  ALLOCATE(mine, 3102);
  kept_on_heap.push_back(mine);
  printf("%d\n", guarded_call(call_back));
  try {
    throw_and_keep();
  } catch (const std::exception& error) {
    puts(error.what());
  }
  if (unload && dlclose(handle) != 0) exit(3);
  void* late = nullptr;
  ALLOCATE(late, 3103);
  check_residual();
}
SUBJECT_FUNCTION void library_stays(const char* path) {
  try {
    library(path, false);
  } catch (const std::exception&) {
    puts("caught");
  }
}
SUBJECT_FUNCTION void library_goes(const char* path) {
  try {
    library(path, true);
  } catch (const std::exception&) {
    puts("caught");
  }
}

void catch_and_go_on(int) { catches_itself(); }
SUBJECT_FUNCTION void signal_handler() {
  signal(SIGUSR1, catch_and_go_on);
  void* buffer = nullptr;
  ALLOCATE(buffer, 3201);
  raise(SIGUSR1);
  kept_on_heap.push_back(buffer);
}

struct Mode {
  const char* name;
  void (*run)();
};
const Mode kModes[] = {{"callee", callee},
                       {"same_function", same_function},
                       {"same_function_destructor", same_function_destructor},
                       {"same_function_call", same_function_call},
                       {"before_try", before_try},
                       {"two_blocks", two_blocks},
                       {"nested_blocks", nested_blocks},
                       {"inner_block", inner_block},
                       {"recursion", recursion},
                       {"recursion_half_way", recursion_half_way},
                       {"rethrow", rethrow},
                       {"nested_exception", nested_exception},
                       {"moved_exception", moved_exception},
                       {"caught_in_callee", caught_in_callee},
                       {"freed_by_guard", freed_by_guard},
                       {"freed_later", freed_later},
                       {"freed_on_the_way", freed_on_the_way},
                       {"earlier_calls", earlier_calls},
                       {"earlier_calls_proven", earlier_calls_proven},
                       {"earlier_calls_same_place", earlier_calls_same_place},
                       {"some_calls", some_calls},
                       {"other_types", other_types},
                       {"deep_stacks", deep_stacks},
                       {"c_frames", c_frames},
                       {"in_child", in_child},
                       {"made_while_unwinding", made_while_unwinding},
                       {"never_caught", never_caught},
                       {"noexcept_function", noexcept_function},
                       {"throw_while_unwinding", throw_while_unwinding},
                       {"signal_handler", signal_handler}};

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  void* warm = nullptr;  // the runtime's own start is not part of any mode
  CHECKED(cudaMalloc(&warm, 8));
  CHECKED(cudaFree(warm));
  for (const Mode& known : kModes) {
    if (mode != known.name) continue;
    known.run();
    return 0;
  }
  if (mode == "library_stays" && argc > 2) return library_stays(argv[2]), 0;
  if (mode == "library_goes" && argc > 2) return library_goes(argv[2]), 0;
  fprintf(stderr, "unknown mode %s\n", mode.c_str());
  return 3;
}
