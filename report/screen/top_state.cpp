#include "report/screen/top_state.h"

#include <algorithm>
#include <utility>

namespace culprit::report {
namespace {

std::size_t moved(std::size_t at, std::ptrdiff_t step, std::size_t last) {
  const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(at) + step;
  return static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(to, 0, static_cast<std::ptrdiff_t>(last)));
}

}  // namespace

void ListCursor::settle(const std::vector<std::string>& keys, std::size_t lines) {
  height = std::max<std::size_t>(lines, 1);
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (key.empty()) {
    at = 0;
  } else if (found != keys.end()) {
    at = static_cast<std::size_t>(found - keys.begin());
  } else if (!keys.empty()) {  // the line is gone
    at = std::min(at, keys.size() - 1);
    key = keys[at];
  }
  if (at < first) first = at;
  if (at >= first + height) first = at - height + 1;
  first = std::min(first, keys.size() > height ? keys.size() - height : 0);
}

void ListCursor::move(std::ptrdiff_t step, const std::vector<std::string>& keys) {
  if (keys.empty()) return;
  settle(keys, height);
  at = moved(at, step, keys.size() - 1);
  key = keys[at];
}

void TextScroll::settle(std::size_t all, std::size_t shown) {
  lines = all;
  height = std::max<std::size_t>(shown, 1);
  first = std::min(first, lines > height ? lines - height : 0);
}

void TextScroll::move(std::ptrdiff_t step) { first = moved(first, step, lines > height ? lines - height : 0); }

std::vector<LiveRow> TopState::rows(const LiveModel& model) const {
  std::vector<LiveRow> rows = model.rows(choice);
  if (settings.most_rows && rows.size() > *settings.most_rows) rows.resize(*settings.most_rows);
  return rows;
}

std::vector<LiveProcess> processes_of(const LiveModel& model) {
  std::vector<LiveProcess> all = model.look().processes;
  for (LiveProcess& other : model.not_recorded()) all.push_back(std::move(other));
  return all;
}

std::vector<std::string> keys_of(const std::vector<LiveRow>& rows) {
  std::vector<std::string> keys;
  keys.reserve(rows.size());
  for (const LiveRow& row : rows) keys.push_back(row.key);
  return keys;
}

std::vector<std::string> keys_of(const std::vector<LiveProcess>& processes) {
  std::vector<std::string> keys;
  keys.reserve(processes.size());
  for (const LiveProcess& process : processes) keys.push_back(process.key);
  return keys;
}

}  // namespace culprit::report
