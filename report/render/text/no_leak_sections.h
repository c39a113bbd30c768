// The sections of the text report about memory that is no leak. Each has at most five lines below its heading, so that
// the leaks stay on the screen; --all shows everything.
#pragma once

#include <cstddef>
#include <ostream>

namespace culprit::report {

struct Report;
struct RenderOptions;

// Memory in the caches of frameworks: an entry for each allocator, with the places that caused most of its memory.
// Prints nothing when there is none. `number`: the number of the last printed entry.
void render_caches(const Report& report, const RenderOptions& options, std::size_t* number, std::ostream& out);

// Memory that libraries hold for themselves, a line for each group. Likewise.
void render_held_by_libraries(const Report& report, const RenderOptions& options, std::size_t* number,
                              std::ostream& out);

}  // namespace culprit::report
