// Writes Python's pickle format, protocol 2 (https://docs.python.org/3/library/pickletools.html): dictionaries, lists,
// texts, integers and truth values, and references to values that were written before. It has no codes but those that
// the reader in PyTorch's MemoryViz.js knows, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

namespace culprit::report {

// A dictionary is begin_dict(), then pairs of a text and a value, then end_dict(); a list likewise. A list may have any
// number of elements: call next_in_list() before each of them.
class PickleWriter {
 public:
  explicit PickleWriter(std::ostream& out);
  void finish();

  void begin_dict();
  void end_dict();
  void begin_list();
  void next_in_list(std::uint64_t index);
  void end_list(std::uint64_t elements);
  void text(const std::string& value);  // valid UTF-8
  void number(std::uint64_t value);
  void truth(bool value);

  // Gives the value just written (not a list or dictionary that is still open) a number; get() writes it again.
  std::uint32_t put();
  void get(std::uint32_t number);

 private:
  void byte(unsigned value) { waiting_ += static_cast<char>(value); }
  void little(std::uint64_t value, unsigned bytes);
  void pass_on(std::size_t most);  // what waits, if that is more

  std::ostream& out_;
  std::string waiting_;  // a stream takes its time for each byte
  std::uint32_t values_ = 0;
};

}  // namespace culprit::report
