// Who held the memory at one moment, as parts of the text report: when an allocation failed, and at the peak.
#include <algorithm>

#include "report/kinds.h"
#include "report/render.h"
#include "report/text_fields.h"
#include "report/text_style.h"

namespace culprit {
namespace {

// A failure stands above everything else and must leave room for it.
constexpr std::size_t kShownAtFailure = 5;

std::string place_of(const ResolvedStack& stack) {
  const Frame* frame = stack.caller != nullptr ? stack.caller : stack.frames.empty() ? nullptr : stack.frames.front();
  if (stack.has_python && !stack.frames.empty()) frame = stack.frames.front();
  if (frame == nullptr) return "(stack not recorded)";
  const std::string place = frame_place(*frame);
  return place.empty() || frame->file.empty() ? frame_function(*frame) : place + "  " + frame_function(*frame);
}

std::string gpu(const Picture& picture) {
  return picture.device ? "GPU " + std::to_string(*picture.device) : "the GPU";
}

void print_entries(const Picture& picture, std::size_t most, std::ostream& out) {
  HiddenTotal rest;
  rest.groups = picture.other_stacks;
  rest.allocations = picture.other_count;
  rest.bytes = picture.other_bytes;
  std::size_t shown = 0;
  for (const PictureEntry& entry : picture.entries) {
    if (++shown > most) {
      ++rest.groups;
      rest.allocations += entry.count;
      rest.bytes += entry.bytes;
      continue;
    }
    out << "   " << padded(format_bytes(entry.bytes), 10) << padded(std::to_string(entry.count) + "x", 7)
        << printable(entry.api) << "  " << kind_name(entry.kind) << "  " << place_of(*entry.stack) << "\n";
  }
  if (rest.groups != 0)
    out << "   " << padded(format_bytes(rest.bytes), 10) << padded(std::to_string(rest.allocations) + "x", 7) << "by "
        << plural(rest.groups, "other stack", "other stacks") << "\n";
}

void print_failure(const Picture& picture, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  out << palette.bad("OUT OF MEMORY") << ": " << printable(picture.api) << " asked for "
      << palette.title(format_bytes(picture.asked_bytes)) << " at " << place_of(*picture.stack) << ", at "
      << format_time(picture.time_ns);
  if (picture.times > 1) out << ", the last of " << picture.times << " times";
  out << "; ";
  if (picture.memory.total_bytes != 0)
    out << format_bytes(picture.memory.total_bytes - picture.memory.free_bytes) << " of "
        << format_bytes(picture.memory.total_bytes) << " of " << gpu(picture) << " in use, ";
  out << format_bytes(picture.live_bytes) << (picture.live_bytes == 0 ? " by this process\n" : " by this process:\n");
  print_entries(picture, options.all ? picture.entries.size() : kShownAtFailure, out);
}

void print_peak(const Picture& picture, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  out << "\n"
      << palette.title("PEAK") << " of " << gpu(picture) << ": " << palette.title(format_bytes(picture.live_bytes))
      << " in " << plural(picture.live_count, "allocation", "allocations") << " at " << format_time(picture.time_ns)
      << "\n";
  print_entries(picture, options.all ? picture.entries.size() : kShownGroups, out);
}

}  // namespace

void render_failures(const Report& report, const RenderOptions& options, std::ostream& out) {
  for (const Picture& picture : report.pictures) {
    if (!picture.out_of_memory) continue;
    print_failure(picture, options, out);
    if (!options.all) return;  // the last one
  }
}

void render_peaks(const Report& report, const RenderOptions& options, std::ostream& out) {
  bool any = false;
  for (const Picture& picture : report.pictures) {
    if (picture.out_of_memory) continue;
    print_peak(picture, options, out);
    any = true;
  }
  if (any) {
    out << "\napproximate: a picture is taken when use has grown by a sixteenth since the last one, and 1 MiB; what a "
           "thread has not\nadded up yet, 4 MiB at most, may be missing\n";
  } else {
    out << "\nno picture of the peak: "
        << (report.job.empty() ? "nothing was live on a GPU, or recording stopped before\n"
                               : "report one process by itself, or give --no-merge\n");
  }
}

}  // namespace culprit
