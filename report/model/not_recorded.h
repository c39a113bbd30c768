// What a report does not know: said in its first lines, so that "nothing leaked" is only said of what was seen whole.
#pragma once

#include <string>
#include <vector>

#include "report/model/report_model.h"

namespace culprit {

// Whether everything that happened was recorded. A verdict without leaks holds only then.
bool is_complete(const Report& report);

// "12 allocations, 1 stack, from 1.50 s on · the dump could not grow": the events that were dropped, and why.
// Empty when none was. What it quotes from the dump is printable.
std::string not_recorded_text(const Report& report);

// "libfoo.so calls the driver directly (...): its allocations are not in this report".
std::string not_seen_text(const UnseenUser& user);

// Both as sentences, for formats that have one list of them.
std::vector<std::string> incomplete_texts(const Report& report);

// The headline of a text report without leaks: "NOTHING LEAKED" only when all was seen and recorded.
std::string verdict_without_leaks(const Report& report);

}  // namespace culprit
