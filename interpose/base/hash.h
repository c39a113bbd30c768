// Hashing for the private tables. Results are equal in all processes of one version of culprit; no file format depends
// on them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

// Mixes all bits of `value` into all bits of the result (the finalizer of MurmurHash3, public domain).
inline std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 33;
  value *= 0xff51afd7ed558ccdULL;
  value ^= value >> 33;
  value *= 0xc4ceb9fe1a85ec53ULL;
  value ^= value >> 33;
  return value;
}

// One multiplication (Knuth's Fibonacci hashing): only the upper bits are well mixed. For the tables that every call
// uses.
inline std::uint64_t quick_hash(std::uint64_t value) { return value * 0x9e3779b97f4a7c15ULL; }

inline std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* byte = static_cast<const unsigned char*>(data);
  std::uint64_t hash = mix(seed ^ 0x9e3779b97f4a7c15ULL);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3ULL;
  return mix(hash);
}

// One multiplication per word, so that hashing 40 return addresses costs about as much as reading them.
inline std::uint64_t hash_words(const std::uint64_t* words, int count, std::uint64_t seed) {
  std::uint64_t hash = seed ^ (static_cast<std::uint64_t>(count) * 0x9e3779b97f4a7c15ULL);
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0xff51afd7ed558ccdULL;
    hash = (hash << 29) | (hash >> 35);
  }
  return mix(hash);
}

}  // namespace culprit
