#include "report/screen/live_model.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "report/model/group.h"
#include "report/watch/trend.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLeastForRate = 3;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string track_key(const std::string& process, const std::string& by, const std::string& row) {
  return process + '\n' + by + '\n' + row;
}

std::uint64_t positive(std::int64_t bytes) { return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)); }

std::uint64_t part(const std::map<BalancePart, std::int64_t>& parts, BalancePart what) {
  const auto found = parts.find(what);
  return found == parts.end() ? 0 : positive(found->second);
}

std::int64_t change(double now, double before) { return static_cast<std::int64_t>(now - before); }

// Whether `left` is shown before `right`.
bool is_before(const LiveRow& left, const LiveRow& right, LiveSort sort) {
  const auto by = [](const auto& one, const auto& other) { return one > other; };
  switch (sort) {
    case LiveSort::kLive:
      break;
    case LiveSort::kSinceStart:
      return by(left.since_start, right.since_start);
    case LiveSort::kSinceMark:
      return by(left.since_mark, right.since_mark);
    case LiveSort::kRate:
      return by(left.per_minute, right.per_minute);
    case LiveSort::kCount:
      return by(left.row->total.allocations, right.row->total.allocations);
    case LiveSort::kOldest:
      return by(left.oldest_seconds, right.oldest_seconds);
  }
  return by(left.row->total.bytes, right.row->total.bytes);
}

}  // namespace

const char* live_sort_name(LiveSort sort) {
  switch (sort) {
    case LiveSort::kLive:
      break;
    case LiveSort::kSinceStart:
      return "since start";
    case LiveSort::kSinceMark:
      return "since m";
    case LiveSort::kRate:
      return "MiB/min";
    case LiveSort::kCount:
      return "count";
    case LiveSort::kOldest:
      return "oldest";
  }
  return "live";
}

std::uint64_t LiveDeviceSum::cached() const { return part(parts, BalancePart::kCached); }

std::uint64_t LiveDeviceSum::allocated() const { return live - std::min(live, cached()); }

std::uint64_t LiveDeviceSum::driver() const {
  std::uint64_t sum = 0;
  for (const auto& [what, bytes] : parts) {
    const bool beside = what == BalancePart::kAllocations || what == BalancePart::kCached ||
                        what == BalancePart::kOtherProcesses || what == BalancePart::kNoProcess;
    if (!beside) sum += positive(bytes);
  }
  return sum;
}

std::uint64_t LiveDeviceSum::others() const {
  const std::uint64_t own = allocated() + cached() + driver();
  return in_use && *in_use > own ? *in_use - own : 0;
}

// `before`: looks at the process before this one, in which a new track had nothing.
void LiveModel::add_value(Track* track, double value, std::size_t before, std::size_t most) {
  if (track->look == 0) track->values.assign(std::min(before, most - 1), 0);
  track->values.push_back(value);
  if (track->values.size() > most) track->values.pop_front();
  track->look = looks_;
}

void LiveModel::add_process(const LiveProcess& process) {
  const auto [at, added] = processes_.try_emplace(process.key);
  Known& known = at->second;
  if (added) {
    known.first_look = looks_;
  } else if (look_.seconds > known.seconds) {
    const double seconds = look_.seconds - known.seconds;
    // A count may be read while a thread adds its part to it.
    const auto rate = [&](std::uint64_t now, std::uint64_t last) {
      return static_cast<double>(now - std::min(now, last)) / seconds;
    };
    known.allocation_rate = rate(process.allocations, known.allocations);
    known.free_rate = rate(process.frees, known.frees);
  }
  known.allocations = std::max(known.allocations, process.allocations);
  known.frees = std::max(known.frees, process.frees);
  known.look = looks_;
  known.seconds = look_.seconds;
  const auto before = static_cast<std::size_t>(looks_ - known.first_look);
  for (const auto& [by, rows] : process.rows) {
    for (const GroupedRow& row : rows) {
      Track& track = rows_[track_key(process.key, by, row.key)];
      const auto bytes = static_cast<double>(row.total.bytes);
      if (track.look == looks_) {  // rows that a reader cannot tell apart
        track.values.back() += bytes;
        if (before == 0) track.first += bytes;
        continue;
      }
      if (track.look == 0 && before == 0) track.first = bytes;
      add_value(&track, bytes, before, kLooksOfRate);
    }
  }
}

void LiveModel::add(LiveLook look) {
  look_ = std::move(look);
  if (++looks_ == 1) first_seconds_ = look_.seconds;
  times_.push_back(look_.seconds);
  if (times_.size() > kLooksOfRate) times_.pop_front();
  std::map<std::string, double> live;
  for (const LiveProcess& process : look_.processes) {
    add_process(process);
    for (const LiveDevice& device : process.devices) {
      live['\n' + device.uuid] += static_cast<double>(device.live);
      live[process.key + '\n' + device.uuid] += static_cast<double>(device.live);
    }
  }
  for (const auto& [key, bytes] : live) add_value(&devices_[key], bytes, 0, kLooksOfHistory);
  for (auto& [key, track] : devices_) {
    if (track.look != looks_) add_value(&track, 0, 0, kLooksOfHistory);
  }
  // Rows that are gone keep their history for as long as something of it would be shown.
  for (auto at = rows_.begin(); at != rows_.end();) {
    Track& track = at->second;
    if (track.look != looks_) {
      const std::uint64_t last = track.look;
      add_value(&track, 0, 0, kLooksOfRate);
      track.look = last;
    }
    const bool forgotten = track.look + kLooksOfRate < looks_ && track.first == 0 && track.mark == 0;
    const bool ended = processes_.count(at->first.substr(0, at->first.find('\n'))) == 0;
    at = forgotten || ended ? rows_.erase(at) : std::next(at);
  }
  for (auto at = processes_.begin(); at != processes_.end();)
    at = at->second.look + kLooksOfRate < looks_ ? processes_.erase(at) : std::next(at);
}

void LiveModel::set_mark() {
  if (!has_look()) return;
  mark_seconds_ = look_.seconds;
  for (auto& [key, track] : rows_) track.mark = track.values.empty() ? 0 : track.values.back();
}

std::optional<double> LiveModel::seconds_since_mark() const {
  if (!mark_seconds_) return std::nullopt;
  return look_.seconds - *mark_seconds_;
}

// Bytes a minute.
std::optional<double> LiveModel::rate_of(const Track& track) const {
  const std::size_t count = std::min(track.values.size(), times_.size());
  if (count < kLeastForRate) return std::nullopt;
  const double seconds = times_.back() - times_[times_.size() - count];
  if (seconds <= 0) return std::nullopt;
  const std::vector<double> values(track.values.end() - static_cast<std::ptrdiff_t>(count), track.values.end());
  return theil_sen(values).median * static_cast<double>(count - 1) / seconds * 60;
}

std::vector<LiveRow> LiveModel::rows(const LiveChoice& choice) const {
  std::vector<LiveRow> result;
  const std::string words = lower(choice.filter);
  for (const LiveProcess& process : look_.processes) {
    if (!choice.only.empty() && process.key != choice.only) continue;
    const auto rows = process.rows.find(choice.by);
    if (rows == process.rows.end()) continue;
    for (const GroupedRow& row : rows->second) {
      if (!words.empty()) {
        const std::string text = lower(row.text + "\n" + process.name + "\n" + std::to_string(process.pid) + "\n" +
                                       (choice.by == "stack" ? row.largest->id : ""));
        if (text.find(words) == std::string::npos) continue;
      }
      LiveRow live;
      live.process = &process;
      live.row = &row;
      live.key = track_key(process.key, choice.by, row.key);
      if (row.first_ns <= process.now_ns)
        live.oldest_seconds = static_cast<double>(process.now_ns - row.first_ns) / 1e9;
      const auto track = rows_.find(live.key);
      if (track != rows_.end() && !track->second.values.empty()) {
        const double now = track->second.values.back();
        live.since_start = change(now, track->second.first);
        if (mark_seconds_) live.since_mark = change(now, track->second.mark);
        live.per_minute = rate_of(track->second);
      }
      result.push_back(std::move(live));
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const LiveRow& left, const LiveRow& right) {
    return left.row->total.bytes > right.row->total.bytes;
  });
  std::stable_sort(result.begin(), result.end(), [&](const LiveRow& left, const LiveRow& right) {
    return choice.reversed ? is_before(right, left, choice.sort) : is_before(left, right, choice.sort);
  });
  return result;
}

std::vector<LiveDeviceSum> LiveModel::devices(const std::string& only) const {
  std::vector<LiveDeviceSum> result;
  for (const LiveProcess& process : look_.processes) {
    if (!only.empty() && process.key != only) continue;
    for (const LiveDevice& device : process.devices) {
      auto at =
          std::find_if(result.begin(), result.end(), [&](const LiveDeviceSum& one) { return one.uuid == device.uuid; });
      if (at == result.end()) {
        at = result.insert(result.end(), LiveDeviceSum());
        at->uuid = device.uuid;
        at->title = device.title;
        at->name = device.name;
        if (const DeviceUsers* const users = look_.users.of(device.uuid)) at->in_use = users->in_use;
      }
      at->total = std::max(at->total, device.total);
      at->live += device.live;
      for (const auto& [what, bytes] : device.parts) at->parts[what] += bytes;
    }
  }
  for (LiveDeviceSum& device : result) {
    const auto track = devices_.find(only + '\n' + device.uuid);
    if (track == devices_.end()) continue;
    device.history.assign(track->second.values.begin(), track->second.values.end());
    device.per_minute = rate_of(track->second);
  }
  std::stable_sort(result.begin(), result.end(), [](const LiveDeviceSum& left, const LiveDeviceSum& right) {
    return std::make_pair(left.title.size(), left.title) < std::make_pair(right.title.size(), right.title);
  });
  return result;
}

std::optional<double> LiveModel::sum_of(std::optional<double> Known::*rate, const std::string& only) const {
  std::optional<double> sum;
  for (const LiveProcess& process : look_.processes) {
    if (!only.empty() && process.key != only) continue;
    const auto known = processes_.find(process.key);
    if (known != processes_.end() && known->second.*rate) sum = sum.value_or(0) + *(known->second.*rate);
  }
  return sum;
}

std::optional<double> LiveModel::allocations_per_second(const std::string& only) const {
  return sum_of(&Known::allocation_rate, only);
}

std::optional<double> LiveModel::frees_per_second(const std::string& only) const {
  return sum_of(&Known::free_rate, only);
}

std::vector<LiveProcess> LiveModel::not_recorded() const {
  std::set<std::uint32_t> known;
  for (const LiveProcess& process : look_.processes) known.insert(process.pid);
  for (const Recorder& recorder : look_.users.recorders) known.insert(recorder.pid);
  std::map<std::uint32_t, LiveProcess> others;
  for (const DeviceUsers& device : look_.users.devices) {
    for (const GpuUser& user : device.users) {
      if (user.here == 0 || known.count(user.here) != 0 || user.kind != HolderKind::kProcess) continue;
      LiveProcess& process = others[user.here];
      process.pid = user.here;
      process.key = std::to_string(user.here) + " ";
      process.name = user.name;
      process.state = LiveState::kNotRecorded;
      if (user.bytes) process.charged = process.charged.value_or(0) + *user.bytes;
    }
  }
  std::vector<LiveProcess> list;
  list.reserve(others.size());
  for (auto& [pid, process] : others) list.push_back(std::move(process));
  std::stable_sort(list.begin(), list.end(), [](const LiveProcess& left, const LiveProcess& right) {
    return left.charged.value_or(0) > right.charged.value_or(0);
  });
  return list;
}

}  // namespace culprit::report
