#include "report/base/json_output.h"

#include <nlohmann/json.hpp>

#include "report/base/printable.h"

namespace culprit::report {
namespace {

template <typename Json>
std::string text_with_escapes(const Json& json, int indent) {
  return with_escapes(json.dump(indent, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) { return text_with_escapes(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_with_escapes(json, indent); }

}  // namespace culprit::report
