// Arithmetic with the arguments of a call, which are the program's: a result that does not fit is the largest number.
#pragma once

#include <cstdint>

namespace culprit {

inline std::uint64_t saturating_product(std::uint64_t left, std::uint64_t right) {
  std::uint64_t product;
  return __builtin_mul_overflow(left, right, &product) ? ~std::uint64_t{0} : product;
}

inline std::uint64_t saturating_sum(std::uint64_t left, std::uint64_t right) {
  std::uint64_t sum;
  return __builtin_add_overflow(left, right, &sum) ? ~std::uint64_t{0} : sum;
}

}  // namespace culprit
