// Three buffers, and what each mode does when the second or the third cannot be had:
//   clean   frees what it has, whichever fails
//   leak    forgets the first buffer when the second fails
//   crash   writes to address 0 when the second fails
//   hang    waits for ever when the second fails
//   double  frees the first buffer twice when the third fails
//   exit    ends by exit() in a function, whichever fails
//   grow    leaks one of its first buffers always, and another one when the second fails
//   failing like clean, and ends with 5
#include <cuda_runtime_api.h>
#include <string.h>
#include <unistd.h>

#include "tests/subjects/check.h"

static const char* mode = "";

static bool is(const char* name) { return strcmp(mode, name) == 0; }

SUBJECT_FUNCTION void give_up() { exit(4); }

SUBJECT_FUNCTION void* make_first() {
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, 11001) != cudaSuccess && is("exit")) give_up();
  return pointer;
}

SUBJECT_FUNCTION bool second_fails(void* first) {
  if (is("exit")) give_up();
  if (is("crash")) *const_cast<volatile int*>(reinterpret_cast<int*>(first == nullptr)) = 1;
  while (is("hang")) pause();
  if (!is("leak") && !is("grow")) cudaFree(first);
  return false;
}

SUBJECT_FUNCTION bool build() {
  void* first = make_first();
  if (first == nullptr) return false;
  void* second = nullptr;
  if (cudaMallocAsync(&second, 22002, nullptr) != cudaSuccess) return second_fails(first);
  void* third = nullptr;
  bool good = cudaMallocHost(&third, 33003) == cudaSuccess;
  if (!good && is("exit")) give_up();
  if (good) cudaFreeHost(third);
  if (!good && is("double")) cudaFree(first);
  cudaFreeAsync(second, nullptr);
  cudaFree(first);
  return good;
}

int main(int count, char** words) {
  if (count > 1) mode = words[1];
  if (is("grow")) make_first();
  puts(build() ? "built" : "not built");
  return is("failing") ? 5 : 0;
}
