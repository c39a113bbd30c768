#include "interpose/device_code/loaded_code.h"

#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/base/module_name.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// A text of names in private memory.
class Names {
 public:
  Names() {
    int error = 0;
    names_ = static_cast<VariableNames*>(map_private(sizeof(VariableNames), &error));
  }
  ~Names() {
    if (names_ != nullptr) unmap_private(names_, sizeof(VariableNames));
  }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  VariableNames* get() const { return names_; }

 private:
  VariableNames* names_;
};

// Whether an address lies in a part of a loaded module that cannot be written to.
bool is_in_read_only_segment(std::uint64_t address) {
  struct dl_phdr_info module = {};
  if (!find_module(address, &module)) return false;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    const std::uint64_t begin = module.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= begin && address - begin < segment.p_memsz)
      return (segment.p_flags & PF_W) == 0;
  }
  return false;
}

// NVIDIA's libraries of mathematics, whose kernels keep no pointer of the program in their variables. Their images have
// hundreds of megabytes. By the whole name: others wrap them.
constexpr const char* kNvidiasLibraries[] = {"libcublas.so.",
                                             "libcublasLt.so.",
                                             "libcufft.so.",
                                             "libcurand.so.",
                                             "libcusolver.so.",
                                             "libcusolverMg.so.",
                                             "libcusparse.so.",
                                             "libcutensor.so.",
                                             "libcudnn.so.",
                                             "libcudnn_adv.so.",
                                             "libcudnn_cnn.so.",
                                             "libcudnn_graph.so.",
                                             "libcudnn_ops.so.",
                                             "libnppc.so.",
                                             "libnppial.so.",
                                             "libnppicc.so.",
                                             "libnppidei.so.",
                                             "libnppif.so.",
                                             "libnppig.so.",
                                             "libnppim.so.",
                                             "libnppist.so.",
                                             "libnppisu.so.",
                                             "libnppitc.so.",
                                             "libnpps.so.",
                                             "libcudnn_heuristic.so.",
                                             "libcudnn_engines_precompiled.so.",
                                             "libcudnn_engines_runtime_compiled.so."};

bool is_of_nvidias_libraries(std::uint64_t address) {
  struct dl_phdr_info module = {};
  if (!find_module(address, &module)) return false;
  for (const char* library : kNvidiasLibraries) {
    if (begins_with(file_name(module.dlpi_name), library)) return true;
  }
  return false;
}

}  // namespace

LoadedCode::Entry* LoadedCode::find(std::uint64_t handle) {
  const std::uint64_t first = mix(handle);
  for (std::uint32_t i = 0; i < kTries; ++i) {
    Entry& entry = entries_[(first + i) % kMost];
    const std::uint64_t present = entry.handle.load(std::memory_order_acquire);
    if (present == handle) return &entry;
    if (present == 0) return nullptr;
  }
  return nullptr;
}

LoadedCode::Entry* LoadedCode::take_entry(std::uint64_t handle) {
  const std::uint64_t first = mix(handle);
  for (std::uint32_t i = 0; i < kTries; ++i) {
    Entry& entry = entries_[(first + i) % kMost];
    std::uint64_t present = entry.handle.load(std::memory_order_relaxed);
    if (present != 0 && present != kRemoved) continue;
    if (entry.handle.compare_exchange_strong(present, kTaken, std::memory_order_acquire)) return &entry;
  }
  return nullptr;
}

void LoadedCode::add(std::uint64_t handle, const CodeSource& source, bool reads_now) {
  if (find(handle) != nullptr) remove(handle);  // its end was not seen
  const std::uint64_t image = source.image == nullptr ? 0 : container_of(reinterpret_cast<std::uint64_t>(source.image));
  const bool stays = image != 0 && is_in_read_only_segment(image);
  const std::uint32_t list = !stays && reads_now ? keep_names(source) : 0;
  Entry* entry = take_entry(handle);
  if (entry == nullptr) return;
  entry->image = stays ? image : 0;
  entry->list = list;
  entry->used.store(false, std::memory_order_relaxed);
  entry->handle.store(handle, std::memory_order_release);
}

void LoadedCode::remove(std::uint64_t handle) {
  if (Entry* entry = find(handle)) entry->handle.store(kRemoved, std::memory_order_release);
  forget_kernels();
}

void LoadedCode::note_use(std::uint64_t handle) {
  if (Entry* entry = find(handle)) entry->used.store(true, std::memory_order_relaxed);
}

// Nothing depends on a kernel for which there is no room but a loss that stays unseen.
void LoadedCode::note_kernel(std::uint64_t handle) {
  const std::uint64_t first = mix(handle);
  for (std::uint32_t i = 0; i < kTries; ++i) {
    std::uint64_t present = 0;
    std::atomic<std::uint64_t>& place = kernels_[(first + i) % kMostKernels];
    if (!place.compare_exchange_strong(present, handle, std::memory_order_relaxed) && present != handle) continue;
    has_kernels_.store(true, std::memory_order_relaxed);
    return;
  }
}

void LoadedCode::forget_kernels() {
  if (!has_kernels_.exchange(false, std::memory_order_relaxed)) return;
  for (std::atomic<std::uint64_t>& place : kernels_) {
    if (place.load(std::memory_order_relaxed) != 0) place.store(0, std::memory_order_relaxed);
  }
}

std::uint32_t LoadedCode::keep_names(const CodeSource& source) {
  const Names names;
  if (names.get() == nullptr) return 0;
  Architectures architectures;
  read_architectures(&architectures);
  std::uint64_t budget = kMostImage;
  const bool read =
      source.path != nullptr
          ? read_variable_names_of_file(source.path, architectures, &budget, names.get())
          : read_variable_names(reinterpret_cast<std::uint64_t>(source.image), architectures, &budget, names.get());
  return read ? keep_list(*names.get()) : 0;
}

// Programs that make code load the same code, or code with the same variables, again and again.
std::uint32_t LoadedCode::keep_list(const VariableNames& names) {
  const List wanted = {names.bytes, names.count, names.images};
  std::uint32_t place = 0;
  lock_.lock();
  int error = 0;
  if (lists_ == nullptr) lists_ = static_cast<char*>(map_private(kListBytes, &error));
  if (lists_ != nullptr) {
    std::uint32_t at = 0;
    while (at < list_bytes_ && place == 0) {
      List present;
      std::memcpy(&present, lists_ + at, sizeof(present));
      if (std::memcmp(&present, &wanted, sizeof(wanted)) == 0 &&
          std::memcmp(lists_ + at + sizeof(present), names.text, names.bytes) == 0)
        place = at + 1;
      at += static_cast<std::uint32_t>(sizeof(present)) + present.bytes;
    }
    if (place == 0 && sizeof(wanted) + names.bytes <= kListBytes - list_bytes_) {
      std::memcpy(lists_ + list_bytes_, &wanted, sizeof(wanted));
      std::memcpy(lists_ + list_bytes_ + sizeof(wanted), names.text, names.bytes);
      place = list_bytes_ + 1;
      list_bytes_ += static_cast<std::uint32_t>(sizeof(wanted)) + names.bytes;
    }
  }
  lock_.unlock();
  return place;
}

LoadedCode::Known LoadedCode::names_of(std::uint64_t handle, bool is_library, const Architectures& architectures,
                                       std::uint64_t* budget, VariableNames* names) {
  const Entry* entry = find(handle);
  if (entry == nullptr) return Known::kNotAll;
  if (is_library && !entry->used.load(std::memory_order_relaxed)) return Known::kNotUsed;
  if (entry->image != 0) {
    if (is_of_nvidias_libraries(entry->image)) return Known::kNotUsed;
    if (!is_in_read_only_segment(entry->image)) return Known::kNotAll;  // it was unloaded
    return read_variable_names(entry->image, architectures, budget, names) ? Known::kAll : Known::kNotAll;
  }
  if (entry->list == 0) return Known::kNotAll;
  List list;
  const char* begin = lists_ + entry->list - 1;
  std::memcpy(&list, begin, sizeof(list));
  if (list.bytes > VariableNames::kMostBytes - names->bytes) return Known::kNotAll;
  std::memcpy(names->text + names->bytes, begin + sizeof(list), list.bytes);
  names->bytes += list.bytes;
  names->count += list.count;
  names->images += list.images;
  return Known::kAll;
}

}  // namespace culprit
