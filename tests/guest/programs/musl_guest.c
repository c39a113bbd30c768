// A program that is linked with another libc. With an argument it calls CUDA, else it uses only threads and memory.
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUcontext context;

static void* use_cuda(void* count) {
  CUdeviceptr memory = 0;
  if (cuCtxSetCurrent(context) != 0) return NULL;
  for (int i = 0; i < *(int*)count; ++i) {
    if (cuMemAlloc(&memory, 512) != 0 || cuMemFree(memory) != 0) return NULL;
  }
  return count;
}

static void* use_memory(void* count) {
  char* memory = malloc(100000);
  memset(memory, 1, 100000);
  free(memory);
  return count;
}

int main(int argc, char** argv) {
  pthread_t threads[4];
  int count = 1000;
  (void)argv;
  if (argc > 1 && (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0)) return 3;
  for (int i = 0; i < 4; ++i) {
    if (pthread_create(&threads[i], NULL, argc > 1 ? use_cuda : use_memory, &count) != 0) return 3;
  }
  for (int i = 0; i < 4; ++i) {
    void* result = NULL;
    if (pthread_join(threads[i], &result) != 0 || result != &count) return 3;
  }
  printf("four threads ended\n");
  return 7;
}
