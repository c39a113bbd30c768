#include "report/render/render_pprof.h"

#include <map>
#include <unordered_map>

#include "report/base/printable_stream.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/frame_text.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/render/protobuf.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Without an offset, which another build changes: -diff_base compares functions by their names.
std::string function_name(const Frame& frame) {
  const bool known = !frame.function.empty() && !frame.approximate;
  return known ? printable(frame.function) : frame_function(frame);
}

class Profile {
 public:
  Profile() {
    string("");  // string 0 is the empty string
    sample_type("leaked_bytes", "bytes");
    sample_type("leaked_count", "count");
    profile_.number(14, string("leaked_bytes"));  // default_sample_type; otherwise pprof shows the last one
  }

  void comment(const std::string& text) { comments_.push_back(string(text)); }

  void add(const Group& group) {
    ProtobufMessage sample;
    std::vector<std::uint64_t> locations;
    for (const Frame* frame : group.stack->frames) locations.push_back(location(*frame));
    if (locations.empty()) locations.push_back(location("(stack not recorded)", "", 0));
    sample.packed(1, locations);
    sample.packed(2, {group.bytes, group.count});
    label("cause", cause_name(group.cause), &sample);
    label("api", group.api, &sample);
    label("kind", kind_name(group.kind), &sample);
    const bool host = kind_class(group.kind) == KindClass::kHostMemory || !group.device;
    label("device", host ? "host" : "GPU " + std::to_string(*group.device), &sample);
    label("id", group.id, &sample);
    profile_.message(2, sample);
  }

  std::string finish(std::uint64_t time_ns) {
    profile_.number(9, time_ns);
    if (!comments_.empty()) profile_.packed(13, comments_);
    for (const auto& [text, number] : strings_) order_[number] = &text;
    for (const auto& [number, text] : order_) profile_.text(6, *text);
    return gzip_stored(profile_.bytes());
  }

 private:
  std::uint64_t string(const std::string& text) {
    return strings_.try_emplace(printable(text), strings_.size()).first->second;
  }

  void sample_type(const char* type, const char* unit) {
    ProtobufMessage value;
    value.number(1, string(type));
    value.number(2, string(unit));
    profile_.message(1, value);
  }

  void label(const char* key, const std::string& text, ProtobufMessage* sample) {
    ProtobufMessage label;
    label.number(1, string(key));
    label.number(2, string(text));
    sample->message(3, label);
  }

  // Few frames occur in many stacks: each is named once.
  std::uint64_t location(const Frame& frame) {
    std::uint64_t& number = known_[&frame];
    if (number == 0) number = location(function_name(frame), frame.file, frame.line);
    return number;
  }

  std::uint64_t location(const std::string& name, const std::string& file, unsigned line) {
    const std::uint64_t function = function_of(name, file);
    const auto [at, added] = locations_.try_emplace({function, line}, locations_.size() + 1);
    if (added) {
      ProtobufMessage where;
      where.number(1, function);
      where.number(2, line);
      ProtobufMessage location;
      location.number(1, at->second);
      location.message(4, where);
      profile_.message(4, location);
    }
    return at->second;
  }

  std::uint64_t function_of(const std::string& name, const std::string& file) {
    const std::uint64_t name_number = string(name);
    const std::uint64_t file_number = string(file);
    const auto [at, added] = functions_.try_emplace({name_number, file_number}, functions_.size() + 1);
    if (added) {
      ProtobufMessage function;
      function.number(1, at->second);
      function.number(2, name_number);
      function.number(3, name_number);
      function.number(4, file_number);
      profile_.message(5, function);
    }
    return at->second;
  }

  ProtobufMessage profile_;
  std::vector<std::uint64_t> comments_;
  std::map<std::string, std::uint64_t> strings_;
  std::map<std::uint64_t, const std::string*> order_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> functions_;
  std::map<std::pair<std::uint64_t, unsigned>, std::uint64_t> locations_;
  std::unordered_map<const Frame*, std::uint64_t> known_;  // locations by frame
};

}  // namespace

void render_pprof(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  pass_everything(out);
  Profile profile;
  std::uint64_t start = 0;
  for (const Report& report : reports) {
    if (start == 0) start = report.process.start_realtime_ns;
    for (const std::string& reason : reasons_not_known(report)) profile.comment("not known: " + reason);
    const std::string not_searched = not_searched_text(report);
    if (!not_searched.empty()) profile.comment("not searched: " + not_searched);
    for (const Group& group : report.leaks) {
      if (counts_as_leak(group, options.strict)) profile.add(group);
    }
  }
  out << profile.finish(start);
}

}  // namespace culprit::report
