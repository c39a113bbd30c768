#include "report/select/pattern_index.h"

#include <algorithm>

namespace culprit::report {
namespace {

// Of a literal. More would find hardly fewer candidates.
constexpr std::size_t kLongestLiteral = 64;

// The pattern with "*" for the ends that it is not tied to.
std::string glob_of(const std::string& pattern) {
  std::string glob = pattern;
  const bool at_begin = !glob.empty() && glob.front() == '^';
  if (at_begin) glob.erase(0, 1);
  const bool at_end = !glob.empty() && glob.back() == '$';
  if (at_end) glob.pop_back();
  if (!at_begin) glob.insert(0, "*");
  if (!at_end) glob += '*';
  return glob;
}

// Calls use(literal) for each text between two stars.
template <typename Use>
void for_each_literal(std::string_view glob, Use use) {
  while (!glob.empty()) {
    const std::string_view literal = glob.substr(0, glob.find('*'));
    if (!literal.empty()) use(literal.substr(0, kLongestLiteral));
    glob.remove_prefix(std::min(glob.size(), literal.size() + 1));
  }
}

// The usual glob matching with one backtracking point: the last '*' takes one character more.
bool matches_glob(std::string_view glob, std::string_view text, std::uint64_t* steps) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  for (; t < text.size(); ++*steps) {
    if (p < glob.size() && glob[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < glob.size() && glob[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < glob.size() && glob[p] == '*') ++p;
  return p == glob.size();
}

std::uint64_t child_key(std::uint32_t node, char c) { return std::uint64_t{node} << 8 | static_cast<unsigned char>(c); }

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& text) {
  std::uint64_t steps = 0;
  return matches_glob(glob_of(pattern), text, &steps);
}

PatternIndex::PatternIndex() : nodes_(1) {}

std::uint32_t PatternIndex::child(std::uint32_t node, char c) const {
  const auto known = children_.find(child_key(node, c));
  return known == children_.end() ? 0 : known->second;
}

std::uint32_t PatternIndex::add(const std::string& pattern) {
  globs_.push_back(glob_of(pattern));
  return static_cast<std::uint32_t>(globs_.size() - 1);
}

void PatternIndex::add_to_tree(std::string_view literal, std::uint32_t number) {
  std::uint32_t node = 0;
  for (const char c : literal) {
    const auto [at, added] = children_.try_emplace(child_key(node, c), static_cast<std::uint32_t>(nodes_.size()));
    if (added) nodes_.emplace_back();
    node = at->second;
  }
  nodes_[node].patterns.push_back(number);
}

void PatternIndex::build() {
  // The literal that the fewest patterns have finds the fewest candidates; of those the longest.
  std::unordered_map<std::string_view, std::uint32_t> uses;
  for (const std::string& glob : globs_) for_each_literal(glob, [&](std::string_view literal) { ++uses[literal]; });
  for (std::uint32_t number = 0; number < globs_.size(); ++number) {
    const std::string& glob = globs_[number];
    std::string_view best;
    for_each_literal(glob, [&](std::string_view literal) {
      const bool rarer = best.empty() || uses[literal] < uses[best];
      if (rarer || (uses[literal] == uses[best] && literal.size() > best.size())) best = literal;
    });
    if (glob.find('*') == std::string::npos) {
      whole_[glob].push_back(number);
    } else if (best.empty()) {
      always_.push_back(number);
    } else {
      add_to_tree(best, number);
    }
  }
  connect();
}

void PatternIndex::connect() {
  // Shorter beginnings first: a node's `fail` is shorter than the node.
  std::vector<std::vector<std::pair<char, std::uint32_t>>> children(nodes_.size());
  for (const auto& [key, node] : children_) children[key >> 8].emplace_back(static_cast<char>(key & 0xff), node);
  std::vector<std::uint32_t> order = {0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t node = order[i];
    for (const auto& [c, to] : children[node]) {
      order.push_back(to);
      if (node == 0) continue;
      std::uint32_t fail = nodes_[node].fail;
      while (fail != 0 && child(fail, c) == 0) fail = nodes_[fail].fail;
      fail = child(fail, c);
      nodes_[to].fail = fail;
      nodes_[to].next = nodes_[fail].patterns.empty() ? nodes_[fail].next : fail;
    }
  }
}

void PatternIndex::take(const std::vector<std::uint32_t>& patterns) {
  found_.insert(found_.end(), patterns.begin(), patterns.end());
}

const std::vector<std::uint32_t>& PatternIndex::candidates(std::string_view text) {
  ++scan_;
  found_ = always_;
  if (!whole_.empty()) {
    const auto whole = whole_.find(std::string(text));
    if (whole != whole_.end()) take(whole->second);
  }
  if (nodes_.size() > 1) {
    std::uint32_t node = 0;
    for (const char c : text) {
      std::uint32_t to = child(node, c);
      while (to == 0 && node != 0) {
        node = nodes_[node].fail;
        to = child(node, c);
      }
      node = to;
      for (std::uint32_t at = node; at != 0 && nodes_[at].scan != scan_; at = nodes_[at].next) {
        nodes_[at].scan = scan_;
        take(nodes_[at].patterns);
      }
    }
  }
  std::sort(found_.begin(), found_.end());
  return found_;
}

bool PatternIndex::matches(std::uint32_t number, std::string_view text) {
  ++steps_;
  return matches_glob(globs_[number], text, &steps_);
}

}  // namespace culprit::report
