// The place of a stack in a sentence. Printable.
#pragma once

#include <string>

namespace culprit::report {

struct ResolvedStack;

// "train.py:4", or a function; "" when nothing is known.
std::string maker_of(const ResolvedStack& stack);

// " at a.py:7", " in function", or "" for a stack that is not recorded, or nullptr.
std::string at_place(const ResolvedStack* stack);

}  // namespace culprit::report
