// For subjects whose pointers are to be where the subject says, and nowhere else.
#pragma once

#include "tests/subjects/check.h"

// Overwrites what calls have left below the stack pointer.
SUBJECT_FUNCTION inline void clear_stack() {
  volatile char room[65536];
  for (volatile char& byte : room) byte = 0;
}
