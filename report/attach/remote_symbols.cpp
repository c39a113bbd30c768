#include "report/attach/remote_symbols.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace culprit::report {
namespace {

// Limits, because the memory of another process may have any content.
constexpr std::size_t kMostHeaders = 256;
constexpr std::size_t kMostEntries = 1024;
constexpr std::size_t kMostSymbols = std::size_t{1} << 20;
constexpr std::size_t kMostOfNames = std::size_t{64} << 20;

class Image {
 public:
  Image(const ReadMemory& read, std::uint64_t begin) : read_(read), begin_(begin) {}

  // False: this is no library with a table of names.
  bool look() {
    Elf64_Ehdr header = {};
    if (!read_(begin_, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum > kMostHeaders)
      return false;
    std::vector<Elf64_Phdr> parts(header.e_phnum);
    if (!read_(begin_ + header.e_phoff, parts.data(), parts.size() * sizeof(parts[0]))) return false;
    const auto first =
        std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.p_type == PT_LOAD; });
    const auto dynamic =
        std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.p_type == PT_DYNAMIC; });
    if (first == parts.end() || dynamic == parts.end()) return false;
    bias_ = begin_ + first->p_offset - first->p_vaddr;
    std::vector<Elf64_Dyn> entries(std::min<std::size_t>(dynamic->p_memsz / sizeof(Elf64_Dyn), kMostEntries));
    if (!read_(bias_ + dynamic->p_vaddr, entries.data(), entries.size() * sizeof(entries[0]))) return false;
    for (const Elf64_Dyn& entry : entries) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_SYMTAB) symbols_at_ = placed(entry);
      if (entry.d_tag == DT_STRTAB) names_at_ = placed(entry);
      if (entry.d_tag == DT_STRSZ) names_size_ = entry.d_un.d_val;
      if (entry.d_tag == DT_HASH) old_hash_at_ = placed(entry);
      if (entry.d_tag == DT_GNU_HASH) hash_at_ = placed(entry);
    }
    return symbols_at_ != 0 && names_at_ != 0 && names_size_ <= kMostOfNames;
  }

  std::uint64_t bias() const { return bias_; }

  bool read_tables(std::vector<Elf64_Sym>* symbols, std::string* names) const {
    symbols->resize(std::min(count_symbols(), kMostSymbols));
    names->resize(names_size_);
    return read_(symbols_at_, symbols->data(), symbols->size() * sizeof(Elf64_Sym)) &&
           read_(names_at_, names->data(), names->size());
  }

 private:
  // The loader has mostly made an address of it.
  std::uint64_t placed(const Elf64_Dyn& entry) const {
    return entry.d_un.d_ptr < bias_ ? entry.d_un.d_ptr + bias_ : entry.d_un.d_ptr;
  }

  // The length of the table stands nowhere: the tables by which names are looked up tell the last symbol.
  std::size_t count_symbols() const {
    std::uint32_t old[2] = {};  // the numbers of buckets and of symbols
    if (old_hash_at_ != 0 && read_(old_hash_at_, old, sizeof(old))) return old[1];
    struct Hash {
      std::uint32_t buckets, first_symbol, words_of_bloom, shift;
    } hash = {};
    if (hash_at_ == 0 || !read_(hash_at_, &hash, sizeof(hash)) || hash.buckets > kMostSymbols) return 0;
    const std::uint64_t buckets_at = hash_at_ + sizeof(hash) + hash.words_of_bloom * sizeof(std::uint64_t);
    std::vector<std::uint32_t> buckets(hash.buckets);
    if (!read_(buckets_at, buckets.data(), buckets.size() * sizeof(buckets[0]))) return 0;
    const auto last = std::max_element(buckets.begin(), buckets.end());
    if (last == buckets.end() || *last < hash.first_symbol) return hash.first_symbol;
    // The chain of that bucket ends at a word with bit 0.
    const std::uint64_t chains_at = buckets_at + buckets.size() * sizeof(buckets[0]);
    for (std::size_t symbol = *last; symbol < kMostSymbols; ++symbol) {
      std::uint32_t word = 0;
      if (!read_(chains_at + (symbol - hash.first_symbol) * sizeof(word), &word, sizeof(word))) return 0;
      if ((word & 1) != 0) return symbol + 1;
    }
    return 0;
  }

  const ReadMemory& read_;
  const std::uint64_t begin_;
  std::uint64_t bias_ = 0;
  std::uint64_t symbols_at_ = 0;
  std::uint64_t names_at_ = 0;
  std::uint64_t names_size_ = 0;
  std::uint64_t old_hash_at_ = 0;
  std::uint64_t hash_at_ = 0;
};

}  // namespace

RemoteSymbols::RemoteSymbols(const ReadMemory& read, std::uint64_t begin) {
  Image image(read, begin);
  if (begin == 0 || !image.look()) return;
  bias_ = image.bias();
  if (!image.read_tables(&symbols_, &names_)) symbols_.clear();
}

RemoteSymbols::RemoteSymbols(const TracedProcess& process, std::uint64_t begin)
    : RemoteSymbols(
          [&](std::uint64_t address, void* data, std::size_t size) { return process.read_memory(address, data, size); },
          begin) {}

std::uint64_t RemoteSymbols::find(const std::string& name, unsigned char type) const {
  for (const Elf64_Sym& symbol : symbols_) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || ELF64_ST_TYPE(symbol.st_info) != type) continue;
    if (symbol.st_name < names_.size() && name == names_.c_str() + symbol.st_name) return bias_ + symbol.st_value;
  }
  return 0;
}

std::uint64_t RemoteSymbols::function(const std::string& name) const { return find(name, STT_FUNC); }

std::uint64_t RemoteSymbols::variable(const std::string& name) const { return find(name, STT_OBJECT); }

}  // namespace culprit::report
