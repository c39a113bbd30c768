#include "interpose/inside_python/copy_memory.h"

#include <cstddef>
#include <cstdint>

#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
constexpr std::uint64_t kPieceBytes = 1 << 20;
constexpr std::uint64_t kAlone = 1 << 16;  // a block of this size has a mapping of its own
constexpr std::uint64_t kMark = 0x6970'6f63'6e7a'7266;

// In front of each block, by which the copy knows its own ones: others are malloc's, and stay.
struct Header {
  std::uint64_t mark;
  std::uint64_t bytes;   // with this header
  std::uint64_t mapped;  // 0: a part of a piece
  std::uint64_t unused;
};

char* piece;
std::uint64_t piece_left;
std::uint64_t mapped_bytes;

void* map_counted(std::uint64_t bytes) {
  int error = 0;
  if (mapped_bytes + bytes > kMost) return nullptr;
  void* memory = map_private(bytes, &error);
  if (memory != nullptr) mapped_bytes += bytes;
  return memory;
}

// 0: too large.
std::uint64_t whole_bytes(std::size_t size) { return size > kMost ? 0 : (size + sizeof(Header) + 15) / 16 * 16; }

Header* header_of(void* memory) { return static_cast<Header*>(memory) - 1; }

bool is_own(void* memory) {
  std::uint64_t mark = 0;
  return os.read_own_memory(&mark, reinterpret_cast<std::uint64_t>(header_of(memory)), sizeof(mark)) == sizeof(mark) &&
         mark == kMark;
}

void* copy_malloc(void*, std::size_t size) {
  const std::uint64_t bytes = whole_bytes(size);
  if (bytes == 0) return nullptr;
  Header* header = nullptr;
  if (bytes >= kAlone) {
    header = static_cast<Header*>(map_counted(bytes));
  } else {
    if (piece_left < bytes) {
      piece = static_cast<char*>(map_counted(kPieceBytes));
      piece_left = piece == nullptr ? 0 : kPieceBytes;
    }
    if (piece_left >= bytes) {
      header = reinterpret_cast<Header*>(piece);
      piece += bytes;
      piece_left -= bytes;
    }
  }
  if (header == nullptr) return nullptr;
  *header = {kMark, bytes, bytes >= kAlone ? bytes : 0, 0};
  return header + 1;
}

// Each block is new, and zero.
void* copy_calloc(void* self, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : copy_malloc(self, bytes);
}

void copy_free(void*, void* memory) {
  if (memory == nullptr || !is_own(memory) || header_of(memory)->mapped == 0) return;
  mapped_bytes -= header_of(memory)->mapped;
  unmap_private(header_of(memory), header_of(memory)->mapped);
}

void* enlarge_mapped(Header* header, std::size_t size) {
  const std::uint64_t bytes = whole_bytes(size);
  if (bytes == 0 || mapped_bytes + bytes - header->mapped > kMost) return nullptr;
  auto* larger = static_cast<Header*>(enlarge_private(header, header->mapped, bytes));
  if (larger == nullptr) return nullptr;
  mapped_bytes += bytes - larger->mapped;
  larger->bytes = larger->mapped = bytes;
  return larger + 1;
}

void* copy_realloc(void* self, void* memory, std::size_t size) {
  if (memory == nullptr) return copy_malloc(self, size);
  const bool own = is_own(memory);
  if (own && header_of(memory)->bytes >= size + sizeof(Header)) return memory;
  if (own && header_of(memory)->mapped != 0) return enlarge_mapped(header_of(memory), size);
  void* made = copy_malloc(self, size);
  if (made == nullptr) return nullptr;
  // The size of a block of malloc is not known: what lies behind it is read, too, as far as there is memory.
  const std::uint64_t known = own ? header_of(memory)->bytes - sizeof(Header) : size;
  os.read_own_memory(made, reinterpret_cast<std::uint64_t>(memory), known < size ? known : size);
  return made;
}

struct Allocator {  // CPython's PyMemAllocatorEx
  void* context;
  void* (*malloc)(void*, std::size_t);
  void* (*calloc)(void*, std::size_t, std::size_t);
  void* (*realloc)(void*, void*, std::size_t);
  void (*free)(void*, void*);
};
enum Domain { kRaw = 0, kMemory = 1, kObjects = 2 };  // PyMemAllocatorDomain

}  // namespace

void take_memory_of_copy(const Interpreter& python) {
  Allocator raw, other;
  python.PyMem_GetAllocator(kRaw, &raw);
  Allocator own = {nullptr, copy_malloc, copy_calloc, copy_realloc, copy_free};
  // With PYTHONMALLOC=malloc small objects come from malloc, too.
  for (int domain = kMemory; domain <= kObjects; ++domain) {
    python.PyMem_GetAllocator(domain, &other);
    if (other.malloc == raw.malloc) python.PyMem_SetAllocator(domain, &own);
  }
  python.PyMem_SetAllocator(kRaw, &own);
}

}  // namespace culprit
