// An engine that gives its memory back for a time, as vLLM's sleep mode does, and keeps some by mistake. The argument
// names the calls: see main().
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "interpose/include/culprit.h"
#include "tests/subjects/check.h"

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::vector<void*> weights, cache, graphs;

void set(const char* name) {
  const int result = culprit_mark_with_bytes(name);
  if (culprit_version() != 0) EXPECTED(0, result);
}

void give_back(std::vector<void*>* list, std::size_t keep = 0) {
  for (; list->size() > keep; list->pop_back()) CHECKED(cudaFree(list->back()));
}

}  // namespace

SUBJECT_FUNCTION void load_weights() {
  for (int i = 0; i < 3; ++i) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 4 * kMiB));
    weights.push_back(pointer);
  }
}

SUBJECT_FUNCTION void make_cache() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 16 * kMiB));
  cache.push_back(pointer);
}

SUBJECT_FUNCTION void capture_graph() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, kMiB));
  graphs.push_back(pointer);
}

namespace {

// The cache and two of three weights are given back; the buffer of a graph is forgotten.
void sleep_once() {
  load_weights();
  make_cache();
  set("awake");
  give_back(&cache);
  give_back(&weights, 1);
  capture_graph();
  set("asleep");
}

// Twice: one more buffer is kept each time.
void sleep_twice() {
  sleep_once();
  load_weights();
  make_cache();
  give_back(&cache);
  give_back(&weights, 1);
  capture_graph();
  set("asleep");
}

void set_many() {
  for (int i = 1; i <= 40; ++i) {
    capture_graph();
    set(i % 2 == 0 ? "even" : "odd");
  }
}

SUBJECT_FUNCTION void* allocate_small() {
  void* pointer = nullptr;
  CHECKED(cudaMallocAsync(&pointer, 512, nullptr));
  return pointer;
}

// Threads that allocate and free all the time: the sums never have more than what is kept and one of each thread.
void set_beside_threads() {
  load_weights();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop) CHECKED(cudaFreeAsync(allocate_small(), nullptr));
    });
  }
  for (int i = 0; i < 200; ++i) set("beside");
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// `count` live allocations, and how long the mark takes.
void measure(int count) {
  for (int i = 0; i < count; ++i) allocate_small();
  double least = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    set("measured");
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (took.count() < least) least = took.count();
  }
  printf("%d live allocations: %.3f ms\n", count, least);
}

void set_and_fork() {
  load_weights();
  set("parent");
  if (fork() == 0) {
    capture_graph();
    set("child");
    exit(0);
  }
  CHECKED(wait(nullptr) < 0);
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "once") sleep_once();
  if (what == "twice") sleep_twice();
  if (what == "many") set_many();
  if (what == "threads") set_beside_threads();
  if (what == "measure") measure(atoi(argv[2]));
  if (what == "fork") set_and_fork();
  if (what == "early") {
    set("start");
    load_weights();
  }
  if (what == "plain") {
    load_weights();
    culprit_mark("plain");
  }
  if (what == "repeated") {
    for (int i = 0; i < 3; ++i) {
      culprit_mark("step");
      capture_graph();
    }
  }
  if (what == "version") {
    printf("version %d, %d, %s\n", culprit_version(), culprit_mark_with_bytes("old"),
           culprit_mark_with_bytes(nullptr) == 0 ? "named" : "refused");
    culprit_region_add(argv, 1, "no such function in an older library");
    culprit_region_resize(argv, 2);
    culprit_region_end(argv);
  }
  return 0;
}
