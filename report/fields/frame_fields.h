// The fields of stacks and of what they consist of.
#pragma once

#include <string>

#include "report/base/words.h"
#include "report/fields/field_list.h"
#include "report/model/frames.h"
#include "report/model/thread_info.h"
#include "report/symbols/module_state.h"

namespace culprit::report {

template <typename Archive>
void fields(Archive& archive, Module* module) {
  archive.field("path", &module->path, "as it was loaded");
  archive.kept("name", &module->name);
  archive.field("build_id", &module->build_id, "`\"\"`: it has none");
  archive.kept("executable", &module->executable);
  archive.kept("has_debug_info", &module->has_debug_info);
  archive.kept("own_unwinder", &module->own_unwinder);
  archive.keep_named("state", &module->state, module_state_name, ModuleState::kUnreadable);
}

template <typename Archive>
void fields(Archive& archive, Frame* frame) {
  archive.field("function", &frame->function, "`\"\"` and 0: not known");
  archive.field("file", &frame->file, "");
  archive.field("line", &frame->line, "");
  archive.field("module", &frame->module,
                "path of the program or library; virtual address inside that file, as addr2line takes it",
                [&] { return frame->module != nullptr ? frame->module->path : std::string(); });
  archive.field("offset", &frame->offset, "", [&] { return hex_text(frame->offset); });
  archive.field("inlined", &frame->inlined, "true: the call was inlined into the next frame");
  archive.shown("language", "`native` or `python`; a Python frame has no module and offset 0",
                [&] { return frame->python ? "python" : "native"; });
  archive.kept("python", &frame->python);
  archive.field("symbol_offset", &frame->symbol_offset,
                "only when it is not 0: distance from the start of the function", shown_if(frame->symbol_offset != 0));
  archive.field("approximate", &frame->approximate,
                "only when true: `function` is the nearest symbol before the address", shown_if(frame->approximate));
  archive.kept("symbol", &frame->symbol);
}

template <typename Archive>
void fields(Archive& archive, Variable* variable) {
  archive.kept("module", &variable->module);
  archive.kept("name", &variable->name);
  archive.kept("begin", &variable->begin);
  archive.kept("python", &variable->python);
  archive.kept("steps", &variable->steps);
  archive.kept("path", &variable->path);
  archive.kept("typed", &variable->typed);
}

template <typename Archive>
void fields(Archive& archive, ResolvedStack* stack) {
  archive.kept("frames", &stack->frames);
  archive.kept("caller", &stack->caller);
  archive.kept("runtime_api", &stack->runtime_api);
  archive.kept("through_runtime", &stack->through_runtime);
  archive.kept("truncated", &stack->truncated);
  archive.kept("merged", &stack->merged);
  archive.kept("has_python", &stack->has_python);
  archive.kept("hidden_inside", &stack->hidden_inside);
  archive.kept("hidden_outside", &stack->hidden_outside);
}

// Merged files have no threads, but their sums.
template <typename Archive>
void fields(Archive& archive, ThreadInfo* thread) {
  archive.shown("tid", "as the system numbers it", [&] { return thread->tid; });
  archive.shown("name", "as the process saw it", [&] { return thread->name; });
  archive.shown("ended", "true: before the process did", [&] { return thread->ended; });
}

template <typename Archive>
void fields(Archive& archive, ThreadSum* sum) {
  archive.field("name", &sum->name, "of the threads");
  archive.field("threads", &sum->threads, "how many, how many of them have ended, in how many processes");
  archive.field("ended", &sum->ended, "");
  archive.field("processes", &sum->processes, "");
}

}  // namespace culprit::report
