// JSON in tests: nlohmann::json, whose members are compiled once, in json.cpp.
//
// They are a third of what an unoptimized file of tests would compile, again in each file. The precompiled headers of
// the test programs have this header.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace culprit::test {
using JsonTextInput = decltype(nlohmann::detail::input_adapter(std::declval<const std::string&>()));
}

// clang-format off
#define TEST_JSON_TEMPLATES(TEMPLATE)                                                        \
  TEMPLATE std::map<std::string, nlohmann::json, std::less<>>;                               \
  TEMPLATE std::vector<nlohmann::json>;                                                      \
  TEMPLATE nlohmann::basic_json<>;                                                           \
  TEMPLATE nlohmann::detail::json_sax_dom_callback_parser<nlohmann::json>;                   \
  TEMPLATE nlohmann::detail::json_sax_dom_parser<nlohmann::json>;                            \
  TEMPLATE nlohmann::detail::lexer<nlohmann::json, culprit::test::JsonTextInput>;            \
  TEMPLATE nlohmann::detail::parser<nlohmann::json, culprit::test::JsonTextInput>;           \
  TEMPLATE nlohmann::detail::serializer<nlohmann::json>;
// clang-format on
TEST_JSON_TEMPLATES(extern template class)
