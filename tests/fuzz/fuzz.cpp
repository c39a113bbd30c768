#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <streambuf>

#include "report/render/formats.h"
#include "report/select/render_options.h"

namespace culprit::fuzz {
namespace {

class Forgets : public std::streambuf {
  std::streamsize xsputn(const char*, std::streamsize count) override { return count; }
  int_type overflow(int_type c) override { return c == traits_type::eof() ? 0 : c; }
};

}  // namespace

std::ostream& nowhere() {
  static Forgets buffer;
  static std::ostream stream(&buffer);
  return stream;
}

void render_all(const std::vector<report::Report>& reports) {
  report::RenderOptions options;
  options.all = true;
  options.resources = true;
  options.source_dirs = {"/nonexistent"};
  for (const std::string& name : report::report_formats())
    report::find_format(name)->write(reports, options, nowhere());
  options.at_peak = true;
  report::find_format("text")->write(reports, options, nowhere());
  options.at_peak = false;
  for (const char* by : {"function", "library", "thread", "device", "cause", "mark", "rank"}) {
    options.group_by = by;
    report::find_format("text")->write(reports, options, nowhere());
  }
}

std::string as_file(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

}  // namespace culprit::fuzz
