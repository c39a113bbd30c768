#include "report/merge/join_sharings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "report/base/words.h"

namespace culprit::report {
namespace {

using format::SharingRole;
using format::SharingType;

// Clocks of two processes of one machine, and of a machine whose clock was set between their starts.
constexpr std::uint64_t kClockSlackNs = 100000000;
// Limits for a damaged file with very many records: how many equally named exports are looked at, how many entries are
// kept, and how many bytes their stacks may take in a report.
constexpr std::size_t kMostCandidates = 256;
constexpr std::size_t kMostEntries = 1000;
constexpr std::uint64_t kMostShownBytes = 64ULL << 20;

// A process, and its sharings.
struct Party {
  Report* report = nullptr;
  SharingSide side;
  std::uint64_t start_ns = 0;
};

struct Event {
  const Sharing* sharing = nullptr;
  const Party* party = nullptr;
  std::uint64_t at() const { return party->start_ns + sharing->time_ns; }
};

bool is_same(const Party& left, const Party& right) {
  return left.side.pid == right.side.pid && left.side.host == right.side.host && left.start_ns == right.start_ns;
}

std::vector<Party> parties_of(const std::vector<Report*>& reports) {
  std::vector<Party> parties;
  for (Report* report : reports) {
    if (report->job.empty()) {
      const ProcessInfo& process = report->process;
      parties.push_back({report,
                         {0, true, process.pid, process.host, process.rank, process.status.ended, process.status.gone},
                         process.start_realtime_ns});
    }
    for (std::uint32_t i = 0; i < report->job.size(); ++i) {
      const JobProcess& process = report->job[i];
      parties.push_back({report,
                         {i, true, process.pid, process.host, process.rank, process.ended, process.gone},
                         process.start_realtime_ns});
    }
  }
  return parties;
}

class Joiner {
 public:
  explicit Joiner(const std::vector<Report*>& reports) : parties_(parties_of(reports)) {
    std::size_t first = 0;
    for (const Report* report : reports) {
      for (const Sharing& sharing : report->sharings) add({&sharing, &parties_[first + sharing.process]});
      first += std::max<std::size_t>(1, report->job.size());
    }
    // The order of the reports makes no difference.
    const auto order = [](const Event& event) {
      const SharingSide& side = event.party->side;
      return std::make_tuple(event.at(), side.host, side.pid, event.sharing->key, event.sharing->bytes);
    };
    const auto before = [&](const Event& left, const Event& right) { return order(left) < order(right); };
    for (auto& [name, exports] : exports_) std::stable_sort(exports.begin(), exports.end(), before);
    std::stable_sort(imports_.begin(), imports_.end(), before);
  }

  void join() {
    for (const Event& import : imports_) {
      const Event* from = exporter_of(import);
      if (from == nullptr || !is_same(*from->party, *import.party)) add_entry(from, import);
    }
    for (auto& [key, entry] : entries_) tell(std::move(entry));
  }

 private:
  // An export and its import have the same name.
  struct Name {
    SharingType type;
    std::uint64_t key;
    std::string host;  // "": any
    std::string gpu;   // likewise
    std::uint64_t bytes;
    bool freed;
    bool operator<(const Name& other) const {
      const auto order = [](const Name& name) {
        return std::tie(name.type, name.key, name.host, name.gpu, name.bytes, name.freed);
      };
      return order(*this) < order(other);
    }
  };
  // `freed` matters for descriptors only.
  static Name name_of(const Event& event, bool freed) {
    const Sharing& sharing = *event.sharing;
    const std::string& host = event.party->side.host;
    switch (sharing.type) {
      case SharingType::kFileDescriptor:
        return {sharing.type, 0, host, sharing.gpu, sharing.bytes, freed};
      case SharingType::kFabricHandle:
        return {sharing.type, sharing.key, "", "", 0, false};
      default:
        return {sharing.type, sharing.key, host, "", 0, false};
    }
  }

  void add(const Event& event) {
    if (event.sharing->role == SharingRole::kExport) {
      exports_[name_of(event, event.sharing->ended_ns != 0)].push_back(event);
    } else {
      imports_.push_back(event);
    }
  }

  // The newest export of this name before the import, if possible of another process; nullptr: none.
  const Event* newest(const Name& name, const Event& import) const {
    const auto known = exports_.find(name);
    if (known == exports_.end()) return nullptr;
    const std::vector<Event>& exports = known->second;
    auto at = std::upper_bound(exports.begin(), exports.end(), import.at() + kClockSlackNs,
                               [](std::uint64_t time, const Event& event) { return time < event.at(); });
    const Event* found = nullptr;
    for (std::size_t tries = 0; at != exports.begin() && tries < kMostCandidates; ++tries) {
      --at;
      if (!is_same(*at->party, *import.party)) return &*at;
      if (found == nullptr) found = &*at;
    }
    return found;
  }

  // Of descriptors one that was not freed is preferred, so that memory is not said to stay that may be another one.
  const Event* exporter_of(const Event& import) const {
    const bool certain = import.sharing->type != SharingType::kFileDescriptor;
    if (certain) return newest(name_of(import, false), import);
    if (import.sharing->bytes == 0) return nullptr;
    const Event* live = newest(name_of(import, false), import);
    if (live != nullptr && !is_same(*live->party, *import.party)) return live;
    const Event* freed = newest(name_of(import, true), import);
    return freed != nullptr && (live == nullptr || !is_same(*freed->party, *import.party)) ? freed : live;
  }

  static SharedState state_of(const Event* from, const Event& import) {
    if (from == nullptr) return SharedState::kExporterUnknown;
    const SharingSide& exporter = from->party->side;
    const bool is_over = exporter.ended == Ended::kExit || exporter.ended == Ended::kKilled || exporter.gone;
    const bool ended_before = import.party->side.ended == Ended::kRunning && is_over;
    return from->sharing->ended_ns != 0 || ended_before ? SharedState::kStays : SharedState::kOpen;
  }

  void add_entry(const Event* from, const Event& import) {
    SharedMemory entry;
    entry.state = state_of(from, import);
    entry.certain = from == nullptr || import.sharing->type != SharingType::kFileDescriptor;
    entry.type = import.sharing->type;
    entry.device = import.sharing->device;
    entry.gpu = import.sharing->gpu;
    entry.bytes = from == nullptr ? import.sharing->bytes : from->sharing->bytes;
    entry.count = 1;
    entry.importer = import.party->side;
    entry.opened = import.sharing->stack;
    entry.opened_ns = import.sharing->time_ns;
    if (from != nullptr) {
      entry.exporter = from->party->side;
      entry.allocated = from->sharing->stack;
      entry.exported = from->sharing->export_stack;
      if (from->sharing->ended_ns != 0) entry.freed = from->sharing->end_stack;
      entry.freed_ns = from->sharing->ended_ns;
    }
    const Party* exporter = from == nullptr ? nullptr : from->party;
    const Key key = {entry.state,  entry.certain,   entry.type,     entry.device, exporter,
                     import.party, entry.allocated, entry.exported, entry.freed,  entry.opened};
    // An allocation that one process opened twice stays once.
    const bool again = from != nullptr && entry.certain && !counted_.insert({from->sharing, import.party}).second;
    const auto [at, is_new] = entries_.try_emplace(key, Joined{entry, exporter, import.party});
    if (is_new || again) return;
    SharedMemory& sum = at->second.memory;
    sum.bytes += entry.bytes;
    ++sum.count;
  }

  struct Joined {
    SharedMemory memory;
    const Party* exporter = nullptr;
    const Party* importer = nullptr;
  };

  static void tell(Joined joined) {
    Report* at = joined.importer->report;
    Report* from = joined.exporter == nullptr ? at : joined.exporter->report;
    if (from != at) {
      // Each report keeps the other one's stacks.
      at->shared_stacks.insert(from->stacks);
      from->shared_stacks.insert(at->stacks);
      SharedMemory copy = joined.memory;
      copy.importer.in_report = false;
      from->shared.push_back(std::move(copy));
      joined.memory.exporter->in_report = false;
    }
    at->shared.push_back(std::move(joined.memory));
  }

  using Key = std::tuple<SharedState, bool, SharingType, std::optional<unsigned>, const Party*, const Party*,
                         const ResolvedStack*, const ResolvedStack*, const ResolvedStack*, const ResolvedStack*>;

  std::vector<Party> parties_;
  std::map<Name, std::vector<Event>> exports_;  // by time
  std::vector<Event> imports_;
  std::map<Key, Joined> entries_;
  std::set<std::pair<const Sharing*, const Party*>> counted_;
};

// Memory that stays comes first, then by size.
void put_in_order(std::vector<SharedMemory>* shared) {
  const auto order = [](const SharedMemory& one) {
    const std::uint32_t exporter = one.exporter ? one.exporter->process : 0;
    return std::make_tuple(one.state, !one.certain, ~one.bytes, one.importer.process, one.importer.pid, exporter,
                           one.opened_ns, one.freed_ns, one.type);
  };
  std::stable_sort(shared->begin(), shared->end(),
                   [&](const SharedMemory& left, const SharedMemory& right) { return order(left) < order(right); });
}

void leave_out_the_rest(Report* report) {
  std::uint64_t shown = 0;
  std::size_t kept = 0;
  for (; kept < report->shared.size() && kept < kMostEntries; ++kept) {
    const SharedMemory& one = report->shared[kept];
    for (const ResolvedStack* stack : {one.allocated, one.exported, one.freed, one.opened})
      shown += stack != nullptr ? shown_bytes(*stack) : 0;
    if (shown > kMostShownBytes) break;
  }
  if (kept == report->shared.size()) return;
  report->notes.push_back("too many mappings of other processes' memory: " +
                          plural(report->shared.size() - kept, "entry is", "entries are") + " left out");
  report->shared.resize(kept);
}

}  // namespace

void join_sharings(const std::vector<Report*>& reports) {
  Joiner(reports).join();
  for (Report* report : reports) {
    put_in_order(&report->shared);
    leave_out_the_rest(report);
  }
}

}  // namespace culprit::report
