// Evidence in words: the lines below a group in the text report, and sentences that other formats share.
#pragma once

#include <string>

#include "report/render/text/text_fields.h"

namespace culprit::report {

struct Evidence;
struct Frame;
struct Group;
struct ResolvedStack;
struct Variable;

// The frame that names a throw or a failed call: the innermost frame of the program, past the C++ runtime's; a Python
// line is preferred to a native frame without a line. nullptr when nothing is known.
const Frame* named_frame(const ResolvedStack& stack);

// "solver.cu:33", or function and offset without line information. "" for nullptr.
std::string spot(const Frame* frame);

// "`g_cache`", "a global of libfoo.so".
std::string variable_text(const Variable& variable);

// "std::runtime_error", "an exception of unknown type".
std::string exception_text(const Evidence& evidence);

// The evidence that gave the group its cause; nullptr if there is none.
const Evidence* deciding_evidence(const Group& group);

// "freed in 97 of 100 calls; the 3 that leaked all left through std::runtime_error thrown at f.cpp:33". "" when no
// call's memory was freed.
std::string history_text(const Group& group);

// "thrown here: std::runtime_error", for the frame where the event happened. "" for evidence without an event.
std::string event_place(const Evidence& evidence);

// Prints the lines for one piece of evidence. An ended thread is mentioned with the threads instead.
void print_evidence(const Group& group, const Evidence& evidence, TextFields* fields);

}  // namespace culprit::report
