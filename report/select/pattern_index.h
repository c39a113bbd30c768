// Which patterns of suppressions match a text, for thousands of patterns and texts: each text is scanned once for a
// literal part of every pattern (Aho and Corasick), and only patterns whose part occurs are compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace culprit::report {

// Whether `text` matches the pattern: "*" stands for any text, "^" and "$" tie it to the beginning and the end.
bool matches_pattern(const std::string& pattern, const std::string& text);

// Not thread-safe: a search uses memory of the index.
class PatternIndex {
 public:
  PatternIndex();

  // The number of the pattern: they are counted from 0.
  std::uint32_t add(const std::string& pattern);

  // Call once, after the last add().
  void build();

  // The numbers of the patterns that may match, increasing. All that do match are among them. Valid until the next
  // call.
  const std::vector<std::uint32_t>& candidates(std::string_view text);

  // Whether a candidate does match.
  bool matches(std::uint32_t number, std::string_view text);

  // Characters that matches() compared, in all calls.
  std::uint64_t steps() const { return steps_; }

 private:
  // A place in the tree of the literals: the beginning of some.
  struct Node {
    std::uint32_t fail = 0;  // the longest other beginning that ends here
    std::uint32_t next = 0;  // the longest of those that is a whole literal; 0: none
    std::uint64_t scan = 0;  // the search that came here last
    std::vector<std::uint32_t> patterns;
  };

  std::uint32_t child(std::uint32_t node, char c) const;
  void add_to_tree(std::string_view literal, std::uint32_t number);
  void connect();
  void take(const std::vector<std::uint32_t>& patterns);

  std::vector<std::string> globs_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;          // by node and character
  std::unordered_map<std::string, std::vector<std::uint32_t>> whole_;  // patterns of one text only
  std::vector<std::uint32_t> always_;                                  // patterns without a literal
  std::vector<std::uint32_t> found_;
  std::uint64_t scan_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace culprit::report
