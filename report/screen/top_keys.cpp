#include "report/screen/top_keys.h"

#include <algorithm>
#include <utility>

#include "report/base/printable.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLongestFilter = 60;

std::string utf8_of(Key character) {
  std::string text;
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0 | character >> 6);
    text += static_cast<char>(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0 | character >> 12);
    text += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (character & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | character >> 18);
    text += static_cast<char>(0x80 | (character >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (character & 0x3f));
  }
  return text;
}

bool can_be_attached(const LiveProcess& process) { return process.state == LiveState::kNotRecorded; }

// How far a key moves in a list; 0: not at all.
std::ptrdiff_t step_of(Key key, std::size_t height, std::size_t all) {
  const auto page = static_cast<std::ptrdiff_t>(std::max<std::size_t>(height, 2) - 1);
  const auto end = static_cast<std::ptrdiff_t>(all);
  if (key == kKeyUp || key == 'k') return -1;
  if (key == kKeyDown || key == 'j') return 1;
  if (key == kKeyPageUp) return -page;
  if (key == kKeyPageDown) return page;
  if (key == kKeyHome) return -end - 1;
  if (key == kKeyEnd) return end + 1;
  return 0;
}

// Of the chosen row; else the one that is shown alone, or the first one with a dump. "": there is none.
std::string process_of_row(const TopState* state, const LiveModel& model) {
  if (state->page == TopPage::kProcesses && !state->process.key.empty()) return state->process.key;
  const std::vector<LiveRow> all = state->rows(model);
  if (state->row.at < all.size()) return all[state->row.at].process->key;
  if (!state->choice.only.empty()) return state->choice.only;
  for (const LiveProcess& process : model.look().processes) {
    if (process.report != nullptr) return process.key;
  }
  return "";
}

void next_process(TopState* state, const LiveModel& model) {
  const std::vector<std::string> keys = keys_of(model.look().processes);
  const auto found = std::find(keys.begin(), keys.end(), state->choice.only);
  const auto next = state->choice.only.empty() ? keys.begin() : found == keys.end() ? keys.end() : std::next(found);
  state->choice.only = next == keys.end() || keys.size() < 2 ? "" : *next;
  state->row = {};
}

void next_grouping(TopState* state, int step) {
  const std::vector<std::string>& all = live_groupings();
  const auto at = std::find(all.begin(), all.end(), state->choice.by) - all.begin();
  const auto count = static_cast<int>(all.size());
  state->choice.by = all[static_cast<std::size_t>((static_cast<int>(at) + step + count) % count)];
  state->row = {};
}

void next_sort(TopState* state, int step, const LiveModel& model) {
  constexpr int kCount = static_cast<int>(kLastLiveSort) + 1;
  do {
    state->choice.sort = static_cast<LiveSort>((static_cast<int>(state->choice.sort) + step + kCount) % kCount);
  } while (state->choice.sort == LiveSort::kSinceMark && !model.seconds_since_mark());
}

void press_in_filter(TopState* state, Key key) {
  std::string& words = state->choice.filter;
  if (key == kKeyEnter || key == kKeyEscape) {
    state->typing = false;
    if (key == kKeyEscape) words.clear();
  } else if (key == kKeyBackspace) {
    while (!words.empty() && (static_cast<unsigned char>(words.back()) & 0xc0) == 0x80) words.pop_back();
    if (!words.empty()) words.pop_back();
  } else if (key >= ' ' && key < 0x110000 && words.size() < kLongestFilter) {
    words += printable(utf8_of(key));
  }
  state->row = {};
}

TopRequest press_in_rows(TopState* state, Key key, LiveModel* model) {
  const std::vector<LiveRow> all = state->rows(*model);
  if (const std::ptrdiff_t step = step_of(key, state->row.height, all.size())) {
    state->row.move(step, keys_of(all));
    return {};
  }
  if (key == kKeyEnter && state->row.at < all.size()) {
    state->page = TopPage::kDetail;
    state->detail_key = all[state->row.at].key;
    state->detail_seconds = -1;
    state->scroll = {};
  } else if (key == 'o' || key == 'O') {
    next_sort(state, key == 'o' ? 1 : -1, *model);
  } else if (key == 'r') {
    state->choice.reversed = !state->choice.reversed;
  } else if (key == 'g' || key == 'G') {
    next_grouping(state, key == 'g' ? 1 : -1);
  } else if (key == '/') {
    state->typing = true;
  } else if (key == kKeyTab) {
    next_process(state, *model);
  } else if (key == kKeyEscape) {
    state->choice.filter.clear();
    state->choice.only.clear();
  } else if (key == 'a') {
    // A screen without rows, of a process that was named and records nothing.
    for (const LiveProcess& process : model->look().processes) {
      if (can_be_attached(process)) state->asks_attach = process.pid;
    }
    if (state->asks_attach == 0) state->page = TopPage::kProcesses;
  }
  return {};
}

TopRequest press_in_processes(TopState* state, Key key, const LiveModel& model) {
  const std::vector<LiveProcess> all = processes_of(model);
  if (const std::ptrdiff_t step = step_of(key, state->process.height, all.size())) {
    state->process.move(step, keys_of(all));
    return {};
  }
  if (key == kKeyEscape || key == 'p') state->page = TopPage::kRows;
  if (state->process.at >= all.size()) return {};
  const LiveProcess& chosen = all[state->process.at];
  if (key == 'a' || (key == kKeyEnter && can_be_attached(chosen))) {
    if (can_be_attached(chosen)) {
      state->asks_attach = chosen.pid;
    } else {
      state->message = "process " + std::to_string(chosen.pid) + " is recorded already";
    }
  } else if (key == kKeyEnter) {
    state->choice.only = chosen.key;
    state->page = TopPage::kRows;
    state->row = {};
  }
  return {};
}

}  // namespace

TopRequest press_key(TopState* state, Key key, LiveModel* model) {
  state->message.clear();
  if (state->typing) {
    press_in_filter(state, key);
    return {};
  }
  if (state->asks_attach != 0) {
    const std::uint32_t pid = std::exchange(state->asks_attach, 0);
    if (key == 'y' || key == 'Y') return {TopRequest::What::kAttach, pid, ""};
    return {};
  }
  const bool open = state->page == TopPage::kDetail || state->page == TopPage::kHelp;
  const std::ptrdiff_t step = open ? step_of(key, state->scroll.height, state->scroll.lines) : 0;
  if (step != 0) {
    state->scroll.move(step);
    return {};
  }
  if (open && (key == kKeyEscape || key == kKeyEnter || key == 'q' || (key == '?' && state->page == TopPage::kHelp))) {
    state->page = TopPage::kRows;
    return {};
  }
  if (key == 'q') return {TopRequest::What::kQuit, 0, ""};
  if (key == '?') {
    state->page = TopPage::kHelp;
    state->scroll = {};
  } else if (key == 'm') {
    model->set_mark();
    state->message = model->has_look() ? "changes since now are in the column SINCE M" : "nothing was read yet";
  } else if (key == ' ') {
    state->paused = !state->paused;
  } else if (key == 's') {
    const std::string process = process_of_row(state, *model);
    if (!process.empty()) return {TopRequest::What::kSave, 0, process};
    state->message = "there is no dump to save";
  } else if (state->page == TopPage::kProcesses) {
    return press_in_processes(state, key, *model);
  } else if (state->page == TopPage::kRows && key == 'p') {
    state->page = TopPage::kProcesses;
    state->process.key = state->choice.only;
  } else if (state->page == TopPage::kRows) {
    return press_in_rows(state, key, model);
  }
  return {};
}

}  // namespace culprit::report
