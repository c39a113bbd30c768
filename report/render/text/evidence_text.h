// Evidence in words: what the text report shows below a group, and the sentences that other formats share.
#pragma once

#include <string>

#include "report/render/text/text_fields.h"

namespace culprit {

// The frame that a throw or a failed call is named by: the innermost of the program's own, where the C++ runtime's lie
// before it; the Python line rather than a native frame without one. nullptr when nothing is known.
const Frame* named_frame(const ResolvedStack& stack);

// "solver.cu:33", or function and offset where there is no line. "" for nullptr.
std::string spot(const Frame* frame);

// "`g_cache`", "a global of libfoo.so".
std::string variable_text(const Variable& variable);

// "std::runtime_error", "an exception of unknown type".
std::string exception_text(const Evidence& evidence);

// The evidence that gave the group its cause; nullptr for a group that nothing more is known of.
const Evidence* deciding_evidence(const Group& group);

// "freed in 97 of 100 calls; the 3 that leaked all left through std::runtime_error thrown at f.cpp:33". "" when none of
// the calls was freed.
std::string history_text(const Group& group);

// The lines of one piece of evidence. That a thread ended is said where the threads are.
void print_evidence(const Group& group, const Evidence& evidence, TextFields* fields);

}  // namespace culprit
