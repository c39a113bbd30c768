// Stacks of a dump by their numbers there, as text.
#pragma once

#include <ostream>
#include <vector>

#include "interpose/format/dump_file.h"

namespace culprit::report {

class Dump;
class StackResolver;
struct RenderOptions;

// Writes those of `numbers` that `dump` has; `resolver` has resolved them.
void render_stacks(const Dump& dump, const StackResolver& resolver, const std::vector<format::Ref>& numbers,
                   const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
