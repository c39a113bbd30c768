// A thread that allocated some of the memory and has ended. Information: it decides no cause.
#include "report/causes/event.h"

namespace culprit::report {
namespace {

// judge.cpp makes this evidence from the threads of a group, once groups of the same place are merged.
void collect(const GroupFacts&, std::vector<Evidence>*) {}

// A merged report has names of threads, and no such evidence.
bool whole(const Evidence&) { return false; }

// The text report, the page and the hint of "never freed" mention an ended thread with the other threads.
std::vector<EvidenceLine> lines(const Group&, const Evidence&) { return {}; }
std::string title(const Evidence&) { return {}; }
std::string place(const Evidence&) { return {}; }
std::string fate(const Evidence&, bool) { return {}; }
std::string hint(const Group&, const Evidence&) { return {}; }

std::vector<EvidenceField> fields(const Evidence& evidence) {
  return {{"tid", std::uint64_t{evidence.thread->tid}}, {"name", evidence.thread->name}, {"time_ns", evidence.time_ns}};
}

}  // namespace

const EvidenceFunctions kThreadEndedFunctions = {collect, whole, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
