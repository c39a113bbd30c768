// How the ranks of one `culprit merge` pass their parts on: over MPI (mpi_link.h), or over files (folder_link.h).
#pragma once

#include <optional>
#include <string>

namespace culprit::report {

class RankLink {
 public:
  RankLink() = default;
  virtual ~RankLink() = default;
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  // Waits for the part of the rank `from`. Empty: it does not come any more, and `problem` says why. Every wait is
  // bounded.
  virtual std::optional<std::string> take(unsigned from, std::string* problem) = 0;

  // Waits until another rank has taken this rank's part, as a rule the rank `to`. Throws FileError when rank 0 ended
  // before that.
  virtual void give(const std::string& part, unsigned to) = 0;

  // Of rank 0, once it needs no more parts.
  virtual void finish() = 0;
};

}  // namespace culprit::report
