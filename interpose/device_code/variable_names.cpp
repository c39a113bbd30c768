#include "interpose/device_code/variable_names.h"

#include <elf.h>

#include <cstring>

#include "interpose/base/module_name.h"

namespace culprit {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint64_t kAddressBytes = 8;
// Symbols of textures, samplers and surfaces, which refer to memory by a binding (NVIDIA's cuda-gdb, include/elf).
constexpr unsigned kFirstReference = STT_LOOS;

// The kernels' heap: malloc() and the like, which the driver brings.
bool takes_from_heap(const char* name, std::size_t length) {
  constexpr char kPart[] = "alloc";
  for (std::size_t i = 0; i + sizeof(kPart) - 1 <= length; ++i) {
    if (std::memcmp(name + i, kPart, sizeof(kPart) - 1) == 0) return true;
  }
  return false;
}

// An ELF file in memory whose fields may be anything.
class Cubin {
 public:
  Cubin(const unsigned char* image, std::uint64_t bytes) : image_(image), bytes_(bytes) {}

  bool open() {
    if (!get(0, &header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_machine != kMachineCuda ||
        header_.e_shentsize != sizeof(Elf64_Shdr))
      return false;
    return section(header_.e_shstrndx, &names_);
  }
  std::uint32_t sections() const { return header_.e_shnum; }
  bool section(std::uint32_t number, Elf64_Shdr* section) const {
    return number < header_.e_shnum && get(header_.e_shoff + number * sizeof(Elf64_Shdr), section);
  }
  // "" for a name that cannot be read.
  const char* section_name(const Elf64_Shdr& section) const { return text(names_, section.sh_name); }
  const char* text(const Elf64_Shdr& strings, std::uint32_t offset) const {
    if (strings.sh_offset > bytes_ || strings.sh_size > bytes_ - strings.sh_offset || offset >= strings.sh_size)
      return "";
    const auto* begin = reinterpret_cast<const char*>(image_) + strings.sh_offset + offset;
    return std::memchr(begin, '\0', strings.sh_size - offset) != nullptr ? begin : "";
  }
  template <typename T>
  bool get(std::uint64_t offset, T* to) const {
    if (offset > bytes_ || bytes_ - offset < sizeof(T)) return false;
    std::memcpy(to, image_ + offset, sizeof(T));
    return true;
  }

 private:
  const unsigned char* image_;
  std::uint64_t bytes_;
  Elf64_Ehdr header_ = {};
  Elf64_Shdr names_ = {};
};

// Whether the symbols of a section are variables that outlive a kernel, in memory that a program can write to. The
// other banks of constants have the arguments of kernels and numbers of the compiler.
bool outlives_kernels(const char* section) {
  if (begins_with(section, ".nv.constant")) return begins_with(section, ".nv.constant3");
  return !begins_with(section, ".nv.shared") && !begins_with(section, ".nv.local") && !begins_with(section, ".text") &&
         !begins_with(section, ".debug");
}

// Returns false when it forbids to know the variables.
bool add_symbol(const Cubin& cubin, const Elf64_Sym& symbol, const char* name, VariableNames* names) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if (type >= kFirstReference) return false;
  if (symbol.st_shndx == SHN_UNDEF) return type != STT_FUNC || !takes_from_heap(name, std::strlen(name));
  if (type != STT_OBJECT && type != STT_COMMON) return true;
  if (symbol.st_size < kAddressBytes || symbol.st_shndx == SHN_ABS) return true;
  if (symbol.st_shndx != SHN_COMMON) {
    Elf64_Shdr section;
    if (!cubin.section(symbol.st_shndx, &section)) return false;
    if (!outlives_kernels(cubin.section_name(section))) return true;
  }
  return *name != '\0' && names->add(name, std::strlen(name));
}

bool add_symbols(const Cubin& cubin, const Elf64_Shdr& table, VariableNames* names) {
  Elf64_Shdr strings;
  if (table.sh_entsize != sizeof(Elf64_Sym) || !cubin.section(table.sh_link, &strings)) return false;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    if (!cubin.get(table.sh_offset + at, &symbol)) return false;
    if (!add_symbol(cubin, symbol, cubin.text(strings, symbol.st_name), names)) return false;
  }
  return true;
}

bool is_of_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
         letter == '_' || letter == '$' || letter == '%';
}

// The words of PTX (PTX ISA, "Syntax"): names, directives with their dot, and single other characters.
class PtxWords {
 public:
  PtxWords(const char* text, std::uint64_t bytes) : at_(text), end_(text + bytes) {}

  // Returns false at the end.
  bool next() {
    skip_space();
    begin_ = at_;
    if (at_ == end_) return false;
    if (*at_ == '"') {
      do ++at_;
      while (at_ != end_ && *at_ != '"' && *at_ != '\n');
      if (at_ != end_) ++at_;
    } else if (is_of_name(*at_) || *at_ == '.') {
      do ++at_;
      while (at_ != end_ && (is_of_name(*at_) || *at_ == '.'));
    } else {
      ++at_;
    }
    return true;
  }
  bool is(const char* word) const { return std::strlen(word) == length() && std::memcmp(begin_, word, length()) == 0; }
  bool is(char letter) const { return length() == 1 && *begin_ == letter; }
  bool is_name() const { return is_of_name(*begin_) && (*begin_ < '0' || *begin_ > '9'); }
  const char* begin() const { return begin_; }
  std::size_t length() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  void skip_space() {
    for (;;) {
      while (at_ != end_ && static_cast<unsigned char>(*at_) <= ' ') ++at_;
      if (end_ - at_ < 2 || *at_ != '/') return;
      if (at_[1] == '/') {
        while (at_ != end_ && *at_ != '\n') ++at_;
      } else if (at_[1] == '*') {
        at_ += 2;
        while (end_ - at_ >= 2 && (at_[0] != '*' || at_[1] != '/')) ++at_;
        at_ = end_ - at_ >= 2 ? at_ + 2 : end_;
      } else {
        return;
      }
    }
  }

  const char* at_;
  const char* end_;
  const char* begin_ = nullptr;
};

// The rest of a declaration, behind ".global" or ".const": .attribute(.managed) .align 8 .u64 name[4] = {1, 2}, other;
bool add_declared(PtxWords* words, VariableNames* names) {
  int depth = 0;
  bool named = false;
  while (words->next()) {
    if (words->is(';') && depth == 0) return named;
    if (words->is('(') || words->is('[') || words->is('{')) ++depth;
    if (words->is(')') || words->is(']') || words->is('}')) --depth;
    if (depth != 0) continue;
    if (words->is(',')) named = false;
    if (words->is(".texref") || words->is(".surfref")) return false;
    if (named || !words->is_name()) continue;
    if (!names->add(words->begin(), words->length())) return false;
    named = true;
  }
  return false;
}

}  // namespace

bool VariableNames::add(const char* name, std::size_t length) {
  if (length + 1 > kMostBytes - bytes) return false;
  std::memcpy(text + bytes, name, length);
  text[bytes + length] = '\0';
  bytes += static_cast<std::uint32_t>(length) + 1;
  ++count;
  return true;
}

bool add_variables_of_cubin(const unsigned char* image, std::uint64_t bytes, VariableNames* names) {
  Cubin cubin(image, bytes);
  if (!cubin.open()) return false;
  bool any = false;
  for (std::uint32_t i = 0; i < cubin.sections(); ++i) {
    Elf64_Shdr section;
    if (!cubin.section(i, &section)) return false;
    if (section.sh_type != SHT_SYMTAB) continue;
    any = true;
    if (!add_symbols(cubin, section, names)) return false;
  }
  ++names->images;
  return any;
}

bool add_variables_of_ptx(const char* text, std::uint64_t bytes, VariableNames* names) {
  PtxWords words(text, bytes);
  bool any = false;
  bool is_extern = false;
  int parameters = 0;  // parentheses: a parameter may be said to point to global memory
  while (words.next()) {
    any = any || words.is(".version");
    if (words.is('(')) ++parameters;
    if (words.is(')')) --parameters;
    if (words.is(';') || words.is('}')) is_extern = false;
    if (words.is(".extern")) is_extern = true;
    if (is_extern && words.is_name() && takes_from_heap(words.begin(), words.length())) return false;
    if (is_extern || parameters != 0 || (!words.is(".global") && !words.is(".const"))) continue;
    if (!add_declared(&words, names)) return false;
  }
  ++names->images;
  return any;
}

}  // namespace culprit
