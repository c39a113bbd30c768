#include "report/render/render_memory_viz.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "report/base/printable_stream.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/report.h"
#include "report/render/pickle.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// PyTorch's own limit between its two sorts of segments.
constexpr std::uint64_t kLargestSmall = 1 << 20;

// Above all addresses of a GPU, and exact as a number of JavaScript.
constexpr std::uint64_t kFirstMadeUp = 1ULL << 52;
constexpr std::uint64_t kMadeUpUnit = 2 << 20;
constexpr std::uint64_t kLastMadeUp = 1ULL << 53;

// Handles of arrays and VMM memory are no addresses, and lie as close together as the driver's objects do.
bool has_address(format::Kind kind) {
  using format::Kind;
  return kind == Kind::kDevice || kind == Kind::kManaged || kind == Kind::kPitched || kind == Kind::kStreamOrdered ||
         kind == Kind::kGraphMemory;
}

// Which of several processes a stack is of.
std::string owner_text(const ProcessInfo& process, unsigned device) {
  return (process.rank ? "rank " + std::to_string(*process.rank) + ", " : "") + "process " +
         std::to_string(process.pid) + " on " + process.host + ", GPU " + std::to_string(device);
}

class Snapshot {
 public:
  Snapshot(std::ostream& out, bool name_processes) : pickle_(out), name_processes_(name_processes) {
    pickle_.begin_dict();
    text("segments");
    pickle_.begin_list();
  }

  void add(const Report& report) {
    frames_.clear();
    if (!name_processes_) {
      for (const DeviceInfo& device : report.devices) devices_ = std::max(devices_, device.ordinal + 1);
    }
    for (const std::vector<Group>* groups : {&report.leaks, &report.library}) {
      for (const Group& group : *groups) add(report, group);
    }
  }

  // Returns how many allocations of GPU memory could not be shown.
  std::uint64_t finish() {
    pickle_.end_list(segments_);
    text("device_traces");
    pickle_.begin_list();
    for (unsigned i = 0; i < devices_; ++i) {
      pickle_.next_in_list(i);
      pickle_.begin_list();
      pickle_.end_list(0);
    }
    pickle_.end_list(devices_);
    pickle_.end_dict();
    pickle_.finish();
    return left_out_;
  }

 private:
  void add(const Report& report, const Group& group) {
    if (kind_class(group.kind) != KindClass::kDeviceMemory || group.bytes == 0) return;
    // Of memory that ended with its context there are sums only, like in a merged report.
    if (group.each.empty())
      left_out_ += group.cause == Cause::kContextTeardown && group.shares.empty() ? 0 : group.count;
    if (group.each.empty()) return;
    const unsigned ordinal = group.device.value_or(0);
    const unsigned device = number_of(report, ordinal);
    for (const SingleAllocation& one : group.each) {
      pickle_.next_in_list(segments_++);
      add_segment(one, has_address(group.kind) ? one.handle : made_up_address(one.bytes), device, [&] {
        const auto [at, added] = frames_.try_emplace({group.stack, ordinal}, 0);
        if (!added) return pickle_.get(at->second);
        add_frames(*group.stack, name_processes_ ? owner_text(report.process, ordinal) : "");
        at->second = pickle_.put();
      });
    }
  }

  template <typename Frames>
  void add_segment(const SingleAllocation& one, std::uint64_t address, unsigned device, Frames add_frames) {
    pickle_.begin_dict();
    number("device", device);
    number("address", address);
    for (const char* key : {"total_size", "allocated_size", "active_size", "requested_size"}) number(key, one.bytes);
    number("stream", 0);
    text("segment_type");
    text(one.bytes > kLargestSmall ? "large" : "small");
    text("is_expandable");
    pickle_.truth(false);
    text("frames");
    add_frames();
    text("blocks");
    pickle_.begin_list();
    pickle_.next_in_list(0);
    pickle_.begin_dict();
    number("address", address);
    number("size", one.bytes);
    number("requested_size", one.bytes);
    text("state");
    text("active_allocated");
    text("frames");
    add_frames();
    pickle_.end_dict();
    pickle_.end_list(1);
    pickle_.end_dict();
  }

  void add_frames(const ResolvedStack& stack, const std::string& owner) {
    pickle_.begin_list();
    std::uint64_t count = 0;
    for (const Frame* frame : stack.frames) {
      const auto [at, added] = known_.try_emplace(frame, 0);
      pickle_.next_in_list(count++);
      if (!added) {
        pickle_.get(at->second);
        continue;
      }
      const std::string name = frame->function.empty() ? hex_text(frame->offset) : frame->function;
      const bool has_file = !frame->file.empty();
      add_frame(name, has_file || frame->module == nullptr ? frame->file : frame->module->path, frame->line);
      at->second = pickle_.put();
    }
    if (count == 0) {
      pickle_.next_in_list(count++);
      add_frame("(stack not recorded)", "", 0);
    }
    if (!owner.empty()) {
      pickle_.next_in_list(count++);
      add_frame(owner, "", 0);
    }
    pickle_.end_list(count);
  }

  void add_frame(const std::string& name, const std::string& file, unsigned line) {
    pickle_.begin_dict();
    text("name");
    text(printable(name));
    text("filename");
    text(file.empty() ? "??" : printable(file));
    number("line", line);
    pickle_.end_dict();
  }

  void number(const char* key, std::uint64_t value) {
    text(key);
    pickle_.number(value);
  }

  // Names occur again and again: each is written once.
  void text(const std::string& value) {
    const auto [at, added] = texts_.try_emplace(value, 0);
    if (!added) return pickle_.get(at->second);
    pickle_.text(value);
    at->second = pickle_.put();
  }

  // One behind the other. A damaged dump may have more bytes than there are addresses: they overlap then.
  std::uint64_t made_up_address(std::uint64_t bytes) {
    const std::uint64_t address = next_made_up_;
    const std::uint64_t room = kLastMadeUp - next_made_up_;
    if (bytes < room - std::min(room, kMadeUpUnit))
      next_made_up_ += (bytes + kMadeUpUnit - 1) / kMadeUpUnit * kMadeUpUnit;
    return address;
  }

  unsigned number_of(const Report& report, unsigned ordinal) {
    const unsigned number =
        name_processes_ ? numbers_.try_emplace({&report, ordinal}, static_cast<unsigned>(numbers_.size())).first->second
                        : ordinal;
    devices_ = std::max(devices_, number + 1);
    return number;
  }

  PickleWriter pickle_;
  bool name_processes_;
  std::uint64_t segments_ = 0;
  unsigned devices_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t next_made_up_ = kFirstMadeUp;
  std::map<std::pair<const Report*, unsigned>, unsigned> numbers_;  // of the GPUs of several processes
  std::map<std::pair<const ResolvedStack*, unsigned>, std::uint32_t> frames_;
  std::unordered_map<const Frame*, std::uint32_t> known_;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

}  // namespace

void render_memory_viz(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  pass_everything(out);
  Snapshot snapshot(out, reports.size() > 1);
  for (const Report& report : reports) snapshot.add(report);
  const std::uint64_t left_out = snapshot.finish();
  if (left_out != 0 && options.left_out != nullptr)
    options.left_out->push_back("memory-viz: " + plural(left_out, "allocation is", "allocations are") +
                                " left out, because a merged report has only sums: name the dumps, and leave out "
                                "--merge");
}

}  // namespace culprit::report
