// The functions of a type of evidence. Those of each type are in the file of this folder that has its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/model/causes.h"
#include "report/model/thread_info.h"

namespace culprit::report {

struct Evidence;
struct Frame;
struct Group;
struct GroupFacts;
struct ResolvedStack;

// A line below a group in the text report: a label, and either a text, or a stack, one line for each frame.
struct EvidenceLine {
  std::string label;                     // "": the line continues the one above
  std::string text;                      // printable
  std::vector<const Frame*> callers;     // in this order
  const ResolvedStack* stack = nullptr;  // the Python frames first
};

// A member of the evidence in JSON. A stack is nullptr when nothing is known.
struct EvidenceField {
  const char* name;
  std::variant<std::nullptr_t, bool, int, std::uint64_t, std::string, ThreadInfo, const ResolvedStack*> value;
};

// All are safe for concurrent use. References: a missing function does not compile.
struct EvidenceFunctions {
  // Appends the evidence if the facts have it.
  void (&collect)(const GroupFacts& facts, std::vector<Evidence>* list);
  // Whether evidence from a file of `culprit merge` has all that the functions below rely on.
  bool (&whole)(const Evidence& evidence);
  // The text report, below the group.
  std::vector<EvidenceLine> (&lines)(const Group& group, const Evidence& evidence);
  // JSON: the members, after "type".
  std::vector<EvidenceField> (&fields)(const Evidence& evidence);
  // The title of its card and of its events in the HTML page, which needs no printable(); "": it has none.
  std::string (&title)(const Evidence& evidence);
  // SARIF: the event at its place in the source, "thrown here: std::runtime_error"; "": it has no place.
  std::string (&place)(const Evidence& evidence);
  // How the leaked allocations ended, for the end of "the 3 that leaked all ...", or with `one` of "the one that
  // leaked ..."; "": not told.
  std::string (&fate)(const Evidence& evidence, bool one);
  // One line that suggests a fix when the evidence decided the cause; "": nothing useful to say.
  std::string (&hint)(const Group& group, const Evidence& evidence);
};

// kFailedFreeFunctions, ...: each is defined in the file of its type.
#define EVIDENCE(enumerator, ...) extern const EvidenceFunctions enumerator##Functions;
#include "report/model/causes.def"

const EvidenceFunctions& functions_of(EvidenceType type);

}  // namespace culprit::report
