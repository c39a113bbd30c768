// The verdict on a process: clean, leaks, or not known because something was not recorded. Only a complete recording
// can be clean.
#pragma once

#include <string>
#include <vector>

#include "interpose/format/dump_file.h"

namespace culprit::report {

struct Group;
struct Report;
struct UnseenUser;

enum class Verdict { kClean, kLeaks, kNotKnown };

// kLeaks when there are counted leaks, complete or not.
Verdict verdict_of(const Report& report);

// "clean", "leaks" or "not-known", as in JSON.
const char* verdict_name(Verdict verdict);

// The parts of reasons_not_known() in its order; see findings/findings.def for the names of these findings.
// A library that called the driver past the hooks.
std::string unseen_text(const UnseenUser& user);
// Events that were not recorded, or all of them, and why.
std::vector<std::string> recording_gaps(const Report& report);
// Calls that only the audit saw; empty: none.
std::string audit_gap(const Report& report);
// Processes without a dump in the report.
std::vector<std::string> missing_processes(const Report& report);

// Why it is not known whether all memory was freed: a sentence for each reason, without a full stop. Empty: everything
// was recorded. Quotes from the dump are made printable.
std::vector<std::string> reasons_not_known(const Report& report);

// The reasons as one text, "a; b".
std::string reasons_text(const Report& report);

// Where recording was switched off and on: the share of the run that was recorded, as a sentence without a full stop.
// The verdict is of that share. Empty: all of the run was recorded, or `culprit attach` began in the middle of it.
std::string recorded_share_text(const Report& report);

// Why globals may hold some of the counted leaks although no leak says so: a sentence without a full stop. Empty: the
// search for such globals ran, or has nothing to find.
std::string not_searched_text(const Report& report);

// Why a search, at exit or in a process that runs, could not say which memory is lost: without a full stop. Empty: it
// was complete, or did not begin.
enum class SearchOf { kEnded, kRunning };
std::string why_lost_is_not_known(format::LostSearch end, SearchOf of);

// Why memory that was never freed may be lost although the report does not say so: a sentence without a full stop.
// Empty: the search was complete, was not wanted or did not begin, or no leak has that cause.
std::string lost_not_known_text(const Report& report);

// The same as not_searched_text(report) for one group of leaks. Empty also when the group has a cause that no global
// changes.
std::string not_searched_text(const Report& report, const Group& group);

// Whether there are no such reasons.
bool is_complete(const Report& report);

}  // namespace culprit::report
