// The facts about a run as a whole that a dump states: the process, its devices, and how much of it was recorded.
#pragma once

namespace culprit::report {

class Dump;
struct MachineFacts;
struct Report;

// A report with these facts and without any group. Never throws for the contents of a dump that is open.
Report read_facts(const Dump& dump, const MachineFacts& machine);

}  // namespace culprit::report
