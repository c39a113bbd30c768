// A named thread leaks and ends; a second one leaks and is still there when the program ends.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_in_ended_thread() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

SUBJECT_FUNCTION void leak_in_living_thread() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
}

int main() {
  std::thread([] {
    pthread_setname_np(pthread_self(), "worker-ended");
    leak_in_ended_thread();
  }).join();
  std::promise<void> leaked;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "worker-alive");
    leak_in_living_thread();
    leaked.set_value();
    pause();
  }).detach();
  leaked.get_future().wait();
  return 0;
}
