// Shared by the subjects. A subject shows one behaviour; anything unexpected ends it with exit code 3 and a message, so
// that a failed subject is never mistaken for one without leaks.
#pragma once

#include <stdio.h>
#include <stdlib.h>

// Keeps a function in the stack under its own name: never inlined, never cloned into name.part.0.
#define SUBJECT_FUNCTION __attribute__((noinline, noclone))

// Ends the program unless `call`, a CUresult or a cudaError_t, is 0.
#define CHECKED(call)                                                                      \
  do {                                                                                     \
    const int checked_code = (int)(call);                                                  \
    if (checked_code != 0) {                                                               \
      fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, checked_code); \
      exit(3);                                                                             \
    }                                                                                      \
  } while (0)

// Ends the program unless `call` returned exactly `code`.
#define EXPECTED(code, call)                                                                                    \
  do {                                                                                                          \
    const int checked_code = (int)(call);                                                                       \
    if (checked_code != (int)(code)) {                                                                          \
      fprintf(stderr, "%s:%d: %s returned %d, not %d\n", __FILE__, __LINE__, #call, checked_code, (int)(code)); \
      exit(3);                                                                                                  \
    }                                                                                                           \
  } while (0)
