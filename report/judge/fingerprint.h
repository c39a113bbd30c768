// The identity of a leak group: the same in every run, in a rebuilt program and on another machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct Group;

// The rule by which fingerprint() makes ids. Baselines and reports without this number have ids of an older rule.
constexpr std::uint64_t kIdRule = 2;

// 16 hex digits from the kind and the program's frames (model/program_frames.h) without inlined ones, innermost first:
// of a native frame the function, as the symbol table has it, and the module's unversioned name; of a Python frame the
// file's name and the function's, which is not qualified because CPython 3.9 has no qualified names.
//
// It is a function of the leak alone. Other leaks, the cause, the device and the API do not change it, nor do
// addresses, lines, paths, sizes, hidden frames that are shown, and debug information of functions that the symbol
// table names. So groups may share an id: two calls in one function, one call on two devices, one stack with two
// causes. Whatever compares runs adds up by id.
std::string fingerprint(const Group& group);

// Gives every group its id.
void assign_ids(std::vector<Group>* groups);

}  // namespace culprit::report
