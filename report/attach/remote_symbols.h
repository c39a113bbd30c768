// Addresses of functions and variables of a library in another process, read from its memory: the loader needs the
// table of exported names there. The library's file may have been replaced since, and is not needed.
#pragma once

#include <elf.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

// False unless all of it could be read.
using ReadMemory = std::function<bool(std::uint64_t address, void* data, std::size_t size)>;

class RemoteSymbols {
 public:
  // `begin`: the first mapping of the library. Without symbols where there is no library, or it is not there as a whole
  // yet.
  RemoteSymbols(const ReadMemory& read, std::uint64_t begin);
  RemoteSymbols(const TracedProcess& process, std::uint64_t begin);

  bool is_empty() const { return symbols_.empty(); }
  // The address of what the library exports under this name; 0: nothing.
  std::uint64_t function(const std::string& name) const;
  std::uint64_t variable(const std::string& name) const;

 private:
  std::uint64_t find(const std::string& name, unsigned char type) const;

  std::uint64_t bias_ = 0;
  std::vector<Elf64_Sym> symbols_;
  std::string names_;
};

}  // namespace culprit::report
