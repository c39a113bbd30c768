// The variables of the environment that the library reads: the options, and a job's ranks.
//
// They are copied when the library is loaded, because a program may clear its environment before its first CUDA call. A
// variable that has a value later, when it is needed, counts with that value.
#pragma once

#include "interpose/system/environment.h"

namespace culprit {

// Call once, at load. `entries`: the array that the loader passes to the constructor, nullptr when other code has run
// before: that may have changed it, and there may be other threads. `remembers`: later looks are short as long as the
// environment stays as it is; this one takes some microseconds more.
void keep_variables(char* const* entries, bool remembers);

// The value at load, nullptr when the variable was not set then, or empty.
const char* value_at_load(const char* name);

// The variables as they are while it is made, in private memory. On the tracker's own stack only.
class Variables {
 public:
  // `pattern`: of a path that counts in place of CULPRIT_OUT; nullptr = none.
  explicit Variables(const char* pattern = nullptr);
  ~Variables();
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

  // The value now, or else at load; nullptr when the variable is not set, or empty. Also for variables that %q{NAME} in
  // the pattern, or else in the value of CULPRIT_OUT, names. Valid as long as this object.
  const char* value(const char* name) const;

  struct Copies;

 private:
  Copies* now_;
};

}  // namespace culprit
