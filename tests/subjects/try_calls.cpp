// Makes one call per argument and prints the results: "alloc=0 copy=700 ...". Frees its memory at the end. "there"
// allocates from another function than "alloc"; "fork" goes on in a child.
#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "tests/subjects/check.h"

static std::vector<void*> device;
static std::vector<void*> host;

SUBJECT_FUNCTION int allocate_here() {
  void* pointer = nullptr;
  int code = cudaMalloc(&pointer, 11001);
  if (code == 0) device.push_back(pointer);
  return code;
}

SUBJECT_FUNCTION int allocate_there() {
  void* pointer = nullptr;
  int code = cudaMalloc(&pointer, 22002);
  if (code == 0) device.push_back(pointer);
  return code;
}

SUBJECT_FUNCTION int allocate_on_stream() {
  void* pointer = nullptr;
  int code = cudaMallocAsync(&pointer, 11001, nullptr);
  if (code == 0) device.push_back(pointer);
  return code;
}

SUBJECT_FUNCTION int allocate_on_host() {
  void* pointer = nullptr;
  int code = cudaMallocHost(&pointer, 11001);
  if (code == 0) host.push_back(pointer);
  return code;
}

SUBJECT_FUNCTION int do_call(const char* what) {
  char bytes[16] = {};
  void* target = device.empty() ? nullptr : device.back();
  if (strcmp(what, "alloc") == 0) return allocate_here();
  if (strcmp(what, "there") == 0) return allocate_there();
  if (strcmp(what, "async") == 0) return allocate_on_stream();
  if (strcmp(what, "host") == 0) return allocate_on_host();
  if (strcmp(what, "copy") == 0) return cudaMemcpy(target, bytes, sizeof(bytes), cudaMemcpyHostToDevice);
  if (strcmp(what, "back") == 0) return cudaMemcpy(bytes, target, sizeof(bytes), cudaMemcpyDeviceToHost);
  if (strcmp(what, "set") == 0) return cudaMemset(target, 1, sizeof(bytes));
  if (strcmp(what, "sync") == 0) return cudaDeviceSynchronize();
  if (strcmp(what, "free") == 0) {
    int code = cudaFree(target);
    if (code == 0 && !device.empty()) device.pop_back();
    return code;
  }
  fprintf(stderr, "no such call: %s\n", what);
  exit(3);
}

int main(int count, char** words) {
  for (int i = 1; i < count; ++i) {
    if (strcmp(words[i], "fork") == 0) {
      fflush(stdout);
      pid_t child = fork();
      if (child == 0) {
        device.clear();
        host.clear();
        printf("child ");
        continue;
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0) return 3;
      break;
    }
    printf("%s=%d%s", words[i], do_call(words[i]), i + 1 == count ? "\n" : " ");
  }
  for (void* pointer : device) CHECKED(cudaFree(pointer));
  for (void* pointer : host) CHECKED(cudaFreeHost(pointer));
  return 0;
}
