// Parts that several types of evidence share: an event with a stack, in words and in JSON.
#pragma once

#include <string>
#include <vector>

#include "report/causes/evidence_functions.h"
#include "report/model/evidence.h"

namespace culprit::report {

// Evidence of this type, with the cause that it points to.
Evidence evidence_of(EvidenceType type);

// Whether the event is no cause, because the program hands such memory on. `earlier`: the allocation was made by an
// earlier call of the function that was left, so it may have been handed on to a caller or a global. If others of its
// stack live on without such an event, handing on is normal for the program.
bool is_handed_on(bool earlier, bool others_live_on);

// The frame that names a throw or a failed call: the innermost frame of the program, past the C++ runtime's; a Python
// line is preferred to a native frame without a line. nullptr when nothing is known.
const Frame* named_frame(const ResolvedStack& stack);

// "solver.cu:33", or function and offset without line information. "" for nullptr.
std::string spot(const Frame* frame);

// " at solver.cu:33": where the event happened; "" when that is not known.
std::string at_event(const Evidence& evidence);

// The same below a group: " at line 33" if it is in the file of the allocation.
std::string at_event(const Evidence& evidence, const Group& group);

// ", 3 times"; "" for a single one.
std::string times(const Evidence& evidence);

// Appends the callers of the event's naming frame, unless the allocation's own stack shows them.
void add_callers(const ResolvedStack& stack, const Group& group, std::vector<EvidenceLine>* lines);

// Appends how often and when the event happened, and its stack.
void add_event(const Evidence& evidence, std::vector<EvidenceField>* fields);

// Appends the owner of the memory, and the thread in which a throw or failed call happened while the owner was running.
void add_owner(const Evidence& evidence, std::vector<EvidenceField>* fields);

// EvidenceFunctions::whole of evidence that needs a stack and no more.
bool has_stack(const Evidence& evidence);

}  // namespace culprit::report
