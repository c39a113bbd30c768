#include "report/symbols/dwarf_limits.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

namespace culprit::report {
namespace {

// No compiler's units are that short, or have that many abbreviations.
constexpr std::uint64_t kUnitsOfAnyFile = 100000;
constexpr std::uint64_t kBytesForEachUnit = 256;
constexpr std::uint64_t kAbbreviationsOfAnyFile = 1000000;
constexpr std::uint64_t kBytesForEachAbbreviation = 16;
// Units of one type each (-fdebug-types-section) are short, and have the table of all types of a source file. libdw
// reads it for those types only that a path leads to.
constexpr std::uint64_t kBytesForEachTypeUnit = 64;
constexpr std::uint64_t kAbbreviationsOfTypesForEachByte = 2;
constexpr std::uint64_t kMostAttributes = 1000;      // of one abbreviation
constexpr std::uint64_t kMostBytesRead = 128 << 20;  // of all tables

// Numbers of a section, until its end.
class Reader {
 public:
  Reader(std::string_view text, bool swapped) : text_(text), swapped_(swapped) {}

  std::size_t left() const { return text_.size(); }
  void skip(std::size_t bytes) { text_.remove_prefix(std::min(bytes, text_.size())); }

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes && i < text_.size(); ++i) {
      const std::uint64_t byte = static_cast<unsigned char>(text_[i]);
      value = swapped_ ? value << 8 | byte : value | byte << (8 * i);
    }
    skip(bytes);
    return value;
  }

  // LEB128, whose sign is of no interest here.
  std::uint64_t leb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !text_.empty(); shift += 7) {
      const std::uint64_t byte = static_cast<unsigned char>(text_.front());
      text_.remove_prefix(1);
      if (shift < 64) value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }

 private:
  std::string_view text_;
  bool swapped_;  // the highest byte first
};

class Limits {
 public:
  Limits(std::string_view abbreviations, bool swapped, std::uint64_t file_bytes)
      : abbreviations_(abbreviations),
        swapped_(swapped),
        code_{kUnitsOfAnyFile + file_bytes / kBytesForEachUnit,
              kAbbreviationsOfAnyFile + file_bytes / kBytesForEachAbbreviation},
        types_{kUnitsOfAnyFile + file_bytes / kBytesForEachTypeUnit,
               kAbbreviationsOfAnyFile + file_bytes * kAbbreviationsOfTypesForEachByte} {}

  // `of_types`: a section that has no other units.
  std::string problem_of_units(std::string_view section, bool of_types) {
    for (Reader reader(section, swapped_); reader.left() > 12;) {
      std::uint64_t length = reader.number(4);
      const std::size_t word = length == 0xffffffff ? 8 : 4;
      if (word == 8) length = reader.number(8);
      if (length > reader.left()) break;
      Reader unit = reader;
      reader.skip(length);
      const bool has_kind = unit.number(2) >= 5;
      const std::uint64_t kind = has_kind ? unit.number(1) : 0;
      if (has_kind) unit.skip(1);  // the size of an address
      const std::uint64_t at = unit.number(word);
      Left& left = of_types || kind == DW_UT_type || kind == DW_UT_split_type ? types_ : code_;
      if (left.units-- == 0) return "it has too many units";
      const std::string problem = problem_of_table(at, &left);
      if (!problem.empty()) return problem;
    }
    return {};
  }

 private:
  struct Left {
    std::uint64_t units;
    std::uint64_t abbreviations;
  };
  struct Table {
    std::uint64_t abbreviations = 0;
    std::uint64_t bytes = 0;
    bool moderate = true;
  };

  std::string problem_of_table(std::uint64_t at, Left* left) {
    const auto [known, added] = tables_.try_emplace(at);
    Table& table = known->second;
    if (added) {
      read(at, &table);
      // Tables that begin at each byte of one another are read as often.
      if (table.bytes > read_left_) return "its tables of abbreviations overlap";
      read_left_ -= table.bytes;
    }
    if (!table.moderate) return "an abbreviation has too many attributes";
    if (table.abbreviations > left->abbreviations) return "its units have too many abbreviations";
    left->abbreviations -= table.abbreviations;
    return {};
  }

  void read(std::uint64_t at, Table* table) const {
    const std::string_view text = at < abbreviations_.size() ? abbreviations_.substr(at) : std::string_view();
    Reader reader(text, swapped_);
    while (table->moderate && table->bytes <= read_left_ && reader.leb() != 0) {
      ++table->abbreviations;
      reader.leb();
      reader.skip(1);
      std::uint64_t attributes = 0;
      for (std::uint64_t name = 1, form = 1; (name != 0 || form != 0) && reader.left() != 0; ++attributes) {
        name = reader.leb();
        form = reader.leb();
        if (form == DW_FORM_implicit_const) reader.leb();
      }
      if (attributes > kMostAttributes) table->moderate = false;
      table->bytes = text.size() - reader.left();
    }
  }

  std::string_view abbreviations_;
  bool swapped_;
  Left code_;
  Left types_;
  std::uint64_t read_left_ = kMostBytesRead;
  std::map<std::uint64_t, Table> tables_;  // by offset
};

// The section's content, expanded. Raw, because libelf would swap no bytes in it anyway.
std::string_view content_of(Elf_Scn* section, const GElf_Shdr& header, std::string_view name) {
  if ((header.sh_flags & SHF_COMPRESSED) != 0) {
    if (::elf_compress(section, 0, 0) < 0) return {};
  } else if (name.compare(0, 2, ".z") == 0 && ::elf_compress_gnu(section, 0, 0) < 0) {
    return {};
  }
  const Elf_Data* data = ::elf_getdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const char*>(data->d_buf), data->d_size};
}

}  // namespace

std::string problem_of_dwarf(Elf* elf, std::uint64_t file_bytes) {
  std::size_t names = 0;
  const char* identification = ::elf_getident(elf, nullptr);
  if (identification == nullptr || ::elf_getshdrstrndx(elf, &names) != 0) return {};
  const bool swapped = identification[EI_DATA] == ELFDATA2MSB;
  // A program may have its own units and, in split form, others.
  for (const std::string_view ending : {"", ".dwo"}) {
    const auto for_each_named = [&](std::string_view wanted, auto visit) {
      for (Elf_Scn* section = nullptr; (section = ::elf_nextscn(elf, section)) != nullptr;) {
        GElf_Shdr header;
        if (::gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
        const char* found = ::elf_strptr(elf, names, header.sh_name);
        if (found == nullptr) continue;
        std::string_view name(found, ::strnlen(found, 64));
        const std::string_view whole = name;
        name.remove_prefix(std::min<std::size_t>(name.compare(0, 2, ".z") == 0 ? 2 : 1, name.size()));
        if (name.size() == wanted.size() + ending.size() && name.compare(0, wanted.size(), wanted) == 0 &&
            name.substr(wanted.size()) == ending)
          visit(content_of(section, header, whole));
      }
    };
    std::string_view abbreviations;
    for_each_named("debug_abbrev", [&](std::string_view content) {
      if (abbreviations.empty()) abbreviations = content;  // libdw takes the first, too
    });
    Limits limits(abbreviations, swapped, file_bytes);
    std::string problem;
    for (const std::string_view units : {"debug_info", "debug_types"}) {
      for_each_named(units, [&](std::string_view content) {
        if (problem.empty()) problem = limits.problem_of_units(content, units == "debug_types");
      });
    }
    if (!problem.empty()) return problem;
  }
  return {};
}

}  // namespace culprit::report
