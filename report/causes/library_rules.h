// Which libraries allocate GPU memory for themselves: workspaces of cuBLAS, buffers of NCCL. Their users cannot free
// it, so it is listed in a section of its own and counted only with --strict.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

namespace culprit::report {

struct Frame;
struct Module;
struct ResolvedStack;

// The library that made this allocation for itself ("cuBLAS"), judged by the frames next to the call. Empty: none of
// the shipped rules matches, so the allocation is the program's own.
std::string owning_library(const ResolvedStack& stack);

// owning_library() for many stacks: caches the results for modules and frames. Not thread-safe.
class LibraryRules {
 public:
  std::string owning_library(const ResolvedStack& stack);

 private:
  std::size_t rule_of_module(const Module* module);
  std::size_t rule_of_function(const Frame* frame);

  std::unordered_map<const Module*, std::size_t> modules_;  // -> first matching rule
  std::unordered_map<const Frame*, std::size_t> functions_;
};

// Whether the frame lies in a library of the rules, or is a public function of one.
bool is_known_library(const Frame& frame);

}  // namespace culprit::report
