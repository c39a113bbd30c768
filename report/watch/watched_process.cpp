#include "report/watch/watched_process.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "interpose/format/device_bytes.h"
#include "report/base/stable_hash.h"
#include "report/cuda/kinds.h"
#include "report/dump/dump_reader.h"
#include "report/dump/region_map.h"
#include "report/judge/balances.h"
#include "report/judge/fingerprint.h"
#include "report/judge/pool_rules.h"
#include "report/load/read_facts.h"
#include "report/model/balance.h"
#include "report/model/group.h"
#include "report/model/not_recorded.h"
#include "report/model/record_facts.h"
#include "report/model/report.h"
#include "report/model/stacks.h"

namespace culprit::report {

using namespace format;

namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdULL;
  return hash ^ hash >> 29;
}

// The same for equal frames: the room of a stack that nothing refers to is given to other stacks.
std::uint64_t hash_of_stack(const Dump& dump, Ref ref) {
  StackView view;
  if (!dump.stack(ref, &view)) return 0;
  std::uint64_t hash = view.frame_count;
  for (std::uint32_t i = 0; i < view.frame_count; ++i) {
    const std::uint64_t frame = view.frames[i];
    PythonFrameRecord python;
    const bool is_python = (frame >> kFrameModuleShift & kFrameModuleMask) == kPythonModule &&
                           dump.python_frame(static_cast<Ref>(frame), &python);
    hash = mixed(hash, is_python ? python.identity : frame);
  }
  return hash;
}

// Code that the CUDA runtime loads for itself.
bool is_own_of_runtime(Kind kind, const ResolvedStack& stack) {
  if (kind != Kind::kModule && kind != Kind::kLibrary) return false;
  return stack.through_runtime && stack.runtime_api.rfind("cudaLibraryLoad", 0) != 0;
}

bool is_counted(Kind kind) { return !is_physical(kind) && kind_class(kind) != KindClass::kInside; }

}  // namespace

struct WatchedProcess::OwnedStack {
  std::deque<Module> modules;
  std::deque<Frame> frames;

  // A copy whose parts live here.
  ResolvedStack own(const ResolvedStack& stack) {
    ResolvedStack copy = stack;
    std::map<const Module*, const Module*> own_modules;
    const auto own_frame = [&](const Frame* from) {
      frames.push_back(*from);
      if (from->module == nullptr) return &frames.back();
      const Module*& module = own_modules[from->module];
      if (module == nullptr) {
        modules.push_back(*from->module);
        module = &modules.back();
      }
      frames.back().module = module;
      return &frames.back();
    };
    for (std::size_t i = 0; i < copy.frames.size(); ++i) {
      const bool calls = copy.frames[i] == stack.caller;
      copy.frames[i] = own_frame(copy.frames[i]);
      if (calls) copy.caller = copy.frames[i];
    }
    if (copy.caller == stack.caller && stack.caller != nullptr) copy.caller = own_frame(stack.caller);
    return copy;
  }
};

// All that has one stack, and one kind, purpose or inside.
struct WatchedProcess::Sum {
  Ref stack = 0;
  Kind kind = Kind::kNone;
  DriverMemory purpose = DriverMemory::kNone;  // of the driver's own memory
  Inside inside = Inside::kNone;
  std::uint16_t api = 0;
  std::uint8_t device = kNoDevice;
  RowSample sample;
};

double WatchedProcess::seconds() const {
  const std::vector<double>& times = history_.times();
  return times.empty() ? 0 : times.back() - history_.scale().begin;
}

void WatchedProcess::read_process(const Dump& dump) {
  const Header& header = dump.header();
  pid_ = header.pid;
  host_.assign(header.host, ::strnlen(header.host, sizeof(header.host)));
  if (!command_.empty()) return;
  std::string_view rest = dump.string(header.command_line);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    command_.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void WatchedProcess::read_devices(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers) {
  for (const DeviceRecord& record : dump.devices()) {
    if (record.ordinal >= kNoDevice) continue;
    Device& device = devices_[record.ordinal];
    device.total = std::max({record.first.total_bytes, record.peak.total_bytes, device.total});
    device.live = record.live_bytes;
    const auto answer = answers.find(uuid_text(record));
    if (answer != answers.end()) device.in_use = answer->second.in_use;
  }
}

// On a clock that stands still while recording is off.
double WatchedProcess::seconds_of(std::uint64_t ns) const {
  std::uint64_t off = 0;
  for (const Pause& pause : pauses_) {
    if (ns > pause.begin_ns) off += std::min(ns, pause.end_ns) - pause.begin_ns;
  }
  return static_cast<double>(ns - std::min(ns, off)) / 1e9;
}

template <typename Record>
WatchedProcess::Sum WatchedProcess::new_sum(const Record& record) {
  Sum sum;
  sum.stack = record.stack;
  sum.kind = record.kind;
  sum.api = record.api;
  sum.device = record.device;
  sum.sample.births.assign(BirthScale::kParts, 0.0F);
  return sum;
}

WatchedProcess::Sums WatchedProcess::sums_of(const Dump& dump, const BirthScale& scale) const {
  Sums sums;
  std::unordered_map<std::uint64_t, std::size_t> index;
  dump.for_each_allocation([&](const AllocationRecord& record, Ref) {
    if (kind_class(record.kind) == KindClass::kNeverCounted) return;
    const bool counted = is_counted(record.kind);
    const std::uint64_t value = counted                        ? 1
                                : record.kind == Kind::kRegion ? record.bytes
                                                               : culprit::physical_bytes(record);
    const auto [at, added] =
        index.emplace(std::uint64_t{record.stack} << 8 | static_cast<std::uint8_t>(record.kind), sums.size());
    if (added) sums.push_back(new_sum(record));
    RowSample& sample = sums[at->second].sample;
    sample.live += static_cast<double>(value);
    sample.births[scale.part_of(seconds_of(record.time_ns))] += static_cast<float>(value);
  });
  const CallCounts counts = dump.call_counts();
  for (Sum& sum : sums) {
    StackView view;
    if (!dump.stack(sum.stack, &view)) continue;
    const auto more = counts.by_stack.find(sum.stack);
    sum.sample.made = view.allocations + (more != counts.by_stack.end() ? more->second : 0);
  }
  return sums;
}

void WatchedProcess::add_contexts(const Dump& dump, const BirthScale& scale, Sums* sums) const {
  std::map<std::pair<Ref, Kind>, std::size_t> index;
  for (const ContextRecord& record : dump.contexts()) {
    if (record.state != ContextState::kAlive || record.thread == kNoIndex || record.kind == Kind::kPrimaryContext)
      continue;
    const auto [at, added] = index.emplace(std::make_pair(record.stack, record.kind), sums->size());
    if (added) sums->push_back(new_sum(record));
    RowSample& sample = (*sums)[at->second].sample;
    ++sample.live;
    ++sample.births[scale.part_of(seconds_of(record.created_ns))];
  }
}

// Memory that the driver took in calls that allocate nothing. Its times of birth are not recorded.
void WatchedProcess::add_charges(const Dump& dump, Sums* sums) const {
  for (const CallChargeRecord& record : dump.call_charges()) {
    if (record.context == kNoIndex || record.bytes <= 0 || part_of(record.what) == BalancePart::kRest) continue;
    Sum sum;
    sum.stack = record.stack;
    sum.purpose = record.what;
    sum.api = record.api;
    sum.device = record.device;
    sum.sample.live = static_cast<double>(record.bytes);
    sum.sample.made = record.count;
    sums->push_back(std::move(sum));
  }
}

// By the stacks of the allocations that the heaps lie in. Idle bytes have no time of birth.
void WatchedProcess::add_insides(const Dump& dump, Sums* sums) const {
  const RegionMap regions(dump);
  if (!regions.has_heaps()) return;
  std::map<std::pair<Ref, Inside>, std::size_t> index;
  dump.for_each_allocation([&](const AllocationRecord& record, Ref ref) {
    const std::vector<HeapRecordUse>* const heaps = regions.heaps_of(ref);
    if (heaps == nullptr) return;
    for (const HeapRecordUse& heap : *heaps) {
      const std::uint64_t idle = heap.bytes - std::min(heap.used_bytes, heap.bytes);
      const std::uint64_t scattered = idle - std::min(heap.largest_hole, idle);
      for (const auto& [inside, bytes] : {std::pair(Inside::kIdle, idle), std::pair(Inside::kScattered, scattered)}) {
        const auto [at, added] = index.emplace(std::make_pair(record.stack, inside), sums->size());
        if (added) {
          Sum sum;
          sum.stack = record.stack;
          sum.inside = inside;
          sum.api = record.api;
          sum.device = record.device;
          sums->push_back(std::move(sum));
        }
        (*sums)[at->second].sample.live += static_cast<double>(bytes);
      }
    }
  });
}

// "driver-streams", "heap-idle", ... of memory that no allocation is; "" of an allocation.
std::string WatchedProcess::kind_of_no_allocation(const Sum& sum) {
  if (sum.inside != Inside::kNone) return sum.inside == Inside::kIdle ? "heap-idle" : "heap-scattered";
  if (sum.purpose == DriverMemory::kNone) return {};
  return std::string("driver-") + balance_name(part_of(sum.purpose));
}

std::optional<std::size_t> WatchedProcess::row_of(WatchedRow row) {
  const auto known = row_by_id_.find(row.id);
  if (known != row_by_id_.end()) return known->second;
  if (rows_.size() >= most_rows_) {
    ++left_out_;
    return std::nullopt;
  }
  const std::size_t number = history_.add_row();
  row_by_id_.emplace(row.id, number);
  rows_.push_back(std::make_unique<WatchedRow>(std::move(row)));
  next_.emplace_back();
  return number;
}

// A row without a stack.
std::optional<std::size_t> WatchedProcess::row_of_device(const char* kind, unsigned device) {
  StableHash hash;
  hash.add(kind);
  hash.add(std::to_string(device));
  WatchedRow row;
  row.id = hash.hex();
  row.kind = kind;
  row.device = device;
  return row_of(std::move(row));
}

void WatchedProcess::set(std::size_t row, RowSample sample) {
  RowSample& sum = next_[row];
  sum.live += sample.live;
  sum.made += sample.made;
  if (sum.births.empty()) {
    sum.births = std::move(sample.births);
    return;
  }
  for (std::size_t part = 0; part < sample.births.size(); ++part) sum.births[part] += sample.births[part];
}

// Only new stacks are resolved.
void WatchedProcess::find_rows(const Dump& dump, Sums* sums) {
  std::vector<std::uint64_t> hashes;
  std::vector<Ref> new_stacks;
  for (const Sum& sum : *sums) {
    const std::uint64_t what = static_cast<std::uint64_t>(sum.inside) << 16 |
                               static_cast<std::uint64_t>(sum.kind) << 8 | static_cast<std::uint64_t>(sum.purpose);
    hashes.push_back(mixed(hash_of_stack(dump, sum.stack), what));
    if (row_by_stack_.count(hashes.back()) == 0) new_stacks.push_back(sum.stack);
  }
  std::optional<StackResolver> resolver;
  auto owned = std::make_shared<OwnedStack>();
  PoolRules pools;
  if (!new_stacks.empty()) {
    resolver.emplace(dump, lookup_, full_stacks_);
    resolver->resolve(new_stacks);
    stacks_.push_back(owned);
  }
  for (std::size_t i = 0; i < sums->size(); ++i) {
    Sum& sum = (*sums)[i];
    auto known = row_by_stack_.find(hashes[i]);
    if (known == row_by_stack_.end()) {
      const ResolvedStack& stack = resolver->stack(sum.stack);
      std::optional<std::size_t> number;
      if (!is_own_of_runtime(sum.kind, stack)) {
        Group group;
        group.stack = &stack;
        const std::string own_kind = kind_of_no_allocation(sum);
        group.kind = own_kind.empty() ? sum.kind : Kind::kDevice;
        WatchedRow row;
        row.id = fingerprint(group);
        row.kind = kind_name(group.kind);
        row.objects = own_kind.empty() && is_counted(sum.kind);
        if (!own_kind.empty()) {
          row.kind = own_kind;
          StableHash hash;
          hash.add(row.kind);
          hash.add(row.id);
          row.id = hash.hex();
        }
        row.api = api_of(dump, sum.api, stack);
        row.device = device_of(sum.device);
        if (row_by_id_.count(row.id) == 0) {
          row.stack = owned->own(stack);
          pools.examine(owned->frames);
          if (const Pool* pool = pools.owning_pool(row.stack)) row.pool = pool->name;
        }
        number = row_of(std::move(row));
      }
      known = row_by_stack_.emplace(hashes[i], number).first;
    }
    if (known->second) set(*known->second, std::move(sum.sample));
  }
}

// By NVML's figure for the process alone: that of the device has its neighbours in it. An answer is compared with the
// dump of its own moment only; until the next one the figure stays.
void WatchedProcess::add_unexplained(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers) {
  const bool asked = std::any_of(answers.begin(), answers.end(), [](const auto& one) { return one.second.own; });
  if (asked) {
    Report facts = read_facts(dump, MachineFacts());
    facts.present_use = read_present_use(dump, facts, dump.call_charges());
    const StackResolver no_stacks(
        dump, [](std::vector<ModuleSymbols>&) {}, false);
    facts.contexts = read_contexts(dump, no_stacks, facts);
    for (const DeviceRecord& device : dump.devices()) {
      const auto answer = answers.find(uuid_text(device));
      if (answer == answers.end() || !answer->second.own) continue;
      const std::optional<Balance> balance = balance_now(facts, device.ordinal, answer->second.own);
      if (!balance || !balance->has_rest()) continue;
      if (const std::optional<std::size_t> row = row_of_device("driver-rest", device.ordinal))
        without_stacks_[*row] = static_cast<double>(std::max<std::int64_t>(balance->rest(), 0));
    }
  }
}

// PyTorch's counts have no stack.
void WatchedProcess::add_caches(const std::vector<CacheBytes>& caches) {
  for (const CacheBytes& cache : caches) {
    for (const auto& [kind, bytes] : {std::pair(kCacheLive, cache.live), std::pair(kCacheIdle, cache.idle()),
                                      std::pair(kCacheScattered, cache.scattered)}) {
      if (const std::optional<std::size_t> row = row_of_device(kind, cache.device))
        without_stacks_[*row] = static_cast<double>(bytes);
    }
  }
}

WatchedProcess::Look WatchedProcess::sample(const Dump& dump, std::uint64_t now_ns,
                                            const std::map<std::string, DeviceAnswer>& answers,
                                            const std::vector<CacheBytes>& caches) {
  const Header& header = dump.header();
  read_process(dump);
  if (header.process_state != ProcessState::kRunning) return Look::kEnded;
  if (header.recording_state == RecordingState::kOff) return Look::kOff;
  read_devices(dump, answers);
  pauses_.clear();
  std::vector<SpanRecord> spans = dump.spans();
  std::sort(spans.begin(), spans.end(),
            [](const SpanRecord& left, const SpanRecord& right) { return left.begin_ns < right.begin_ns; });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i - 1].end_ns != 0 && spans[i - 1].end_ns < spans[i].begin_ns)
      pauses_.push_back({spans[i - 1].end_ns, spans[i].begin_ns});
  }
  const double now = seconds_of(now_ns);
  // After a pause nothing was allocated yet.
  if (history_.samples() != 0 && now <= history_.times().back()) return Look::kOff;
  const BirthScale scale = history_.begin(now);
  next_.assign(rows_.size(), RowSample());
  Sums sums = sums_of(dump, scale);
  add_contexts(dump, scale, &sums);
  add_charges(dump, &sums);
  add_insides(dump, &sums);
  find_rows(dump, &sums);
  add_unexplained(dump, answers);
  add_caches(caches);
  for (const auto& [row, bytes] : without_stacks_) {
    RowSample sample;
    sample.live = bytes;
    set(row, std::move(sample));
  }
  dump.check_whole();
  for (std::size_t row = 0; row < rows_.size(); ++row) history_.set(row, std::move(next_[row]));
  history_.end();
  gaps_ = recording_gaps(read_facts(dump, MachineFacts()));
  return Look::kSampled;
}

bool is_before(const JudgedRow& left, const JudgedRow& right) {
  if (left.judgement.verdict != right.judgement.verdict) return left.judgement.verdict < right.judgement.verdict;
  return left.row->objects != right.row->objects ? right.row->objects
                                                 : left.judgement.per_minute > right.judgement.per_minute;
}

std::vector<JudgedRow> WatchedProcess::judge(double least_per_minute) const {
  std::vector<JudgedRow> judged;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const RowHistory& history = history_.rows()[i];
    JudgedRow one;
    one.row = rows_[i].get();
    one.judgement = judge_row(history_, history, one.row->objects ? 0 : least_per_minute);
    one.live = history.last.live;
    one.made = history.last.made;
    const auto device = one.row->device ? devices_.find(*one.row->device) : devices_.end();
    const bool fills = one.judgement.verdict == WatchVerdict::kLeaking && one.judgement.per_minute > 0 &&
                       !one.row->objects && one.row->kind != "pinned-host" && one.row->kind != "registered-host" &&
                       !one.row->is_of_cache();
    if (fills && device != devices_.end() && device->second.total != 0) {
      const std::uint64_t used = device->second.in_use.value_or(device->second.live);
      one.at_most = !device->second.in_use;
      const double room = static_cast<double>(device->second.total - std::min(used, device->second.total));
      one.seconds_until_full = room / one.judgement.per_minute * 60;
    }
    judged.push_back(one);
  }
  std::stable_sort(judged.begin(), judged.end(), is_before);
  return judged;
}

}  // namespace culprit::report
