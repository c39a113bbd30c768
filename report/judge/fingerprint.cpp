#include "report/judge/fingerprint.h"

#include <string_view>
#include <vector>

#include "report/base/parallel.h"
#include "report/base/stable_hash.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/frames.h"
#include "report/model/group.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

// The name of a Python file, which stands in for the library. A notebook gives each cell a file of its own, named after
// the process, or after the number of the cell.
std::string_view python_file(std::string_view file) {
  constexpr std::string_view kCell = "<ipython-input-";
  if (file.substr(0, kCell.size()) == kCell || file.find("/ipykernel_") != std::string_view::npos) return kCell;
  return base_name(file);
}

void add(const Frame& frame, StableHash* hash) {
  if (frame.python) {
    hash->add(std::string_view(frame.function).substr(frame.function.rfind('.') + 1));
    hash->add(python_file(frame.file));
  } else {
    hash->add(frame.symbol.empty() ? frame.function : frame.symbol);
    hash->add(frame.module != nullptr ? unversioned(frame.module->name) : std::string());
  }
}

}  // namespace

std::string fingerprint(const Group& group) {
  StableHash hash;
  hash.add(kind_name(group.kind));
  std::vector<const Frame*> frames = program_frames(*group.stack);
  // A stack of others' frames alone, for example in a script of the standard library: all of its Python frames.
  if (frames.empty()) {
    const ResolvedStack& stack = *group.stack;
    for (std::size_t i = stack.hidden_inside; i + stack.hidden_outside < stack.frames.size(); ++i) {
      if (stack.frames[i]->python == stack.has_python) frames.push_back(stack.frames[i]);
    }
  }
  for (const Frame* frame : frames) {
    if (!frame->inlined) add(*frame, &hash);
  }
  return hash.hex();
}

void assign_ids(std::vector<Group>* groups) {
  parallel_for(groups->size(), [&](std::size_t i) { (*groups)[i].id = fingerprint((*groups)[i]); });
}

}  // namespace culprit::report
