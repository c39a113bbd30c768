// Gaps in a report's data, stated in its first lines, so that "nothing leaked" is claimed only for complete recordings.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;
struct UnseenUser;

// Whether everything was recorded. Only then may a verdict say that nothing leaked.
bool is_complete(const Report& report);

// "12 allocations, 1 stack, from 1.50 s on · the dump could not grow": the dropped events, and the reason. Empty when
// none was dropped. Quotes from the dump are made printable.
std::string not_recorded_text(const Report& report);

// "libfoo.so calls the driver directly (...): its allocations are not in this report".
std::string not_seen_text(const UnseenUser& user);

// Both texts as sentences, for formats with a single list of them.
std::vector<std::string> incomplete_texts(const Report& report);

// The headline of a text report without leaks: "NOTHING LEAKED" only when everything was recorded.
std::string verdict_without_leaks(const Report& report);

}  // namespace culprit::report
