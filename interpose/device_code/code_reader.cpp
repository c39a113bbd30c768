#include "interpose/device_code/code_reader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "interpose/device_code/fat_binary.h"
#include "interpose/driver/driver.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

constexpr std::uint64_t kPage = 4096;

// A copy of an image, in private memory.
class Copy {
 public:
  Copy() = default;
  ~Copy() {
    if (memory_ != nullptr) unmap_private(memory_, mapped_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  bool make_room(std::uint64_t bytes, std::uint64_t* budget) {
    if (bytes > *budget) return false;
    *budget -= bytes;
    int error = 0;
    mapped_ = std::max<std::uint64_t>(bytes, 1);
    bytes_ = bytes;
    memory_ = static_cast<unsigned char*>(map_private(mapped_, &error));
    return memory_ != nullptr;
  }
  bool take(std::uint64_t address, std::uint64_t bytes, std::uint64_t* budget) {
    return make_room(bytes, budget) && os.read_own_memory(memory_, address, bytes) == static_cast<std::int64_t>(bytes);
  }
  unsigned char* memory() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  unsigned char* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t mapped_ = 0;
};

bool takes(std::uint32_t gpu, std::uint32_t cubin) { return gpu / 10 == cubin / 10 && gpu % 10 >= cubin % 10; }

template <typename T>
bool read_at(std::uint64_t address, T* to) {
  return os.read_own_memory(to, address, sizeof(T)) == static_cast<std::int64_t>(sizeof(T));
}

// The length of a text, up to the NUL that the driver needs; 0: there is none within `most` bytes.
std::uint64_t text_bytes(std::uint64_t address, std::uint64_t most) {
  char piece[512];
  for (std::uint64_t length = 0; length < most;) {
    const std::uint64_t left = kPage - (address + length) % kPage;
    const std::uint64_t wanted = std::min<std::uint64_t>(left, sizeof(piece));
    if (os.read_own_memory(piece, address + length, wanted) != static_cast<std::int64_t>(wanted)) return 0;
    if (const void* end = std::memchr(piece, '\0', wanted))
      return length + static_cast<std::uint64_t>(static_cast<const char*>(end) - piece);
    length += wanted;
  }
  return 0;
}

// The size of an ELF file by its sections; 0: it cannot be read.
std::uint64_t elf_bytes(std::uint64_t address) {
  Elf64_Ehdr header;
  if (!read_at(address, &header) || header.e_shentsize != sizeof(Elf64_Shdr)) return 0;
  std::uint64_t end = header.e_shoff + header.e_shnum * sizeof(Elf64_Shdr);
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!read_at(address + header.e_shoff + i * sizeof(section), &section)) return 0;
    if (section.sh_type != SHT_NOBITS) end = std::max(end, section.sh_offset + section.sh_size);
  }
  return end;
}

std::uint64_t image_bytes(std::uint64_t address, std::uint64_t most) {
  std::uint32_t magic = 0;
  if (!read_at(address, &magic)) return 0;
  if (magic == FatBinary::kMagic) {
    FatBinary head;
    return read_at(address, &head) ? head.header_bytes + head.bytes : 0;
  }
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return elf_bytes(address);
  return text_bytes(address, most);
}

bool add_entry(const FatBinaryEntry& entry, std::uint64_t* budget, VariableNames* names) {
  const unsigned char* image = entry.data;
  Copy plain;
  if (entry.compression != Compression::kNone) {
    if (!plain.make_room(entry.image_bytes, budget) ||
        !decompress(entry.compression, entry.data, entry.bytes, plain.memory(), entry.image_bytes))
      return false;
    image = plain.memory();
  }
  if (entry.kind == FatBinaryEntry::Kind::kCubin) return add_variables_of_cubin(image, entry.image_bytes, names);
  return add_variables_of_ptx(reinterpret_cast<const char*>(image), entry.image_bytes, names);
}

// Of the pieces of a container the driver chooses one. All that it may choose are read: it knows each name that is in
// the one.
bool add_container(const Copy& container, const Architectures& architectures, std::uint64_t* budget,
                   VariableNames* names) {
  std::uint32_t cubins[Architectures::kMost];
  int cubin_count = 0;
  const bool whole = for_each_entry_of(container.memory(), container.bytes(), [&](const FatBinaryEntry& entry) {
    if (entry.kind == FatBinaryEntry::Kind::kCubin && cubin_count != Architectures::kMost)
      cubins[cubin_count++] = entry.architecture;
    return true;
  });
  if (!whole) return false;
  const bool without_ptx = architectures.all_take_cubin(cubins, cubin_count);
  return for_each_entry_of(container.memory(), container.bytes(), [&](const FatBinaryEntry& entry) {
    switch (entry.kind) {
      case FatBinaryEntry::Kind::kCubin:
        return !architectures.one_takes_cubin(entry.architecture) || add_entry(entry, budget, names);
      case FatBinaryEntry::Kind::kPtx:
        return without_ptx || add_entry(entry, budget, names);
      case FatBinaryEntry::Kind::kOther:
        break;
    }
    return without_ptx;
  });
}

bool add_image(const Copy& image, const Architectures& architectures, std::uint64_t* budget, VariableNames* names) {
  std::uint32_t magic = 0;
  if (image.bytes() < sizeof(magic)) return false;
  std::memcpy(&magic, image.memory(), sizeof(magic));
  if (magic == FatBinary::kMagic) return add_container(image, architectures, budget, names);
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return add_variables_of_cubin(image.memory(), image.bytes(), names);
  return add_variables_of_ptx(reinterpret_cast<const char*>(image.memory()), image.bytes(), names);
}

}  // namespace

bool Architectures::one_takes_cubin(std::uint32_t cubin) const {
  return std::any_of(of, of + count, [cubin](std::uint16_t gpu) { return takes(gpu, cubin); });
}

bool Architectures::all_take_cubin(const std::uint32_t* cubins, int cubin_count) const {
  return count != 0 && std::all_of(of, of + count, [&](std::uint16_t gpu) {
           return std::any_of(cubins, cubins + cubin_count, [gpu](std::uint32_t cubin) { return takes(gpu, cubin); });
         });
}

void read_architectures(Architectures* to) {
  to->count = 0;
  for (CUdevice device = 0; device < Architectures::kMost; ++device) {
    int major = 0;
    int minor = 0;
    if (driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
      return;
    to->of[to->count++] = static_cast<std::uint16_t>(major * 10 + minor);
  }
}

std::uint64_t container_of(std::uint64_t image) {
  FatBinaryWrapper wrapper;
  std::uint32_t magic = 0;
  if (!read_at(image, &magic)) return 0;
  if (magic != FatBinaryWrapper::kMagic) return image;
  return read_at(image, &wrapper) ? wrapper.data : 0;
}

bool read_variable_names(std::uint64_t image, const Architectures& architectures, std::uint64_t* budget,
                         VariableNames* names) {
  const std::uint64_t begin = container_of(image);
  const std::uint64_t bytes = begin == 0 ? 0 : image_bytes(begin, *budget);
  Copy copy;
  return bytes != 0 && copy.take(begin, bytes, budget) && add_image(copy, architectures, budget, names);
}

bool read_variable_names_of_file(const char* path, const Architectures& architectures, std::uint64_t* budget,
                                 VariableNames* names) {
  const int file = os.open_file(path, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return false;
  FileId id = {};
  Copy copy;
  const bool read = os.identify(file, &id) == 0 && id.bytes != 0 && copy.make_room(id.bytes, budget) &&
                    os.read_at(file, copy.memory(), id.bytes, 0) == static_cast<std::int64_t>(id.bytes);
  os.close_file(file);
  return read && add_image(copy, architectures, budget, names);
}

}  // namespace culprit
