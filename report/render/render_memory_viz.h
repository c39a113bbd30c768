// A snapshot in the form of PyTorch's torch.cuda.memory._snapshot(), for https://pytorch.org/memory_viz and
// torch/cuda/_memory_viz.py: each allocation of GPU memory that lives at the end is a segment with one block, with the
// stack of the allocation. Segments of PyTorch's own cache are allocations like others here.
#pragma once

#include <ostream>
#include <vector>

#include "report/select/render_options.h"

namespace culprit::report {

struct Report;

// Needs LoadOptions::each. Of several processes each one's GPUs get numbers of their own, and the outermost frame of
// each stack names the process.
void render_memory_viz(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

}  // namespace culprit::report
