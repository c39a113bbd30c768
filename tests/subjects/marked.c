/* culprit.h in C. */
#include "interpose/include/culprit.h"

#include <cuda_runtime_api.h>

#include "tests/subjects/check.h"

int main(void) {
  void* pointer = NULL;
  culprit_mark_push("from C");
  CHECKED(cudaMalloc(&pointer, 11001));
  culprit_mark_pop();
  printf("%llu\n", (unsigned long long)culprit_live_bytes());
  return 0;
}
