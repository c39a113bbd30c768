#include "report/ranks/folder_link.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/random_text.h"
#include "report/base/timed_wait.h"
#include "report/base/words.h"
#include "report/proc/process_folder.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{5};
// Ranks of one machine need not wait long for one another. Those of a large job do, whose looks take time of the file
// server.
milliseconds longest_pause(std::size_t files) {
  constexpr std::size_t kLeast = 10;
  constexpr std::size_t kMost = 250;
  return milliseconds(std::clamp(files / 4, kLeast, kMost));
}

std::string name_of(unsigned rank, const std::string& what) { return "rank" + std::to_string(rank) + "." + what; }

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = name.find('.'); end != std::string::npos; end = name.find('.', begin)) {
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(name.substr(begin));
  return parts;
}

// The rank in "rank3"; empty: the word is another one.
std::optional<unsigned> rank_in(const std::string& word) {
  constexpr std::size_t kPrefix = 4;
  if (word.size() > kPrefix + 8 || word.compare(0, kPrefix, "rank") != 0) return std::nullopt;
  return whole_number(std::string_view(word).substr(kPrefix));
}

// Several signs of life in the time that a rank is waited for.
milliseconds beat_for(milliseconds patience) { return std::clamp(patience / 8, milliseconds(20), milliseconds(2000)); }

}  // namespace

FolderLink::FolderLink(std::string folder, unsigned rank, milliseconds patience)
    : folder_(std::move(folder)),
      rank_(rank),
      patience_(patience),
      nonce_(random_text(16)),
      start_(Clock::now()),
      here_(name_of(rank, "here." + nonce_ + ".0")) {
  if (nonce_.empty()) throw FileError("the system gives no random bytes, which the ranks need to know one another");
  if (::mkdir(folder_.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw FileError(folder_ + ": cannot be made (" + std::generic_category().message(errno) +
                    "): the ranks need a folder for -o that all of them can write to");
  }
  write(here_, "");
  beats_ = std::thread([this] { beat(); });
}

FolderLink::~FolderLink() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  beats_.join();
  std::error_code error;
  if (!done_) {
    fs::rename(folder_ + "/" + here_, folder_ + "/" + name_of(rank_, "gone." + nonce_), error);
  } else {
    remove(here_);
  }
  for (const std::string& name : written_) remove(name);
  ::rmdir(folder_.c_str());  // by the last one
}

void FolderLink::beat() {
  const milliseconds interval = beat_for(patience_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (unsigned number = 1; !wait_at_most(&stop_, &lock, interval, [this] { return stopping_; }); ++number) {
    const std::string next = name_of(rank_, "here." + nonce_ + "." + std::to_string(number));
    std::error_code error;
    fs::rename(folder_ + "/" + here_, folder_ + "/" + next, error);
    if (!error) here_ = next;
  }
}

std::vector<std::vector<std::string>> FolderLink::look() {
  std::vector<std::vector<std::string>> names;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::vector<std::string> words = split(at->path().filename().string());
    if (words.size() >= 3) names.push_back(std::move(words));
  }
  const Clock::time_point now = Clock::now();
  for (const std::vector<std::string>& words : names) {
    const std::optional<unsigned> rank = rank_in(words[0]);
    if (!rank || (words[1] != "here" && words[1] != "gone")) continue;
    const auto [at, is_new] = lives_[*rank].try_emplace(words[2]);
    Life& life = at->second;
    life.gone = words[1] == "gone";
    const std::string beat = words.size() > 3 ? words[3] : "";
    if (!is_new && beat == life.beat) continue;
    life.lived = life.lived || !first_look_;
    life.beat = beat;
    life.changed = now;
  }
  first_look_ = false;
  longest_pause_ = longest_pause(names.size());
  return names;
}

FolderLink::State FolderLink::state_of(unsigned rank) const {
  const Clock::time_point now = Clock::now();
  const auto known = lives_.find(rank);
  bool gave_up = false;
  if (known != lives_.end()) {
    for (const auto& [nonce, life] : known->second) {
      if (!life.gone && now - life.changed < patience_) return State::kAlive;
      gave_up = gave_up || (life.gone && life.lived);
    }
  }
  if (gave_up) return State::kGone;
  // One that was never seen may still be about to start.
  return now - start_ < patience_ ? State::kAlive : State::kSilent;
}

void FolderLink::pause() {
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(longest_pause_, pause_ * 2);
}

void FolderLink::write(const std::string& name, const std::string& text) const {
  // Complete under its name, or not there.
  const std::string path = folder_ + "/" + name;
  const std::string temporary = folder_ + "/new." + nonce_;
  std::ofstream file(temporary, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file.fail() || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int number = errno;
    remove("new." + nonce_);
    throw FileError(path + ": cannot be written (" + std::generic_category().message(number) +
                    "): the ranks need a folder for -o that all of them can write to");
  }
}

void FolderLink::remove(const std::string& name) const {
  std::error_code error;
  fs::remove(folder_ + "/" + name, error);
}

std::optional<std::string> FolderLink::take(unsigned from, std::string* problem) {
  const std::string ask = name_of(from, "ask." + nonce_);
  write(ask, "");
  written_.push_back(ask);
  for (pause_ = kShortestPause;; pause()) {
    for (const std::vector<std::string>& words : look()) {
      if (words.size() != 4 || words[1] != "answer" || words[2] != nonce_ || rank_in(words[0]) != from) continue;
      const std::string part = name_of(from, "part." + words[3]);
      std::string text;
      try {
        text = read_input(folder_ + "/" + part);
      } catch (const FileError& error) {
        *problem = error.what();
        return std::nullopt;
      }
      remove(part);
      return text;
    }
    const State state = state_of(from);
    if (state == State::kAlive) continue;
    const auto waited = static_cast<std::uint64_t>(std::chrono::nanoseconds(patience_).count());
    *problem =
        state == State::kGone ? "it ended without its part" : "it gave no sign of life for " + format_time(waited);
    return std::nullopt;
  }
}

void FolderLink::give(const std::string& text, unsigned) {
  const std::string part = name_of(rank_, "part." + nonce_);
  write(part, text);
  written_.push_back(part);
  std::vector<std::string> answered;
  for (pause_ = kShortestPause;; pause()) {
    bool there = false;
    for (const std::vector<std::string>& words : look()) {
      if (words.size() != 3 || rank_in(words[0]) != rank_) continue;
      there = there || (words[1] == "part" && words[2] == nonce_);
      if (words[1] != "ask" || std::find(answered.begin(), answered.end(), words[2]) != answered.end()) continue;
      const std::string answer = name_of(rank_, "answer." + words[2] + "." + nonce_);
      answered.push_back(words[2]);
      try {
        write(answer, "");
      } catch (const FileError&) {  // rank 0 has ended and removed the folder
        continue;
      }
      written_.push_back(answer);
    }
    if (!there) break;
    if (state_of(0) == State::kAlive) continue;
    done_ = true;  // no rank is left that wants to know
    throw FileError("rank 0 ended before it took the part of rank " + std::to_string(rank_) +
                    ": the message of rank 0 says why");
  }
  done_ = true;
}

void FolderLink::finish() {
  done_ = true;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    fs::remove(at->path(), ignored);
  }
}

}  // namespace culprit::report
