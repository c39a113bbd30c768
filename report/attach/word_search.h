// Looks for the words that hold addresses of the driver, or of our hooks, in another process's memory while that runs.
//
// Only pages that the process has written can hold such words (written_pages.h). A word that is copied to a page behind
// the search is missed, so the search is made again after the words were replaced, until it finds no more
// (injector.cpp).
//
// Rejected: to look again at pages that changed only (soft-dirty bits). Resetting the bits takes a page fault of the
// program for each page that it writes afterwards, and is seen by other tools.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "interpose/format/attach_request.h"
#include "report/attach/traced_process.h"
#include "report/attach/written_pages.h"

namespace culprit::report {

struct FoundWords {
  std::vector<std::uint64_t> places;  // in ascending order
  std::uint64_t beside_stacks = 0;    // those that do not lie on a stack
  std::uint64_t read_bytes = 0;
  std::uint64_t unread_bytes = 0;  // left when the time was up
};

class WordSearch {
 public:
  // Reads what to look for at AttachRequest::search. Throws AttachError.
  WordSearch(const TracedProcess& process, std::uint64_t address);

  // `goes_on` is called now and then with the bytes read and those in all; false ends the search.
  FoundWords look(const std::function<bool(std::uint64_t, std::uint64_t)>& goes_on) const;

 private:
  std::vector<AddressRange> parts() const;
  std::uint64_t count_beside_stacks(const std::vector<std::uint64_t>& places) const;
  void scan(const std::uint64_t* words, std::size_t count, std::uint64_t address,
            std::vector<std::uint64_t>* places) const;

  const TracedProcess& process_;
  std::vector<std::uint64_t> addresses_;  // sorted
  std::vector<AddressRange> left_out_;
};

}  // namespace culprit::report
