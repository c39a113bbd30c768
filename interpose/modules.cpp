#include "interpose/modules.h"

#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "interpose/hash.h"

namespace culprit {

using format::ModuleRecord;

struct ModuleTable::Listing {
  ModuleTable* table;
  DumpWriter* dump;
  bool first;
};

namespace {

struct Extent {
  std::uint64_t begin;
  std::uint64_t end;
};

Extent extent_of(const struct dl_phdr_info& info) {
  Extent extent = {~0ULL, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    std::uint64_t begin = info.dlpi_addr + header.p_vaddr;
    if (begin < extent.begin) extent.begin = begin;
    if (begin + header.p_memsz > extent.end) extent.end = begin + header.p_memsz;
  }
  return extent;
}

// Copies the GNU build ID out of the mapped notes. Returns its length, 0 when there is none.
std::uint8_t build_id_of(const struct dl_phdr_info& info, std::uint8_t* id, std::size_t capacity) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const char* note = reinterpret_cast<const char*>(info.dlpi_addr + header.p_vaddr);
    const char* end = note + header.p_memsz;
    while (note + sizeof(ElfW(Nhdr)) <= end) {
      const auto* head = reinterpret_cast<const ElfW(Nhdr)*>(note);
      std::size_t name_bytes = (head->n_namesz + 3) & ~3U;
      std::size_t value_bytes = (head->n_descsz + 3) & ~3U;
      const char* name = note + sizeof(*head);
      const char* value = name + name_bytes;
      if (value + value_bytes > end) break;
      if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
          head->n_descsz <= capacity) {
        std::memcpy(id, value, head->n_descsz);
        return static_cast<std::uint8_t>(head->n_descsz);
      }
      note = value + value_bytes;
    }
  }
  return 0;
}

}  // namespace

std::size_t module_path(const struct dl_phdr_info& info, char* path, std::size_t capacity) {
  const char* name = info.dlpi_name;
  if (name == nullptr || name[0] == '\0') {
    long length = syscall(SYS_readlink, "/proc/self/exe", path, capacity - 1);
    if (length < 0) length = 0;
    path[length] = '\0';
    return static_cast<std::size_t>(length);
  }
  int length = 0;
  if (name[0] != '/' && std::strchr(name, '/') != nullptr) {  // found through a relative path: make it absolute now
    if (syscall(SYS_getcwd, path, capacity) < 0) path[0] = '\0';
    std::size_t used = std::strlen(path);
    length = static_cast<int>(used) + std::snprintf(path + used, capacity - used, "/%s", name);
  } else {
    length = std::snprintf(path, capacity, "%s", name);
  }
  return static_cast<std::size_t>(length) < capacity ? static_cast<std::size_t>(length) : capacity - 1;
}

void ModuleTable::add(const struct dl_phdr_info& info, DumpWriter& dump) {
  Extent extent = extent_of(info);
  if (extent.end == 0) return;
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.mapped && entry.begin == extent.begin && entry.end == extent.end) {
      entry.seen = true;
      return;
    }
  }
  char path[4096];
  std::size_t length = module_path(info, path, sizeof(path));
  ModuleRecord record = {};
  record.build_id_bytes = build_id_of(info, record.build_id, sizeof(record.build_id));
  std::uint64_t identity =
      hash_bytes(path, length, hash_bytes(record.build_id, record.build_id_bytes, extent.end - extent.begin));
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.identity != identity || entry.mapped || entry.free) continue;
    entry.begin = extent.begin;
    entry.end = extent.end;
    entry.load_bias = info.dlpi_addr;
    entry.mapped = entry.seen = entry.needed = true;
    auto* stored = dump.at<ModuleRecord>(entry.record);
    stored->load_bias = info.dlpi_addr;
    stored->begin = extent.begin;
    stored->end = extent.end;
    __atomic_fetch_and(&stored->flags, ~static_cast<std::uint32_t>(format::kModuleUnloaded), __ATOMIC_RELEASE);
    return;
  }
  Entry* entry = new_entry(dump);
  if (entry == nullptr) {
    add_counter(dump.header()->dropped_others, 1);
    return;
  }
  record.load_bias = info.dlpi_addr;
  record.begin = extent.begin;
  record.end = extent.end;
  store_path(entry, &record, path, length, dump);
  if (info.dlpi_name == nullptr || info.dlpi_name[0] == '\0') record.flags |= format::kModuleExecutable;
  if (path[0] != '/') record.flags |= format::kModuleNoFile;
  *dump.at<ModuleRecord>(entry->record) = record;
  entry->begin = extent.begin;
  entry->end = extent.end;
  entry->load_bias = info.dlpi_addr;
  entry->identity = identity;
  entry->mapped = entry->seen = entry->needed = true;
  entry->free = false;
}

// An entry with a record; nullptr when there is none.
ModuleTable::Entry* ModuleTable::new_entry(DumpWriter& dump) {
  static_assert(kCapacity + 1 < format::kPythonModule);
  if (count_ < kCapacity) {
    std::uint32_t index = 0;
    format::Ref ref = dump.allocate_records(format::ChunkType::kModules, 1, &index);
    if (ref == 0 || index != static_cast<std::uint32_t>(count_)) return nullptr;
    Entry& entry = entries_[count_++];
    entry.record = ref;
    entry.index = static_cast<std::uint16_t>(index);
    return &entry;
  }
  for (int i = 0; free_count_ > 0 && i < count_; ++i) {
    if (!entries_[i].free) continue;
    --free_count_;
    return &entries_[i];
  }
  __atomic_store_n(&wants_collection_, true, __ATOMIC_RELAXED);
  return nullptr;
}

void ModuleTable::store_path(Entry* entry, ModuleRecord* record, const char* path, std::size_t length,
                             DumpWriter& dump) {
  const format::Ref before = dump.at<ModuleRecord>(entry->record)->path;
  if (before != 0 && length <= entry->path_room) {
    auto* text = dump.at<format::StringRecord>(before);
    std::memcpy(text + 1, path, length);
    __atomic_store_n(&text->bytes, static_cast<std::uint32_t>(length), __ATOMIC_RELEASE);
    record->path = before;
    return;
  }
  record->path = dump.add_string(path, length);
  entry->path_room = static_cast<std::uint16_t>(length);
}

void ModuleTable::begin_marking() {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) entries_[i].needed = entries_[i].mapped;
  __atomic_store_n(&wants_collection_, false, __ATOMIC_RELAXED);
}

void ModuleTable::free_unmarked() {
  SpinGuard guard(lock_);
  // As long as there is room, a module that comes back finds its old number.
  if (count_ < kCapacity) return;
  free_count_ = 0;
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    entry.free = entry.free || !(entry.needed || entry.mapped);
    free_count_ += entry.free ? 1 : 0;
  }
}

int ModuleTable::visit(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* listing = static_cast<Listing*>(data);
  ModuleTable* table = listing->table;
  if (listing->first) {
    listing->first = false;
    table->lock_.lock();
    if (table->loads_ == info->dlpi_adds && table->unloads_ == info->dlpi_subs) return 1;
    table->loads_ = info->dlpi_adds;
    table->unloads_ = info->dlpi_subs;
    for (int i = 0; i < table->count_; ++i) table->entries_[i].seen = false;
  }
  table->add(*info, *listing->dump);
  return 0;
}

void ModuleTable::refresh(DumpWriter& dump) {
  Listing listing = {this, &dump, true};
  int unchanged = dl_iterate_phdr(visit, &listing);
  if (listing.first) return;  // no module at all: visit() never ran and took no lock
  for (int i = 0; unchanged == 0 && i < count_; ++i) {
    Entry& entry = entries_[i];
    if (!entry.mapped || entry.seen) continue;
    entry.mapped = false;
    __atomic_fetch_or(&dump.at<ModuleRecord>(entry.record)->flags, static_cast<std::uint32_t>(format::kModuleUnloaded),
                      __ATOMIC_RELEASE);
  }
  lock_.unlock();
}

std::uint64_t ModuleTable::frame_of(std::uint64_t address) {
  SpinGuard guard(lock_);
  for (int i = count_ - 1; i >= 0; --i) {
    const Entry& entry = entries_[i];
    if (!entry.mapped || address < entry.begin || address >= entry.end) continue;
    return (static_cast<std::uint64_t>(entry.index + 1) << format::kFrameModuleShift) |
           ((address - entry.load_bias) & format::kFrameOffsetMask);
  }
  return address & format::kFrameOffsetMask;
}

std::uint64_t ModuleTable::identity_of(std::uint64_t frame) {
  std::uint64_t number = frame >> format::kFrameModuleShift & format::kFrameModuleMask;
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (entries_[i].index + 1U == number) return entries_[i].identity;
  }
  return 0;
}

}  // namespace culprit
