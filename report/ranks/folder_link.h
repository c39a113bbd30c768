// Ranks that pass their parts on as files in a folder that all of them see, beside the output. It works with every
// launcher, and goes on when a rank dies.
//
// - rank3.here.NONCE.17: a sign of life, whose last number grows while rank 3 runs; rank3.gone.NONCE: it gave up.
// - rank3.ask.ASKER: a rank with the nonce ASKER wants the part of rank 3.
// - rank3.part.NONCE: the part. The rank that takes it removes it, which tells rank 3 that it is done.
// - rank3.answer.ASKER.NONCE: to ASKER, the part has this nonce.
//
// An earlier run may have left files of each kind behind, and the clocks of two machines may differ. So no time of a
// file is looked at: an answer repeats the nonce of the living rank that asked, and a rank lives only while its name
// changes. The folder is listed on each look, because a network file system keeps for a while that a file was not
// there, but lists a folder anew when it is opened.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "report/ranks/rank_link.h"

namespace culprit::report {

class FolderLink : public RankLink {
 public:
  // `patience`: a rank that gave no sign of life for so long is taken for dead. Throws FileError when the folder cannot
  // be made or written to.
  FolderLink(std::string folder, unsigned rank, std::chrono::milliseconds patience);
  ~FolderLink() override;

  std::optional<std::string> take(unsigned from, std::string* problem) override;
  void give(const std::string& part, unsigned to) override;
  void finish() override;

 private:
  using Clock = std::chrono::steady_clock;
  // The life of one process, by its nonce.
  struct Life {
    std::string beat;
    Clock::time_point changed;
    bool lived = false;  // it was seen to change, or to come: it is no file of an earlier run
    bool gone = false;
  };
  enum class State { kAlive, kGone, kSilent };

  void beat();
  // Lists the folder, and notes the signs of life. The names are split at their dots.
  std::vector<std::vector<std::string>> look();
  State state_of(unsigned rank) const;
  void pause();
  void write(const std::string& name, const std::string& text) const;
  void remove(const std::string& name) const;

  const std::string folder_;
  const unsigned rank_;
  const std::chrono::milliseconds patience_;
  const std::string nonce_;
  const Clock::time_point start_;
  bool first_look_ = true;
  std::chrono::milliseconds pause_{};
  std::chrono::milliseconds longest_pause_{};
  std::map<unsigned, std::map<std::string, Life>> lives_;  // by rank and nonce
  std::vector<std::string> written_;                       // to be removed in the end
  bool done_ = false;

  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::string here_;  // the name that shows that this rank lives
  std::thread beats_;
};

}  // namespace culprit::report
