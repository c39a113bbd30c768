// The parent allocates 11001 bytes and frees them properly; a child, forked before the first CUDA call of either, opens
// the memory through its IPC handle and leaves the mapping open. Exit code 77: this driver does not support IPC.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION int open_in_child(const cudaIpcMemHandle_t& handle) {
  void* opened = nullptr;
  return cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess ? 0 : 77;
}

int main() {
  int to_child[2];
  cudaIpcMemHandle_t handle = {};
  if (pipe(to_child) != 0) return 3;
  const pid_t child = fork();
  if (child == 0) {
    if (read(to_child[0], &handle, sizeof handle) != sizeof handle) return 4;
    return open_in_child(handle);
  }
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  const bool exported = cudaIpcGetMemHandle(&handle, pointer) == cudaSuccess;
  if (exported && write(to_child[1], &handle, sizeof handle) != sizeof handle) return 3;
  close(to_child[1]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECKED(cudaFree(pointer));
  return exported && WIFEXITED(status) ? WEXITSTATUS(status) : 77;
}
