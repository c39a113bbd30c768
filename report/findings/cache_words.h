// A framework's account of its cache, in words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/model/cache_inside.h"

namespace culprit::report {

// "5.86 MiB live · 2.14 MiB idle, when Python began to end".
std::string tensors_text(const CacheInside& inside);

// The first places of live tensors, a line each: "5.86 MiB  20x  train.py:7  step  held by `losses`".
std::vector<std::string> live_places(const CacheInside& inside);

// The first keepers, a line each: "513 MiB  autograd graph  `losses`, a list of 20 -> Tensor.grad_fn -> saved tensors".
std::vector<std::string> keeper_lines(const CacheInside& inside, std::size_t most);

}  // namespace culprit::report
