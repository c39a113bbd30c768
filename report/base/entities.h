// Escapes the characters that HTML and XML would read as markup.
#pragma once

#include <string>

namespace culprit::report {

// Appends "&lt;" for '<', likewise for '>' and '&'. Returns false for any other character and appends nothing.
inline bool append_entity(char c, std::string* text) {
  const char* entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : nullptr;
  if (entity != nullptr) *text += entity;
  return entity != nullptr;
}

}  // namespace culprit::report
