#include "report/screen/top_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "report/base/words.h"
#include "report/screen/detail_picture.h"
#include "report/watch/watch_result.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLeastWhere = 20;  // columns for the place of a row
constexpr int kRowsForAll = 16;          // a screen of fewer rows has one line for each device
constexpr std::size_t kMostNotes = 2;

std::string right(const std::string& text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  return (columns < width ? std::string(width - columns, ' ') : "") + text;
}

std::string rate_per_second(const std::optional<double>& rate) {
  if (!rate) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), *rate < 10 ? "%.1f" : "%.0f", *rate);
  return text;
}

std::string state_words(const LiveProcess& process) {
  switch (process.state) {
    case LiveState::kRecording:
      return "recording";
    case LiveState::kOff:
      return "recording is off";
    case LiveState::kEnded:
      return "has ended";
    case LiveState::kSnapshot:
      return "a snapshot";
    case LiveState::kNothingYet:
      return "no CUDA call yet";
    case LiveState::kNotRecorded:
      return "not recorded: a attaches";
    case LiveState::kUnreadable:
      break;
  }
  return "cannot be read";
}

struct Column {
  LiveSort sort;
  const char* heading;
  std::size_t width;
};

constexpr Column kColumns[] = {
    {LiveSort::kLive, "LIVE", 9},    {LiveSort::kSinceStart, "START", 10}, {LiveSort::kSinceMark, "SINCE M", 10},
    {LiveSort::kRate, "MIB/MIN", 9}, {LiveSort::kCount, "COUNT", 8},       {LiveSort::kOldest, "OLDEST", 8},
};
// The first ones stay on a narrow screen.
constexpr LiveSort kOrderOfNeed[] = {LiveSort::kLive,       LiveSort::kRate,  LiveSort::kSinceMark,
                                     LiveSort::kSinceStart, LiveSort::kCount, LiveSort::kOldest};
constexpr std::size_t kPidWidth = 9;
constexpr std::size_t kRoomForCall = 50;  // columns of the place that can begin with the name of the call

const Column& column_of(LiveSort sort) {
  return *std::find_if(std::begin(kColumns), std::end(kColumns), [&](const Column& one) { return one.sort == sort; });
}

// The columns that a screen has room for. The one that it is sorted by is always there.
std::vector<Column> columns_for(std::size_t width, bool marked, bool pids, LiveSort sort) {
  std::size_t left = width - std::min(width, kLeastWhere + (pids ? kPidWidth : 0) + column_of(sort).width);
  std::vector<LiveSort> chosen = {sort};
  for (const LiveSort one : kOrderOfNeed) {
    const std::size_t needed = column_of(one).width;
    if (one == sort || (one == LiveSort::kSinceMark && !marked)) continue;
    if (needed > left) break;
    left -= needed;
    chosen.push_back(one);
  }
  std::vector<Column> columns;
  for (const Column& column : kColumns) {
    if (std::find(chosen.begin(), chosen.end(), column.sort) != chosen.end()) columns.push_back(column);
  }
  return columns;
}

Span cell_of(const LiveRow& row, const Column& column) {
  Span cell;
  switch (column.sort) {
    case LiveSort::kLive:
      cell.text = format_bytes(row.row->total.bytes);
      break;
    case LiveSort::kSinceStart:
      cell = {change_words(row.since_start), change_style(static_cast<double>(row.since_start))};
      break;
    case LiveSort::kSinceMark:
      cell = {row.since_mark ? change_words(*row.since_mark) : "-",
              change_style(static_cast<double>(row.since_mark.value_or(0)))};
      break;
    case LiveSort::kRate: {
      const double rate = row.per_minute.value_or(0);
      cell.text = row.per_minute ? rate_words(rate) : "-";
      cell.style = cell.text == "0" ? Style::kPlain : change_style(rate);
      break;
    }
    case LiveSort::kCount:
      cell.text = std::to_string(row.row->total.allocations) + "x";
      break;
    case LiveSort::kOldest:
      cell.text = row.oldest_seconds ? long_time_text(*row.oldest_seconds) : "-";
      break;
  }
  cell.text = right(cell.text, column.width);
  return cell;
}

PictureLine device_line(const LiveDeviceSum& device, std::size_t columns) {
  PictureLine line = {{padded_to_width(device.title, 6) + "  ", Style::kTitle},
                      {format_bytes(device.live) + " live", Style::kPlain}};
  if (columns >= 60 && device.cached() != 0)
    line.push_back({" · " + format_bytes(device.cached()) + " of it in caches", Style::kPlain});
  std::string rate;
  if (device.per_minute) rate = rate_words(*device.per_minute) + (columns >= 60 ? " MiB/min" : "");
  const std::size_t used = columns_of(text_of(line)) + columns_of(rate) + 4;
  if (used < columns) {
    const std::size_t most = std::min<std::size_t>(columns - used, 60);
    line.push_back({"  " + sparkline(device.history, most) + "  ", Style::kAllocated});
  }
  line.push_back(
      {rate, device.per_minute && rate.compare(0, 1, "0") != 0 ? change_style(*device.per_minute) : Style::kPlain});
  return line;
}

PictureLine balance_line(const LiveDeviceSum& device, std::size_t columns) {
  const std::uint64_t own = device.allocated() + device.cached() + device.driver();
  std::string words = format_bytes(device.in_use.value_or(own));
  if (device.total != 0) words += " of " + format_bytes(device.total);
  words += device.in_use ? " in use" : " known";
  const std::size_t around = 8 + 2 + 1 + columns_of(words);
  PictureLine line = {{std::string(8, ' ') + "[", Style::kFaint}};
  const std::uint64_t whole = device.total != 0 ? device.total : own;
  for (Span& span : bar({{device.allocated(), Style::kAllocated, "#"},
                         {device.cached(), Style::kCached, "="},
                         {device.driver(), Style::kDriver, ":"},
                         {device.others(), Style::kOthers, "o"}},
                        whole, columns > around ? columns - around : 0, " "))
    line.push_back(std::move(span));
  line.push_back({"] ", Style::kFaint});
  line.push_back({words, Style::kPlain});
  return line;
}

PictureLine title(const TopState& state, const LiveModel& model) {
  PictureLine line = {{"culprit top", Style::kTitle}};
  std::string rest;
  const std::vector<LiveProcess>& all = model.look().processes;
  const auto only = std::find_if(
      all.begin(), all.end(), [&](const LiveProcess& one) { return all.size() == 1 || one.key == state.choice.only; });
  if (only != all.end()) {
    rest += " · " + only->name + " [" + std::to_string(only->pid) + "] · " + state_words(*only);
  } else if (model.has_look()) {
    rest += " · " + state.settings.host + " · " + plural(all.size(), "process", "processes");
  }
  if (model.look().left_out != 0) rest += " of " + std::to_string(all.size() + model.look().left_out);
  if (state.paused) rest += " · stopped, space goes on";
  if (!state.choice.filter.empty()) rest += " · /" + state.choice.filter;
  line.push_back({rest, Style::kPlain});
  return line;
}

std::vector<PictureLine> head(const TopState& state, const LiveModel& model, ScreenSize size) {
  const auto columns = static_cast<std::size_t>(size.columns);
  const bool tall = size.rows >= kRowsForAll;
  std::vector<PictureLine> lines = {title(state, model)};
  if (!model.has_look()) return lines;
  const std::vector<LiveDeviceSum> devices = model.devices(state.choice.only);
  const std::size_t room = tall ? static_cast<std::size_t>(size.rows) / 3 : 1;
  const std::size_t each = tall && devices.size() * 2 <= room ? 2 : 1;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if ((i + 1) * each > room && i != 0) {
      lines.push_back({{"and " + plural(devices.size() - i, "more GPU", "more GPUs") + ": tab shows one process alone",
                        Style::kFaint}});
      break;
    }
    lines.push_back(device_line(devices[i], columns));
    if (each == 2) lines.push_back(balance_line(devices[i], columns));
  }
  if (tall) {
    std::string calls = rate_per_second(model.allocations_per_second(state.choice.only)) + " allocations/s · " +
                        rate_per_second(model.frees_per_second(state.choice.only)) + " frees/s";
    lines.push_back({{calls, Style::kPlain}});
    if (each == 2 && columns >= 78)
      lines.back().push_back({"   # allocated  = caches  : driver  o others", Style::kFaint});
  }
  // Gaps of the recording are said on the smallest screen, too.
  std::size_t notes = 0;
  for (const LiveProcess& process : model.look().processes) {
    if (!state.choice.only.empty() && process.key != state.choice.only) continue;
    const std::string pid = "process " + std::to_string(process.pid) + ": ";
    std::vector<std::string> all;
    if (!process.note.empty()) all.push_back(process.note);
    for (const std::string& reason : process.not_known) all.push_back("NOT KNOWN: " + reason);
    if (process.left_out != 0) all.push_back(plural(process.left_out, "row is", "rows are") + " left out");
    for (const std::string& note : all) {
      if (notes++ < kMostNotes) lines.push_back({{pid + note, Style::kWarn}});
    }
  }
  if (notes > kMostNotes)
    lines.back().push_back({" (and " + std::to_string(notes - kMostNotes) + " more)", Style::kWarn});
  return lines;
}

std::vector<PictureLine> nothing_words(const TopState& state, const LiveModel& model) {
  if (!model.has_look()) return {{{"reading ...", Style::kFaint}}};
  if (!state.choice.filter.empty())
    return {{{"no row has \"" + state.choice.filter + "\": esc shows all", Style::kPlain}}};
  const std::vector<LiveProcess>& all = model.look().processes;
  const auto bare =
      std::find_if(all.begin(), all.end(), [](const LiveProcess& one) { return one.state == LiveState::kNotRecorded; });
  if (bare != all.end())
    return {{{"a attaches to process " + std::to_string(bare->pid) + ": its allocations are recorded from then on",
              Style::kPlain}}};
  if (!all.empty()) {
    const bool whole = std::all_of(
        all.begin(), all.end(), [](const LiveProcess& one) { return one.report != nullptr && one.not_known.empty(); });
    return {{{whole ? "(nothing is held)" : "(nothing that was recorded is held)", Style::kPlain}}};
  }
  std::vector<PictureLine> lines = {
      {{"no process records here", Style::kPlain}},
      {{"culprit run -- ./app starts one, culprit attach PID records a running one", Style::kFaint}}};
  const std::vector<LiveProcess> others = model.not_recorded();
  if (!others.empty())
    lines.push_back(
        {{plural(others.size(), "process uses", "processes use") + " a GPU without culprit: p lists, a attaches",
          Style::kWarn}});
  return lines;
}

std::vector<PictureLine> body_of_rows(TopState& state, const LiveModel& model, std::size_t lines, std::size_t columns) {
  std::vector<LiveRow> all = state.rows(model);
  std::vector<PictureLine> body;
  const bool pids = state.choice.only.empty() && model.look().processes.size() > 1;
  const std::vector<Column> shown =
      columns_for(columns, model.seconds_since_mark().has_value(), pids, state.choice.sort);
  std::string heading;
  std::size_t left = columns - std::min(columns, pids ? kPidWidth : 0);
  for (const Column& column : shown) {
    left -= std::min(left, column.width);
    const std::string mark = column.sort != state.choice.sort ? "" : state.choice.reversed ? "▴" : "▾";
    heading += right(column.heading + mark, column.width);
  }
  if (pids) heading += right("PID", kPidWidth);
  const std::string where = state.choice.by == "stack" ? "WHERE" : "BY " + state.choice.by;
  body.push_back({{heading + "  " + where, Style::kHeader}});
  if (all.empty()) {
    state.row = {};
    for (PictureLine& line : nothing_words(state, model)) body.push_back(std::move(line));
    return body;
  }
  state.row.settle(keys_of(all), lines > 1 ? lines - 1 : 1);
  for (std::size_t i = state.row.first; i < all.size() && body.size() < lines; ++i) {
    PictureLine line;
    for (const Column& column : shown) line.push_back(cell_of(all[i], column));
    if (pids) line.push_back({right(std::to_string(all[i].process->pid), kPidWidth), Style::kPlain});
    const std::string& text = all[i].row->text;
    // The name of the call is in the page of the row, too.
    const std::size_t call = state.choice.by == "stack" && left < kRoomForCall ? text.find("  ") : std::string::npos;
    line.push_back({"  " + (call == std::string::npos ? text : text.substr(call + 2)), Style::kPlain});
    if (i == state.row.at) line = {{text_of(line), Style::kSelected}};
    body.push_back(std::move(line));
  }
  return body;
}

std::vector<PictureLine> body_of_processes(TopState& state, const LiveModel& model, std::size_t lines,
                                           std::size_t columns) {
  const std::vector<LiveProcess> all = processes_of(model);
  std::vector<PictureLine> body;
  const bool wide = columns >= 60;
  body.push_back(
      {{right("PID", 9) + right("LIVE", 10) + (wide ? right("BY NVML", 10) : "") + "  STATE", Style::kHeader}});
  if (all.empty()) {
    state.process = {};
    for (PictureLine& line : nothing_words(state, model)) body.push_back(std::move(line));
    return body;
  }
  state.process.settle(keys_of(all), lines > 1 ? lines - 1 : 1);
  for (std::size_t i = state.process.first; i < all.size() && body.size() < lines; ++i) {
    const LiveProcess& process = all[i];
    std::string text =
        right(std::to_string(process.pid), 9) + right(process.report != nullptr ? format_bytes(process.live) : "-", 10);
    if (wide) text += right(process.charged ? format_bytes(*process.charged) : "-", 10);
    text += "  " + padded_to_width(state_words(process), wide ? 26 : 0) + (wide ? "" : "  ") +
            (process.command.empty() ? process.name : process.command);
    body.push_back({{text, i == state.process.at ? Style::kSelected : Style::kPlain}});
  }
  return body;
}

std::vector<PictureLine> body_of_text(TopState& state, const LiveModel& model, std::size_t lines, std::size_t columns) {
  if (state.page == TopPage::kHelp) {
    state.detail = help_lines();
  } else if (state.detail_seconds != model.look().seconds || state.detail_columns != columns) {
    const std::vector<LiveRow> all = model.rows({state.choice.by, state.choice.sort, false, "", ""});
    const auto row =
        std::find_if(all.begin(), all.end(), [&](const LiveRow& one) { return one.key == state.detail_key; });
    if (row != all.end()) {
      state.detail = detail_lines(*row, columns);
    } else if (!state.detail.empty() && state.detail.front().size() == 1) {
      state.detail.front().push_back({"  (nothing of it is held any more)", Style::kWarn});
    }
    state.detail_seconds = model.look().seconds;
    state.detail_columns = columns;
  }
  state.scroll.settle(state.detail.size(), lines);
  const auto begin = state.detail.begin() + static_cast<std::ptrdiff_t>(state.scroll.first);
  const auto end = begin + static_cast<std::ptrdiff_t>(std::min(lines, state.detail.size() - state.scroll.first));
  return {begin, end};
}

PictureLine footer(const TopState& state, const LiveModel& model, std::size_t columns) {
  if (state.typing) return {{"/" + state.choice.filter, Style::kPlain}};
  if (state.asks_attach != 0)
    return {{"attach to process " + std::to_string(state.asks_attach) + "? y: yes, any other key: no", Style::kWarn}};
  if (!state.message.empty()) return {{state.message, Style::kWarn}};
  if (state.page == TopPage::kDetail || state.page == TopPage::kHelp)
    return {
        {"esc back · up, down" + std::string(state.scroll.lines > state.scroll.height ? " · more below or above" : ""),
         Style::kFaint}};
  if (state.page == TopPage::kProcesses) return {{"esc back · enter one alone · a attach · q quit", Style::kFaint}};
  if (columns < 60) return {{"? keys · q quit", Style::kFaint}};
  std::string text = "? keys · q quit · enter stack · g group · o sort · / filter · m mark · s save";
  if (const std::optional<double> seconds = model.seconds_since_mark())
    text = "m " + long_time_text(*seconds) + " ago · " + text;
  return {{text, Style::kFaint}};
}

}  // namespace

Picture draw_top(TopState* memory, const LiveModel& model, ScreenSize size) {
  TopState& state = *memory;
  Picture picture;
  if (size.rows < 1 || size.columns < 1) return picture;
  const auto columns = static_cast<std::size_t>(size.columns);
  std::vector<PictureLine> lines = head(state, model, size);
  // The rows have half of a small screen.
  const auto most = static_cast<std::size_t>(std::max(1, (size.rows - 1) / 2));
  if (lines.size() > most) lines.resize(most);
  const std::size_t used = lines.size() + 1;
  const std::size_t room = static_cast<std::size_t>(size.rows) > used ? static_cast<std::size_t>(size.rows) - used : 0;
  std::vector<PictureLine> body = state.page == TopPage::kRows        ? body_of_rows(state, model, room, columns)
                                  : state.page == TopPage::kProcesses ? body_of_processes(state, model, room, columns)
                                                                      : body_of_text(state, model, room, columns);
  if (body.size() > room) body.resize(room);
  body.resize(room);
  for (PictureLine& line : body) lines.push_back(std::move(line));
  if (size.rows > 1) lines.push_back(footer(state, model, columns));
  for (const PictureLine& line : lines) picture.lines.push_back(fitted(line, columns));
  if (state.typing)
    picture.cursor = static_cast<int>(std::min(columns - 1, columns_of(text_of(footer(state, model, columns)))));
  return picture;
}

}  // namespace culprit::report
