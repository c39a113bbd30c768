// The effects of the keys of `culprit top`.
#pragma once

#include <cstdint>
#include <string>

#include "report/screen/live_model.h"
#include "report/screen/top_state.h"

namespace culprit::report {

// A character, or one of the keys below.
using Key = std::uint32_t;
inline constexpr Key kKeyEnter = '\n';
inline constexpr Key kKeyTab = '\t';
inline constexpr Key kKeyEscape = 0x1b;
inline constexpr Key kKeyBackspace = 0x7f;
inline constexpr Key kKeyUp = 0x200000;
inline constexpr Key kKeyDown = 0x200001;
inline constexpr Key kKeyPageUp = 0x200002;
inline constexpr Key kKeyPageDown = 0x200003;
inline constexpr Key kKeyHome = 0x200004;
inline constexpr Key kKeyEnd = 0x200005;

// The part of a key's effect that is not in the state.
struct TopRequest {
  enum class What { kNothing, kQuit, kSave, kAttach };
  What what = What::kNothing;
  std::uint32_t pid = 0;  // kAttach
  std::string process;    // kSave: LiveProcess::key
};

// Changes the state, and the model where a mark is set.
TopRequest press_key(TopState* state, Key key, LiveModel* model);

}  // namespace culprit::report
