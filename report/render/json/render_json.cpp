// The JSON report, member by member.
#include "report/render/json/render_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "report/base/parallel.h"
#include "report/base/printable.h"
#include "report/fields/report_fields.h"
#include "report/findings/finding.h"
#include "report/judge/fingerprint.h"
#include "report/model/memory_words.h"
#include "report/model/report.h"
#include "report/render/json/frame_texts.h"
#include "report/render/json/group_json.h"
#include "report/render/json/head_json.h"
#include "report/render/json/json_fields.h"

namespace culprit::report {
namespace {

// The modules in the stacks, each build of them once. `written`: the frames of all groups' own stacks; few, even for a
// hundred thousand stacks.
Json modules_json(const Report& report, const FrameTexts& written) {
  std::map<std::pair<std::string, std::string>, const Module*> modules;
  std::unordered_set<const Module*> seen;
  auto add_module = [&](const Module* module) {
    if (module != nullptr && seen.insert(module).second) modules.try_emplace({module->path, module->build_id}, module);
  };
  auto add_frame = [&](const Frame* frame) { add_module(frame->module); };
  auto add = [&](const ResolvedStack* stack) {
    if (stack != nullptr) std::for_each(stack->frames.begin(), stack->frames.end(), add_frame);
  };
  written.for_each(add_frame);
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    for (const Group& group : *groups) {
      for (const Evidence& evidence : group.evidence) {
        add(evidence.stack);
        add(evidence.caught);
        if (evidence.variable != nullptr) add_module(evidence.variable->module);
      }
    }
  }
  for (const Finding& finding : findings_of(report))
    for (const FindingPlace& place : finding.places) add(place.stack);
  for (const CallCharge& charge : report.call_charges) add(charge.stack);
  for (const ContextInfo& context : report.contexts) add(context.stack);
  for (const SharedMemory& shared : report.shared)
    for (const ResolvedStack* stack : {shared.allocated, shared.exported, shared.freed, shared.opened}) add(stack);
  for (const ErrorGroup& error : report.errors) add(error.stack);
  for (const FailedAllocation& failed : report.failed_allocations) add(failed.stack);
  for (const NotRecordedCalls& calls : report.audit.not_recorded) add(calls.stack);
  Json list = Json::array();
  for (const auto& [key, module] : modules) list.push_back(json_of(*module, {}, stack_json));
  return list;
}

// Writes groups. Not thread-safe.
class GroupWriter {
 public:
  // The indentation of a frame's opening brace relative to its group's.
  static constexpr std::size_t kFrameIndent = 4;

  // `report`: of the group; nullptr: of several.
  GroupWriter(const Report* report, FrameTexts* frames)
      : report_(report), indent_(frames->indent() - kFrameIndent), frames_(*frames) {}

  void write(const Group& group, std::string* out) {
    out->append(indent_, ' ');
    const bool may_be_freed = report_ != nullptr && words_of(*report_, group.cause).may_be_freed;
    *out += indented_text(group_json(group, may_be_freed, stack_json), indent_);
    out->resize(out->size() - 2 - indent_);  // removes the closing brace and its line: more members follow
    *out += ",\n";
    out->append(indent_ + 2, ' ');
    *out += "\"stack\": [";
    bool first = true;
    for (const Frame* frame : group.stack->frames) {
      *out += first ? "\n" : ",\n";
      *out += text_of_frame(frame);
      first = false;
    }
    if (!first) {
      *out += '\n';
      out->append(indent_ + 2, ' ');
    }
    *out += "],\n";
    out->append(indent_ + 2, ' ');
    *out += group.stack->merged ? "\"stack_merged\": true,\n" : "\"stack_merged\": false,\n";
    out->append(indent_ + 2, ' ');
    *out += group.stack->truncated ? "\"stack_truncated\": true\n" : "\"stack_truncated\": false\n";
    out->append(indent_, ' ');
    *out += '}';
  }

 private:
  // A cache, so that only the first look-up of a frame takes a lock.
  const std::string& text_of_frame(const Frame* frame) {
    const std::string*& text = known_[frame];
    if (text == nullptr) text = &frames_.of(frame);
    return *text;
  }

  const Report* report_;
  std::size_t indent_;
  FrameTexts& frames_;
  std::unordered_map<const Frame*, const std::string*> known_;
};

// Writes one report member by member: one document with a hundred thousand groups would need gigabytes.
class ReportWriter {
 public:
  // `indent`: the indentation of the report's opening brace, which the caller has written.
  ReportWriter(const Report& report, std::size_t indent, std::ostream& out)
      : report_(report), indent_(indent), out_(out), frames_(frame_json, indent + 4 + GroupWriter::kFrameIndent) {}

  void write() {
    out_ << "{\n";
    member("schema", "culprit.report/1");
    member("id_rule", kIdRule);
    const Json head = report_head_json(report_);
    for (const auto& [key, value] : head.items()) member(key, value);
    Lists lists(this);
    fields(lists, const_cast<Report*>(&report_));  // the list is shared with reading
    out_ << "\n" << std::string(indent_, ' ') << "}";
  }

 private:
  // The archive that writes the long lists, which end a report.
  class Lists : public FieldContext {
   public:
    explicit Lists(ReportWriter* writer) : writer_(*writer) {}
    void streamed(const char* name, const std::vector<Group>* list, const char*) { writer_.groups(name, *list); }
    template <typename Entry>
    void streamed(const char* name, const std::vector<Entry>* list, const char*) {
      writer_.member(name, json_of(*list, *this, stack_json));
    }
    void streamed(const char*, const char*) {
      writer_.member("modules", modules_json(writer_.report_, writer_.frames_));
    }
    template <typename... Anything>
    void field(FieldName, const Anything&...) {}
    template <typename... Anything>
    void shown(const Anything&...) {}
    template <typename... Anything>
    void kept(const Anything&...) {}

   private:
    ReportWriter& writer_;
  };

  void name(const std::string& name) {
    out_ << (first_ ? "" : ",\n") << std::string(indent_ + 2, ' ') << '"' << name << "\": ";
    first_ = false;
  }

  void member(const std::string& key, const Json& value) {
    name(key);
    out_ << indented_text(value, indent_ + 2);
  }

  void groups(const char* key, const std::vector<Group>& list) {
    name(key);
    if (list.empty()) {
      out_ << "[]";
      return;
    }
    out_ << "[\n";
    write_in_order(list.size(), out_, [&] {
      return [&, writer = GroupWriter(&report_, &frames_)](std::size_t i, std::string* text) mutable {
        writer.write(list[i], text);
        *text += i + 1 < list.size() ? ",\n" : "\n";
      };
    });
    out_ << std::string(indent_ + 2, ' ') << "]";
  }

  const Report& report_;
  std::size_t indent_;
  std::ostream& out_;
  FrameTexts frames_;
  bool first_ = true;
};

}  // namespace

void render_json(const std::vector<Report>& reports, std::ostream& out, bool nothing_known) {
  if (reports.size() == 1) {
    ReportWriter(reports.front(), 0, out).write();
    out << '\n';
    return;
  }
  out << "{\n  \"schema\": \"culprit.reports/1\",\n  \"summary\": "
      << indented_text(summary_of_all(reports, nothing_known), 2) << ",\n  \"reports\": [";
  bool first = true;
  for (const Report& report : reports) {
    out << (first ? "\n    " : ",\n    ");
    ReportWriter(report, 4, out).write();
    first = false;
  }
  out << (first ? "]\n}\n" : "\n  ]\n}\n");
}

std::string group_as_json(const Group& group) {
  std::string text;
  FrameTexts frames(frame_json, GroupWriter::kFrameIndent);
  GroupWriter(nullptr, &frames).write(group, &text);
  return text;
}

std::string error_as_json(const ErrorGroup& error) { return indented_text(error_json(error, stack_json), 0); }

std::string stack_as_json(const ResolvedStack& stack) { return indented_text(stack_json(&stack), 0); }

}  // namespace culprit::report
