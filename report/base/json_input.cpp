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

// The same for CBOR: reading ends at the level that is too deep.
class CborDepth : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ <= kDeepest; }
  bool end_object() override { return end_array(); }
  bool start_array(std::size_t) override { return ++depth_ <= kDeepest; }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  int depth_ = 0;
};

}  // namespace

Json parse_cbor(const std::string& bytes) try {
  CborDepth depth;
  if (!Json::sax_parse(bytes, &depth, Json::input_format_t::cbor)) return Json(Json::value_t::discarded);
  return Json::from_cbor(bytes);
} catch (const Json::exception&) {  // also a list that says to be longer than any can be
  return Json(Json::value_t::discarded);
}

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
