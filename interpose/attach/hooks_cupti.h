// The rows of hooks.def as observers of calls that CUPTI reports.
#pragma once

#include <cuda.h>

#include "interpose/driver/api.h"

namespace culprit {

// The callbacks of a row of hooks.def for a call that CUPTI reports: `parameters` is the call's parameters as a struct.
struct CallObserver {
  void (*enter)(const void* parameters);                  // nullptr = nothing
  void (*exit)(const void* parameters, CUresult status);  // nullptr = the row is not observed
};
CallObserver call_observer(Api api);

}  // namespace culprit
