// Memory that a global variable, or a Python object, still holds at exit.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (facts.allocated == nullptr || facts.allocated->holder == nullptr) return;
  Evidence evidence = evidence_of(EvidenceType::kHeld);
  evidence.stack = &facts.stacks.stack(0);
  evidence.count = facts.count;
  evidence.time_ns = facts.dump.header().end_time_ns;
  evidence.variable = facts.allocated->holder;
  evidence.offset = facts.allocated->holder_place & format::kFrameOffsetMask;
  evidence.middle = (facts.allocated->holder_place & format::kHolderMiddle) != 0 && !evidence.variable->python;
  evidence.yields = (evidence.variable->steps != 0 && !evidence.variable->typed) || evidence.middle;
  if (facts.allocated->holder_path != nullptr) evidence.path = *facts.allocated->holder_path;
  list->push_back(std::move(evidence));
}

bool whole(const Evidence& evidence) {
  return evidence.variable != nullptr && (evidence.variable->module != nullptr || evidence.variable->python);
}

bool is_thread_local(const Variable& variable) { return (variable.begin & format::kHolderThreadLocal) != 0; }

// Whether the steps to the pointer itself are known: those of several allocations differ.
bool has_exact_path(const Evidence& evidence) { return evidence.count == 1 && !evidence.path.empty(); }

// "g_engine->next->buffer", "g_cache[*]->buffer" for several allocations.
std::string path_text(const Evidence& evidence) {
  return printable(has_exact_path(evidence) ? evidence.path : evidence.variable->path);
}

std::vector<EvidenceLine> lines(const Group&, const Evidence& evidence) {
  const Variable& variable = *evidence.variable;
  std::string text;
  if (variable.python) {
    text = printable(variable.name);
  } else if (variable.name.empty()) {
    text = printable(variable.module->name) + "+" + hex_text(evidence.offset & ~format::kHolderThreadLocal) +
           (is_thread_local(variable) ? " (a thread-local variable" : " (a global") + " without a symbol)";
    text += path_text(evidence);
  } else {
    text = printable(variable.name);
    // A smart pointer, whose members have no names for a reader, is named by its variable alone.
    if (variable.path.empty() && variable.steps == 0 && !variable.typed && evidence.offset > variable.begin)
      text += "+" + hex_text(evidence.offset - variable.begin);
    text += path_text(evidence) + " in " + printable(variable.module->name);
    if (is_thread_local(variable)) text += ", thread-local, of the main thread";
  }
  if (evidence.middle) text += ", a pointer into the middle";
  if (variable.steps != 0 && variable.path.empty())
    text += ", through " + plural(variable.steps, "chunk", "chunks") + " of the heap";
  if (evidence.count > 1) text += ", " + std::to_string(evidence.count) + (variable.python ? " objects" : " pointers");
  return {{"held by", text}};
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  const Variable& variable = *evidence.variable;
  std::vector<EvidenceField> list = {{"symbol", nullptr}, {"symbol_offset", nullptr}, {"module", nullptr}};
  if (!variable.name.empty()) {
    list[0].value = variable.name;
    list[1].value = evidence.offset - variable.begin;
  }
  if (!variable.python) list[2].value = variable.module->path;
  list.push_back({"language", std::string(variable.python ? "python" : "native")});
  list.push_back({"offset", hex_text(evidence.offset & ~format::kHolderThreadLocal)});
  list.push_back({"thread_local", is_thread_local(variable)});
  list.push_back({"middle", evidence.middle});
  list.push_back({"count", evidence.count});
  list.push_back({"steps", std::uint64_t{variable.steps}});
  list.push_back({"path", nullptr});
  if (!variable.path.empty()) list.back().value = variable.name + variable.path;
  list.push_back({"exact_path", nullptr});
  if (has_exact_path(evidence)) list.back().value = variable.name + evidence.path;
  return list;
}

std::string title(const Evidence& evidence) {
  const Variable& variable = *evidence.variable;
  if (variable.python) return variable.name;
  const std::string& path = has_exact_path(evidence) ? evidence.path : variable.path;
  return (variable.name.empty() ? "a global of " : variable.name + path + " in ") +
         std::string(base_name(variable.module->path));
}

std::string place(const Evidence&) { return {}; }

// "`g_cache`", "`g_cache[*]->buffer`", "a global of libfoo.so".
std::string variable_text(const Variable& variable) {
  if (variable.python) return printable(variable.name);
  if (variable.name.empty()) return "a global of " + printable(variable.module->name);
  return "`" + printable(variable.name + variable.path) + "`";
}

std::string fate(const Evidence& evidence, bool one) {
  return (one ? "is held by " : "are held by ") + variable_text(*evidence.variable);
}

std::string hint(const Group& group, const Evidence& evidence) {
  if (evidence.variable->python)
    return "free it, or drop the object that frees it (del, clear), when it is no longer needed";
  if (evidence.middle && group.kind == format::Kind::kRegion)
    return variable_text(*evidence.variable) +
           " still points into it at exit: give it back to its pool before main returns";
  if (evidence.middle)
    return variable_text(*evidence.variable) +
           " points into the middle: keep what the allocation returned, and free it";
  const std::string what = group.count == 1 ? "the pointer" : "the pointers";
  return variable_text(*evidence.variable) + " still has " + what + " at exit: free " +
         (group.count == 1 ? "it" : "them") + " before main returns";
}

}  // namespace

const EvidenceFunctions kHeldFunctions = {collect, whole, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
