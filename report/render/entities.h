// What HTML and XML take for markup, written so that it stays text.
#pragma once

#include <string>

namespace culprit {

// Appends "&lt;" for '<', likewise for '>' and '&'; false for any other character, of which nothing is appended.
inline bool append_entity(char c, std::string* text) {
  const char* entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : nullptr;
  if (entity != nullptr) *text += entity;
  return entity != nullptr;
}

}  // namespace culprit
