#include "interpose/causes/unseen_users.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/machine.h"
#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/unwind_services.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/written_memory.h"

namespace culprit {
namespace {

constexpr std::uint64_t kLongestNs = 300'000'000;

// Beginnings of file names. libcuda passes its own addresses around inside; tools on top of CUPTI compare them.
constexpr const char* kKnowTheDriver[] = {"libcuda.so",        "libcupti",     "libcudadebugger", "libnvperf",
                                          "libToolsInjection", "libnvidia-",   "libc.so",         "ld-linux",
                                          "libculprit",        "libsanitizer-"};

// link.h's r_debug_extended, which older glibcs lack: the list of the loader's namespaces.
struct NamespaceList {
  struct r_debug base;
  NamespaceList* next;
};
constexpr int kFirstVersionWithNamespaces = 2;

// The result in the dump's format: kind and path of each library, then a NUL.
struct Found {
  static constexpr std::uint32_t kMostModules = 32;
  std::uint32_t count;
  std::uint32_t bytes;
  std::uint64_t begins[kMostModules];  // of the modules in the text
  char text[64 * 1024];

  bool has(std::uint64_t begin) const { return std::find(begins, begins + count, begin) != begins + count; }

  void add(format::UnseenHow kind, std::uint64_t begin, const char* path, std::size_t length) {
    if (count == kMostModules || length + 2 > sizeof(text) - bytes) return;
    begins[count++] = begin;
    text[bytes++] = static_cast<char>(kind);
    std::memcpy(text + bytes, path, length);
    bytes += static_cast<std::uint32_t>(length);
    text[bytes++] = '\0';
  }
};

bool is_hooked(std::uint64_t address) {
  HookedFunction function;
  return find_hooked(reinterpret_cast<void*>(address), &function);
}

// A library that defines hooked functions is another interposer: its driver calls are those of its callers.
bool defines_hooked_functions(const ElfModule& module) {
  for (int i = 0; i < kApiCount; ++i) {
    if (find_symbol(module, api_name(static_cast<Api>(i))) != 0) return true;
  }
  return false;
}

struct DirectSearch {
  static constexpr int kMostRanges = 8192;
  Found* found;
  std::uint64_t least;
  std::uint64_t span;
  int count;
  MemoryRange ranges[kMostRanges];
};

void add_module(const struct dl_phdr_info& info, const ElfModule& module, Found* found) {
  if (found->has(module.begin) || defines_hooked_functions(module)) return;
  char path[1024];
  found->add(format::UnseenHow::kDirect, module.begin, path, module_path(info, path, sizeof(path)));
}

bool is_linked_to_driver(const ElfModule& module) {
  for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED && std::strncmp(module.strings + entry->d_un.d_val, "libcuda.so", 10) == 0)
      return true;
  }
  return false;
}

// Whether a slot by which the module calls functions leads to the driver. The loader fills these at load or at the
// first call; we never change them.
bool slot_leads_to_driver(const ElfModule& module, const DirectSearch& search) {
  auto leads_to_driver = [&](const ElfW(Rela) & relocation) {
    std::uint64_t place = module.load_bias + relocation.r_offset;
    if (!module.contains(place)) return false;
    std::uint64_t held = *reinterpret_cast<const std::uint64_t*>(place);
    return held - search.least <= search.span && is_hooked(held);
  };
  Relocations relocations = relocations_of(module);
  for (const ElfW(Rela) & relocation : relocations.calls) {
    if (leads_to_driver(relocation)) return true;
  }
  // The other table is long, and has the driver's symbols only if the module is linked to the driver.
  if (!is_linked_to_driver(module)) return false;
  if (relocations.data.first == nullptr) return false;
  relocations.data.first += relocations.relative;
  for (const ElfW(Rela)* relocation = relocations.data.first; relocation < relocations.data.last; ++relocation) {
    if (ELF64_R_TYPE(relocation->r_info) == kGlobalDataRelocation && leads_to_driver(*relocation)) return true;
  }
  return false;
}

void look_at_module(const struct dl_phdr_info& info, const ElfModule& module, DirectSearch* search) {
  if (may_know_the_driver(info, module)) return;
  if (slot_leads_to_driver(module, *search)) {
    add_module(info, module, search->found);
    return;
  }
  // Function slots were checked above.
  for_each_data_range(info, [&](std::uint64_t begin, std::uint64_t end) {
    if (search->count < DirectSearch::kMostRanges) search->ranges[search->count++] = {begin, end};
  });
}

// Whether the word at `address` was left there by a hook of ours that ran on a stack in a module's data (a handler's
// stack, a fiber's): it keeps the driver's function in a register, which the functions that it calls save. Then our
// return addresses stand above it. A table of functions has entries only, and no call stands before one.
bool is_left_by_hook(std::uint64_t address) {
  constexpr std::uint64_t kHookBytes = 2048;  // of stack, at most
  std::uint64_t above[kHookBytes / sizeof(std::uint64_t)];
  const std::int64_t bytes = os.read_own_memory(above, address, sizeof(above));
  return std::any_of(above, above + std::max<std::int64_t>(bytes, 0) / 8, [](std::uint64_t word) {
    std::uint64_t code = 0;
    return in_own_module(word) && os.read_own_memory(&code, word - sizeof(code), sizeof(code)) == sizeof(code) &&
           ends_with_call(code);
  });
}

bool look_at_words(void* data, const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
  auto* search = static_cast<DirectSearch*>(data);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (words[i] - search->least > search->span || !is_hooked(words[i])) continue;
    const std::uint64_t hit = address + i * sizeof(std::uint64_t);
    if (is_left_by_hook(hit)) continue;
    any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
      if (!module.contains(hit)) return false;
      add_module(info, module, search->found);
      return true;
    });
    return search->found->count < Found::kMostModules;  // the rest of the block is probably in the same module
  }
  return true;
}

// Finds users of a driver in our own namespace of the loader.
void find_direct_users(const LoadedDriver& driver, Found* found) {
  int error = 0;
  auto* search = static_cast<DirectSearch*>(map_private(sizeof(DirectSearch), &error));
  if (search == nullptr) return;
  search->found = found;
  search->least = driver.module.begin;
  search->span = driver.module.end - driver.module.begin;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    look_at_module(info, module, search);
    return false;
  });
  read_written_memory(search->ranges, search->count, clock_ns(CLOCK_MONOTONIC) + kLongestNs, look_at_words, search);
  unmap_private(search, sizeof(DirectSearch));
}

// Reads by a system call: the loader's lists may change meanwhile, and unmapped memory gives an error instead of a
// fault.
template <typename T>
bool copy_of(const T* original, T* copy) {
  return original != nullptr && os.read_own_memory(copy, reinterpret_cast<std::uint64_t>(original), sizeof(T)) ==
                                    static_cast<std::int64_t>(sizeof(T));
}

// Returns its length, 0 when it cannot be read or does not fit.
std::size_t copy_text(const char* original, char* copy, std::size_t capacity) {
  constexpr std::uint64_t kPage = 4096;
  std::size_t length = 0;
  while (original != nullptr && length < capacity) {
    auto address = reinterpret_cast<std::uint64_t>(original) + length;
    std::uint64_t wanted = std::min<std::uint64_t>(kPage - address % kPage, capacity - length);
    std::int64_t got = os.read_own_memory(copy + length, address, wanted);
    if (got <= 0) break;
    if (const void* end = std::memchr(copy + length, '\0', static_cast<std::size_t>(got)))
      return static_cast<std::size_t>(static_cast<const char*>(end) - copy);
    length += static_cast<std::size_t>(got);
  }
  return 0;
}

bool is_libcuda(const char* path, std::size_t length) {
  constexpr const char kName[] = "/libcuda.so";
  return std::search(path, path + length, kName, kName + sizeof(kName) - 1) != path + length ||
         std::strncmp(path, kName + 1, sizeof(kName) - 2) == 0;
}

// The library for which a namespace was made: the first one in its list. Returns 0 for a namespace without libcuda.
std::size_t owner_of_libcuda(const struct link_map* first, char* owner, std::size_t capacity) {
  constexpr int kMostModules = 10000;
  char path[1024];
  bool has_libcuda = false;
  std::size_t owner_length = 0;
  const struct link_map* at = first;
  for (int i = 0; i < kMostModules && at != nullptr && !has_libcuda; ++i) {
    struct link_map map;
    if (!copy_of(at, &map)) break;
    std::size_t length = copy_text(map.l_name, path, sizeof(path));
    has_libcuda = is_libcuda(path, length);
    if (i == 0) {
      std::memcpy(owner, path, std::min(length, capacity));
      owner_length = std::min(length, capacity);
    }
    at = map.l_next;
  }
  if (!has_libcuda) return 0;
  if (owner_length == 0) owner_length = static_cast<std::size_t>(std::strlen(std::strcpy(owner, "?")));
  return owner_length;
}

// Calls visit(first module) for each namespace except our own, until it returns true.
template <typename Visit>
bool any_other_namespace(Visit visit) {
  constexpr int kMostNamespaces = 16;  // glibc's own limit
  const struct r_debug* own = loader_lists();
  if (own == nullptr || own->r_version < kFirstVersionWithNamespaces) return false;
  NamespaceList list;
  const auto* at = reinterpret_cast<const NamespaceList*>(own);
  for (int i = 0; i < kMostNamespaces && copy_of(at, &list); ++i) {
    if (i != 0 && visit(list.base.r_map)) return true;
    at = list.next;
  }
  return false;
}

void find_other_namespaces(Found* found) {
  any_other_namespace([&](const struct link_map* first) {
    char owner[1024];
    std::size_t length = owner_of_libcuda(first, owner, sizeof(owner));
    if (length != 0) found->add(format::UnseenHow::kNamespace, 0, owner, length);
    return false;
  });
}

// Drivers that were opened while too many others were.
void add_unhooked_drivers(Found* found) {
  const UnhookedDrivers& drivers = unhooked_drivers();
  const int bytes = __atomic_load_n(&drivers.bytes, __ATOMIC_ACQUIRE);
  for (int at = 0; at < bytes; at += static_cast<int>(std::strlen(drivers.paths + at)) + 1)
    found->add(format::UnseenHow::kDriver, 0, drivers.paths + at, std::strlen(drivers.paths + at));
}

// Returns the users found, or nullptr when there are none. The caller unmaps the result.
Found* find_unseen_users() {
  int error = 0;
  auto* found = static_cast<Found*>(map_private(sizeof(Found), &error));
  if (found == nullptr) return nullptr;
  if (driver_ready()) {
    any_driver([&](const LoadedDriver& driver) {
      find_direct_users(driver, found);
      return false;
    });
  }
  find_other_namespaces(found);
  add_unhooked_drivers(found);
  if (found->count != 0) return found;
  unmap_private(found, sizeof(Found));
  return nullptr;
}

}  // namespace

bool may_know_the_driver(const struct dl_phdr_info& info, const ElfModule& module) {
  if (is_own_module(module)) return true;
  if (any_driver([&](const LoadedDriver& driver) { return driver.module.begin == module.begin; })) return true;
  const char* path = info.dlpi_name != nullptr ? info.dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  for (const char* name : {slash != nullptr ? slash + 1 : path, module.soname != nullptr ? module.soname : ""}) {
    for (const char* prefix : kKnowTheDriver) {
      if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
    }
  }
  return false;
}

void note_unseen_users(Process& process) {
  Found* found = find_unseen_users();
  if (found == nullptr) return;
  format::Header* header = process.dump.header();
  header->unseen_users = process.dump.add_string(found->text, found->bytes);
  header->unseen_user_count = found->count;
  unmap_private(found, sizeof(Found));
}

CULPRIT_LOADING bool may_have_unseen_users() {
  return cuda_is_loaded() || any_other_namespace([](const struct link_map*) { return true; });
}

bool has_unseen_users() {
  char path[1024];
  if (any_other_namespace(
          [&](const struct link_map* first) { return owner_of_libcuda(first, path, sizeof(path)) != 0; }))
    return true;
  std::uint64_t begin = 0, end = 0;
  if (!driver_range(&begin, &end)) return false;
  Found* found = find_unseen_users();
  if (found == nullptr) return false;
  unmap_private(found, sizeof(Found));
  return true;
}

}  // namespace culprit
