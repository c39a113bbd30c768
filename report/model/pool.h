// A caching allocator of a framework.
#pragma once

namespace culprit::report {

struct Pool {
  const char* name;  // "PyTorch caching allocator"
  const char* hint;  // advice for the user; nullptr: none
};

}  // namespace culprit::report
