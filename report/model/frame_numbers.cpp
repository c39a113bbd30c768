#include "report/model/frame_numbers.h"

#include "report/model/frames.h"

namespace culprit::report {

std::size_t FrameNumbers::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = (key.at ^ std::uint64_t{key.first} << 40 ^ std::uint64_t{key.second} << 20);
  hash *= 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 32;
}

// 0 is the number of the empty text.
std::uint32_t FrameNumbers::number_of(const std::string& text) {
  if (text.empty()) return 0;
  return texts_.try_emplace(text, static_cast<std::uint32_t>(texts_.size() + 1)).first->second;
}

void FrameNumbers::number(Frame* frame) {
  auto number_in = [](Numbers* numbers, const Key& key) {
    return numbers->try_emplace(key, static_cast<std::uint32_t>(numbers->size())).first->second;
  };
  static const std::string kNoModule;
  // Compilers that unroll loops or copy tails make several addresses for one line.
  const bool has_line = frame->line != 0;
  frame->place = number_in(
      &places_, {has_line ? frame->line : frame->offset, has_line ? number_of(frame->file) : 0, has_line ? 1U : 0U});
  frame->code = number_in(&codes_, {frame->place, number_of(frame->module != nullptr ? frame->module->path : kNoModule),
                                    number_of(frame->function)});
}

}  // namespace culprit::report
