#include "report/base/json_input.h"

#include <nlohmann/json.hpp>

#include "report/base/input_file.h"
#include "report/base/text_width.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

// A file of culprit has some ten levels. Each level costs 64 bytes, so that a few megabytes of brackets would need a
// gigabyte.
constexpr int kDeepest = 100;

bool is_deep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_json(const std::string& text, std::string* problem) {
  if (is_deep(text)) {
    if (problem != nullptr) *problem = "its lists are nested too deeply";
    return Json(Json::value_t::discarded);
  }
  if (problem == nullptr) return Json::parse(text, nullptr, false);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    // The message repeats the last word, which may be long.
    constexpr std::size_t kLongest = 400;
    *problem = cut_to_bytes(error.what(), kLongest);
  }
  return Json(Json::value_t::discarded);
}

Json read_json(const std::string& path, std::size_t* bytes, std::string* problem) {
  const std::string text = read_input(path);
  if (bytes != nullptr) *bytes = text.size();
  return parse_json(text, problem);
}

std::uint64_t number_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

bool flag_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_boolean() && at->get<bool>();
}

std::string text_of(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

}  // namespace culprit::report
