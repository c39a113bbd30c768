// The last step before a terminal or a file: no stream of culprit passes on bytes that its reader would carry out.
// Names are made printable where they are written (printable.h); this catches the place that forgot.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace culprit::report {

// Passes on printable text, line feeds and tabs, and '?' for anything else. For a terminal also carriage returns and
// the sequences that culprit itself writes: colours, and those that move to or wipe a line or the screen. Not
// thread-safe, like the stream behind it.
class PrintableBuffer : public std::streambuf {
 public:
  PrintableBuffer(std::streambuf* to, bool terminal) : to_(to), terminal_(terminal) {}
  ~PrintableBuffer() override;
  PrintableBuffer(const PrintableBuffer&) = delete;
  PrintableBuffer& operator=(const PrintableBuffer&) = delete;

  // From now on for a terminal, or for none.
  void set_terminal(bool terminal) { terminal_ = terminal; }
  // From now on bytes are passed on as they are, for a binary format.
  void pass_everything() { everything_ = true; }

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override;
  int_type overflow(int_type c) override;
  int sync() override { return to_->pubsync(); }
  bool write(std::string_view text);
  std::string filtered(std::string_view text) const;

  std::streambuf* to_;
  bool terminal_;
  bool everything_ = false;
  std::string begun_;  // the first bytes of a character whose last ones have not come yet
};

// Puts a PrintableBuffer before a stream, as long as this object lives.
class PrintableStream {
 public:
  PrintableStream(std::ostream& out, bool terminal) : out_(out), before_(out.rdbuf()), buffer_(before_, terminal) {
    out.rdbuf(&buffer_);
  }
  ~PrintableStream() {
    const std::ios_base::iostate state = out_.rdstate();
    out_.rdbuf(before_);  // clears the state
    out_.setstate(state);
  }
  PrintableStream(const PrintableStream&) = delete;
  PrintableStream& operator=(const PrintableStream&) = delete;

  void set_terminal(bool terminal) { buffer_.set_terminal(terminal); }

 private:
  std::ostream& out_;
  std::streambuf* before_;
  PrintableBuffer buffer_;
};

// For a binary format: a PrintableBuffer before the stream, if there is one, passes everything on.
void pass_everything(std::ostream& out);

}  // namespace culprit::report
