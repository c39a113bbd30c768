#include "interpose/stacks/modules.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>

#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/base/text_writer.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/process_names.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {

std::atomic<std::uint32_t> modules_closed;

using format::ModuleRecord;

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

std::size_t module_path(const struct dl_phdr_info& info, char* path, std::size_t capacity) {
  const char* name = info.dlpi_name;
  if (name == nullptr || name[0] == '\0') return program_path(path, capacity);
  std::size_t used = 0;
  if (name[0] != '/' && std::strchr(name, '/') != nullptr) {  // found through a relative path: make it absolute now
    long length = calls_restricted() ? 0 : system_call(SYS_getcwd, path, capacity);  // with its NUL
    used = length > 0 ? static_cast<std::size_t>(length) - 1 : 0;
    TextWriter(path, capacity, used) << "/";
    used += used + 1 < capacity ? 1 : 0;
  }
  return (TextWriter(path, capacity, used) << name).length();
}

void ModuleTable::unmap(Entry& entry) {
  entry.mapped = false;
  __atomic_fetch_or(&dump_->at<ModuleRecord>(entry.record)->flags, static_cast<std::uint32_t>(format::kModuleUnloaded),
                    __ATOMIC_RELEASE);
}

// Fills a record's place and build ID, and path_. Returns the module's identity.
std::uint64_t ModuleTable::describe(const struct dl_phdr_info& info, ModuleRecord* record, std::size_t* path_length) {
  *record = {};
  module_extent(info, &record->begin, &record->end);
  record->load_bias = info.dlpi_addr;
  record->build_id_bytes = build_id_of(info, record->build_id, sizeof(record->build_id));
  *path_length = module_path(info, path_, sizeof(path_));
  return hash_bytes(path_, *path_length,
                    hash_bytes(record->build_id, record->build_id_bytes, record->end - record->begin));
}

// Whether the entry's module is at this address still. Another one may have its mark.
bool ModuleTable::stands(Entry& entry, std::uint64_t address, std::uint32_t generation) {
  if (entry.generation == generation) return true;
  struct dl_phdr_info now;
  ModuleRecord record;
  std::size_t length = 0;
  if (!find_module(address, &now) || describe(now, &record, &length) != entry.identity || record.begin != entry.begin) {
    unmap(entry);
    return false;
  }
  entry.generation = generation;
  return true;
}

const ModuleTable::Entry* ModuleTable::add(const struct dl_phdr_info& info, std::uint32_t generation) {
  std::uint64_t begin = 0, end = 0;
  if (dump_ == nullptr || !module_extent(info, &begin, &end)) return nullptr;
  for (int i = 0; i < count_; ++i) {
    // A module at the addresses of an earlier one replaces it.
    if (entries_[i].mapped && entries_[i].begin < end && begin < entries_[i].end) unmap(entries_[i]);
  }
  ModuleMark mark;
  if (!find_module_mark(begin, &mark)) return nullptr;
  std::size_t length = 0;
  ModuleRecord record;
  const std::uint64_t identity = describe(info, &record, &length);
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.identity != identity || entry.mapped || entry.free) continue;
    entry.begin = begin;
    entry.end = end;
    entry.load_bias = info.dlpi_addr;
    entry.mark = mark;
    entry.generation = generation;
    entry.mapped = entry.needed = true;
    auto* stored = dump_->at<ModuleRecord>(entry.record);
    stored->load_bias = info.dlpi_addr;
    stored->begin = begin;
    stored->end = end;
    __atomic_fetch_and(&stored->flags, ~static_cast<std::uint32_t>(format::kModuleUnloaded), __ATOMIC_RELEASE);
    return &entry;
  }
  Entry* entry = new_entry();
  if (entry == nullptr) {
    add_counter(dump_->header()->dropped_others, 1);
    return nullptr;
  }
  store_path(entry, &record, path_, length);
  if (info.dlpi_name == nullptr || info.dlpi_name[0] == '\0') record.flags |= format::kModuleExecutable;
  if (path_[0] != '/') record.flags |= format::kModuleNoFile;
  *dump_->at<ModuleRecord>(entry->record) = record;
  entry->begin = begin;
  entry->end = end;
  entry->load_bias = info.dlpi_addr;
  entry->mark = mark;
  entry->identity = identity;
  entry->generation = generation;
  entry->mapped = entry->needed = true;
  entry->free = false;
  return entry;
}

// An entry with a record, new or reused; nullptr when there is none.
ModuleTable::Entry* ModuleTable::new_entry() {
  static_assert(kCapacity + 1 < format::kPythonModule);
  if (count_ < kCapacity) {
    std::uint32_t index = 0;
    format::Ref ref = dump_->allocate_records(format::ChunkType::kModules, 1, &index);
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

void ModuleTable::store_path(Entry* entry, ModuleRecord* record, const char* path, std::size_t length) {
  const format::Ref before = dump_->at<ModuleRecord>(entry->record)->path;
  if (before != 0 && length <= entry->path_room) {
    auto* text = dump_->at<format::StringRecord>(before);
    std::memcpy(text + 1, path, length);
    __atomic_store_n(&text->bytes, static_cast<std::uint32_t>(length), __ATOMIC_RELEASE);
    record->path = before;
    return;
  }
  record->path = dump_->add_string(path, length);
  entry->path_room = static_cast<std::uint16_t>(length);
}

void ModuleTable::begin_marking() {
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) entries_[i].needed = entries_[i].mapped;
  __atomic_store_n(&wants_collection_, false, __ATOMIC_RELAXED);
}

void ModuleTable::free_unmarked() {
  SpinGuard guard(lock_);
  // As long as there is room, a module that is loaded again keeps its old number.
  if (count_ < kCapacity) return;
  free_count_ = 0;
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    entry.free = entry.free || !(entry.needed || entry.mapped);
    free_count_ += entry.free ? 1 : 0;
  }
}

void ModuleTable::refresh(DumpWriter& dump) {
  SpinGuard guard(lock_);
  dump_ = &dump;
  for (int i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (!entry.mapped) continue;
    ModuleMark now;
    const bool stands = find_module_mark(entry.begin, &now) && now == entry.mark;
    if (!stands) unmap(entry);
  }
}

std::uint64_t ModuleTable::frame_of(std::uint64_t address) {
  SpinGuard guard(lock_);
  const std::uint32_t generation = module_generation();
  const Entry* found = nullptr;
  for (int i = count_ - 1; i >= 0 && found == nullptr; --i) {
    Entry& entry = entries_[i];
    if (entry.mapped && address >= entry.begin && address < entry.end && stands(entry, address, generation))
      found = &entry;
  }
  struct dl_phdr_info module;
  if (found == nullptr && find_module(address, &module)) found = add(module, generation);
  if (found == nullptr) return address & format::kFrameOffsetMask;
  return (static_cast<std::uint64_t>(found->index + 1) << format::kFrameModuleShift) |
         ((address - found->load_bias) & format::kFrameOffsetMask);
}

std::uint64_t ModuleTable::address_of(std::uint64_t frame) {
  const std::uint64_t number = frame >> format::kFrameModuleShift & format::kFrameModuleMask;
  const std::uint64_t offset = frame & format::kFrameOffsetMask;
  if (number == 0) return offset;
  SpinGuard guard(lock_);
  for (int i = 0; i < count_; ++i) {
    if (entries_[i].index + 1U == number) return entries_[i].mapped ? entries_[i].load_bias + offset : 0;
  }
  return 0;
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
