// Prints one group, or one error, of the text report.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"

namespace culprit::report {

struct ErrorGroup;
struct Group;
struct Report;
struct ResolvedStack;

// "GPU 1", "host".
std::string device_text(const std::optional<unsigned>& device);
// Of a merged report "2 GPUs", too.
std::string device_text(const Group& group);

// Not thread-safe: caches the text of frames.
class GroupText {
 public:
  // The arguments must outlive this object.
  GroupText(const Report& report, const RenderOptions& options, std::ostream& out)
      : report_(report), palette_(options.colours), out_(out), fields_(palette_, options, out) {}

  // Each prints an empty line first.
  void print(const Group& group, std::size_t number);
  void print(const ErrorGroup& error, std::size_t number);

 private:
  std::string cause_text(const Group& group) const;
  void print_foreign_stack(const ResolvedStack& stack);
  void print_regions(const Group& group);
  void print_marks(const Group& group);
  void print_threads(const Group& group);
  void print_spread(const Group& group);

  const Report& report_;
  Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

// One group, or one error, as in the text report, after an empty line.
void render_group(const Report& report, const Group& group, std::size_t number, const RenderOptions& options,
                  std::ostream& out);
void render_error(const Report& report, const ErrorGroup& error, std::size_t number, const RenderOptions& options,
                  std::ostream& out);

}  // namespace culprit::report
