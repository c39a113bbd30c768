// Numbers frames so that equal numbers mean equal in a report: cheap to compare for a hundred thousand stacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace culprit::report {

struct Frame;

// Sets Frame::place and Frame::code. Not thread-safe.
class FrameNumbers {
 public:
  void number(Frame* frame);

 private:
  struct Key {
    std::uint64_t at;
    std::uint32_t first;
    std::uint32_t second;
    bool operator==(const Key& other) const { return at == other.at && first == other.first && second == other.second; }
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  using Numbers = std::unordered_map<Key, std::uint32_t, KeyHash>;

  std::uint32_t number_of(const std::string& text);

  std::unordered_map<std::string, std::uint32_t> texts_;
  Numbers places_;
  Numbers codes_;
};

}  // namespace culprit::report
