#include "report/render/text/no_leak_sections.h"

#include <algorithm>
#include <string>
#include <vector>

#include "report/base/text_width.h"
#include "report/base/words.h"
#include "report/findings/cache_words.h"
#include "report/judge/pool_rules.h"
#include "report/model/frame_rules.h"
#include "report/model/frame_text.h"
#include "report/model/pool.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/render/text/group_text.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLines = 5;  // below the heading of a section
constexpr std::size_t kMostPlaces = 3;
constexpr std::size_t kMostKeepers = 4;

// One place in a cache, with its label.
struct PlaceLine {
  const char* label;
  std::string text;
};

class Sections {
 public:
  Sections(const Report& report, const RenderOptions& options, std::ostream& out)
      : report_(report), options_(options), palette_(options.colours), out_(out), fields_(palette_, options, out) {}

  void print_caches(std::size_t* number) {
    const std::vector<CacheTotal>& caches = report_.summary.caches;
    if (caches.empty()) return;
    out_ << "\n" << palette_.title("CACHED") << " (--strict counts it)\n\n";
    const std::size_t shown = options_.all || caches.size() <= kLines ? caches.size() : kLines - 1;
    // The largest gets the lines that the others leave.
    const std::size_t of_others = shown == 2 ? 2 : 1;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t lines = i != 0 ? of_others : shown == caches.size() ? kLines - of_others * (shown - 1) : 1;
      print_cache(caches[i], ++*number, options_.all ? 0 : lines);
    }
    print_rest(caches.size() - shown, "allocator", "allocators");
  }

  void print_held_by_libraries(std::size_t* number) {
    const std::vector<Group>& groups = report_.library;
    if (groups.empty()) return;
    out_ << "\n" << palette_.title("HELD BY LIBRARIES FOR THEMSELVES") << " (--strict counts it)\n\n";
    const std::size_t shown = groups.size() <= kLines ? groups.size() : kLines - 1;
    for (std::size_t i = 0; i < shown; ++i) {
      const Group& group = groups[i];
      const std::string head = padded_to_width(std::to_string(++*number), 3) + format_bytes(group.bytes) + "  " +
                               std::to_string(group.count) + "x  " + printable(group.api) + "  " + device_text(group) +
                               "  by " + printable(group.library);
      out_ << head << cut("  " + place_of(user_of_library(*group.stack)), columns_of(head)) << "  "
           << palette_.faint(group.id) << "\n";
    }
    print_rest(groups.size() - shown, "group", "groups");
  }

  // The frameworks' account of the moment at which memory ran out, unless the failure itself was shown with it.
  void print_ran_out() {
    if (!report_.breakdowns.empty() && !report_.breakdowns.front().caches.empty()) return;
    for (const CacheInside& inside : report_.ran_out) {
      out_ << palette_.warn("WHEN MEMORY RAN OUT") << "  " << inside.pool << "\n";
      fields_.field("tensors", tensors_text(inside));
      print_keepers(inside, kMostKeepers);
      const char* label = "live";
      for (const std::string& text : live_places(inside)) {
        fields_.field(label, text);
        label = "";
      }
      if (!inside.hint.empty()) fields_.field("lines", inside.hint);
    }
  }

 private:
  // `lines`: that the entry may have; 0: no limit.
  void print_cache(const CacheTotal& cache, std::size_t number, std::size_t lines) {
    out_ << padded_to_width(std::to_string(number), 3) << palette_.title(format_bytes(cache.bytes)) << "  "
         << plural(cache.segments, "segment", "segments") << "  " << cache.pool->name << "\n";
    std::size_t used = 1;
    const auto inside = std::find_if(report_.caches_inside.begin(), report_.caches_inside.end(),
                                     [&](const CacheInside& one) { return one.pool == cache.pool->name; });
    const bool known = inside != report_.caches_inside.end();
    const std::vector<PlaceLine> places = places_of(cache, known ? &*inside : nullptr);
    if (known && (lines == 0 || used < lines)) {
      fields_.field("tensors", tensors_text(*inside));
      ++used;
      print_keepers(*inside, lines == 0 ? inside->kept.size() : kMostKeepers);
    }
    std::string hint = known ? inside->hint : "";
    const char* label = "lines";
    if (hint.empty() && !known && cache.pool->hint != nullptr) {
      hint = cache.pool->hint;
      label = "hint";
    }
    const bool has_hint = !hint.empty() && (lines == 0 || lines == kLines);
    for (std::size_t i = 0; i < places.size() && (lines == 0 || used + (has_hint ? 1 : 0) < lines); ++i, ++used)
      fields_.field(i == 0 || places[i].label != places[i - 1].label ? places[i].label : "", places[i].text);
    if (has_hint) fields_.field(label, hint);
  }

  // The keepers of the live tensors. The hint stands below the headline.
  void print_keepers(const CacheInside& inside, std::size_t most) {
    const char* label = "kept by";
    for (const std::string& text : keeper_lines(inside, most)) {
      fields_.field(label, text);
      label = "";
    }
  }

  // Where the live tensors were made. If the framework recorded no lines: what holds most of them, then the lines of
  // the largest segments.
  std::vector<PlaceLine> places_of(const CacheTotal& cache, const CacheInside* inside) const {
    std::vector<PlaceLine> live = inside != nullptr ? live_lines(*inside) : std::vector<PlaceLine>();
    if (!live.empty() && !inside->largest.front().file.empty()) return live;
    if (inside != nullptr && !inside->kept.empty()) live.clear();  // they say it with more detail
    if (!options_.all && live.size() > 1) live.resize(1);
    for (PlaceLine& line : segments(cache)) live.push_back(std::move(line));
    return live;
  }

  // The framework's own report about its cache: where its live tensors were made, and what holds them.
  static std::vector<PlaceLine> live_lines(const CacheInside& inside) {
    std::vector<PlaceLine> lines;
    for (std::string& text : live_places(inside)) lines.push_back({"live", std::move(text)});
    return lines;
  }

  // The lines of the program that made the allocator's largest segments.
  std::vector<PlaceLine> segments(const CacheTotal& cache) const {
    std::vector<PlaceLine> lines;
    for (const Group& group : report_.leaks) {  // largest first
      if (group.pool != cache.pool) continue;
      if (lines.size() == kMostPlaces) break;
      lines.push_back({"largest", format_bytes(group.bytes) + "  " + std::to_string(group.count) + "x  " +
                                      place_of(user_of_pool(*group.stack, *cache.pool))});
    }
    return lines;
  }

  // The line of the program that called the library, or the first frame outside of it.
  static const Frame* user_of_library(const ResolvedStack& stack) {
    const Frame* outside = nullptr;
    for (const Frame* frame : stack.frames) {
      if (!frame->file.empty() && (frame->python ? is_program_frame(*frame) : plumbing_name(*frame) == nullptr))
        return frame;
      if (outside == nullptr && !frame->python && stack.caller != nullptr && frame->module != stack.caller->module &&
          plumbing_name(*frame) == nullptr)
        outside = frame;
    }
    return outside != nullptr ? outside : naming_frame(stack);
  }

  static std::string place_of(const Frame* frame) {
    return frame == nullptr ? "(stack not recorded)" : frame_text(*frame);
  }

  // The text within the terminal's width, after `used` columns and before a group's id.
  std::string cut(const std::string& text, std::size_t used) const {
    constexpr std::size_t kIdColumns = 18;
    constexpr std::size_t kLeast = 20;
    if (options_.columns == 0) return text;
    const std::size_t taken = used + kIdColumns;
    return shortened(text, std::max(options_.columns > taken ? options_.columns - taken : 0, kLeast));
  }

  void print_rest(std::size_t count, const char* one, const char* many) {
    if (count != 0) out_ << "   and " << plural(count, one, many) << " more: --all\n";
  }

  const Report& report_;
  const RenderOptions& options_;
  Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

}  // namespace

void render_caches(const Report& report, const RenderOptions& options, std::size_t* number, std::ostream& out) {
  Sections(report, options, out).print_caches(number);
}

void render_ran_out(const Report& report, const RenderOptions& options, std::ostream& out) {
  Sections(report, options, out).print_ran_out();
}

void render_held_by_libraries(const Report& report, const RenderOptions& options, std::size_t* number,
                              std::ostream& out) {
  Sections(report, options, out).print_held_by_libraries(number);
}

}  // namespace culprit::report
