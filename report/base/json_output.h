// Writes JSON as text. The writer of nlohmann's, which is a template, is compiled once here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace culprit::report {

// `indent`: the spaces of each level; -1: one line. Bytes that are no UTF-8 become U+FFFD, and characters that do
// harm on a terminal or in a log are escape sequences (printable.h).
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace culprit::report
