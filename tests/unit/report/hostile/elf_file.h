// Builds ELF files section by section, also such as no linker writes: for tests of what reads strangers' programs.
#pragma once

#include <elf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::test {

class ElfFile {
 public:
  // A shared object with `code_bytes` of zeros as its code, from kCode.
  explicit ElfFile(std::uint64_t code_bytes = 4096);

  // Returns the section's number. Its offset and size follow from the content.
  unsigned add_section(const std::string& name, std::string content, unsigned type = SHT_PROGBITS,
                       std::uint64_t flags = 0, std::uint64_t entry = 0, unsigned link = 0, unsigned info = 0);
  // A section over the content of another.
  void add_section_over(unsigned other, const std::string& name, unsigned type);
  // Functions of one byte each, all with the same name.
  void add_symbols(const std::vector<std::uint64_t>& addresses, const std::string& name);
  // The note that names the file's build ID.
  void add_build_id(const std::string& id);
  // A segment over the content of a section.
  void add_segment_over(unsigned section, unsigned type);

  // Throws std::runtime_error when it cannot be written.
  void write(const std::string& path);

  static constexpr std::uint64_t kCode = 4096;

  Elf64_Ehdr header = {};

 private:
  struct Section {
    Elf64_Shdr header = {};
    std::string content;
    unsigned over = 0;  // has the place of this section
  };
  struct Segment {
    unsigned type;
    unsigned section;
  };

  std::uint64_t code_bytes_;
  std::vector<Section> sections_;
  std::vector<Segment> segments_;
  std::string names_;
};

// The content of a compressed section: its header, and `packed`, which claims to have `bytes`.
std::string compressed_section(std::uint64_t bytes, const std::string& packed, unsigned type = ELFCOMPRESS_ZLIB);

// Appends a number as the file has it, lowest byte first.
template <typename Number>
void put(std::string* to, Number number) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Likewise in LEB128.
void put_leb(std::string* to, std::uint64_t number);

}  // namespace culprit::test
