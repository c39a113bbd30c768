// The memory of the screen of `culprit top` between keys and pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/screen/cells.h"
#include "report/screen/live_model.h"

namespace culprit::report {

struct TopSettings {
  std::string by = "stack";
  std::optional<unsigned> most_rows;
  std::string host;
};

// A list with a chosen line.
struct ListCursor {
  std::string key;  // of the chosen line; "": none was chosen, the first one is
  std::size_t at = 0;
  std::size_t first = 0;   // shown line
  std::size_t height = 1;  // lines that were shown last

  // `keys`: of all lines now. Afterwards the chosen line is one of the `lines` that are shown from `first` on.
  void settle(const std::vector<std::string>& keys, std::size_t lines);
  // Moves down, or up for a negative step.
  void move(std::ptrdiff_t step, const std::vector<std::string>& keys);
};

// A text that may be longer than the screen.
struct TextScroll {
  std::size_t first = 0;
  std::size_t lines = 0;
  std::size_t height = 1;

  void settle(std::size_t all, std::size_t shown);
  void move(std::ptrdiff_t step);
};

enum class TopPage { kRows, kProcesses, kDetail, kHelp };

// Not thread-safe.
struct TopState {
  explicit TopState(TopSettings chosen) : settings(std::move(chosen)) { choice.by = settings.by; }

  std::vector<LiveRow> rows(const LiveModel& model) const;

  TopSettings settings;
  LiveChoice choice;
  TopPage page = TopPage::kRows;
  ListCursor row;
  ListCursor process;
  TextScroll scroll;
  bool typing = false;  // in the filter
  bool paused = false;
  std::uint32_t asks_attach = 0;  // the process that the question in the last line is about; 0: no question
  std::string message;            // in the last line until the next key
  std::string detail_key;         // of the row that is open
  std::vector<PictureLine> detail;
  double detail_seconds = -1;  // the look that it is of
  std::size_t detail_columns = 0;
};

// Those that were read, then those that record nothing.
std::vector<LiveProcess> processes_of(const LiveModel& model);

// The keys of the lines of a list.
std::vector<std::string> keys_of(const std::vector<LiveRow>& rows);
std::vector<std::string> keys_of(const std::vector<LiveProcess>& processes);

}  // namespace culprit::report
