#include "report/render/json/frame_texts.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "report/base/json_output.h"
#include "report/model/frames.h"

namespace culprit::report {

std::string indented_text(const Json& value, std::size_t indent) {
  std::string text = json_text(value, 2);
  if (indent == 0) return text;
  std::string indented;
  indented.reserve(text.size() * 2);
  std::size_t begin = 0;
  // Only line breaks between values are found: inside of strings they are written as \n.
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    indented.append(text, begin, end + 1 - begin);
    indented.append(indent, ' ');
    begin = end + 1;
  }
  return indented.append(text, begin);
}

const std::string& FrameTexts::of(const Frame* frame) {
  Part& part = parts_[std::hash<const Frame*>()(frame) / sizeof(Frame) % parts_.size()];
  const std::lock_guard<std::mutex> lock(part.mutex);
  const auto [at, added] = part.texts.try_emplace(frame);
  if (added) at->second = std::string(indent_, ' ') + indented_text(to_json_(*frame), indent_);
  return at->second;
}

}  // namespace culprit::report
