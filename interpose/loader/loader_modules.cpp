#include "interpose/loader/loader_modules.h"

#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/system/auxiliary.h"
#include "interpose/system/os.h"

// The loader's list for debuggers. It is data, so it is not interposed; other libcs lack it. A program may have a copy
// of it (copy relocation) with the same list.
extern __attribute__((weak)) struct r_debug _r_debug;

namespace culprit {
namespace {

// <dlfcn.h> has it from glibc 2.35 on.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[8];
};
using FindObject = int (*)(void* address, FoundObject* result);

constexpr int kMostModules = 1 << 16;  // limits the walk of a list that an error has made circular
constexpr std::uint64_t kLongestName = 512;

struct Loader {
  struct r_debug* debug;
  FindObject find_object;
  const ElfW(Phdr) * program_headers;
  int program_header_count;
};
CULPRIT_AT_LOAD Loader loader;
CULPRIT_AT_LOAD std::atomic<int> loader_known;
CULPRIT_AT_LOAD std::atomic<int> counting_pid;  // of the process whose threads the counts are of
CULPRIT_AT_LOAD std::atomic<int> walks;
CULPRIT_AT_LOAD std::atomic<int> unloadings;
CULPRIT_AT_LOAD std::atomic<int> keepers;                       // objects of KeepsModules
CULPRIT_AT_LOAD std::atomic<const LockOfWalks*> lock_of_walks;  // nullptr = every unloading is seen
std::atomic<std::uint32_t> unloadings_begun;
std::atomic<std::uint32_t> waited_in_vain;  // unloadings_begun when a walk gave up waiting; such a wait is not repeated
// The handles that threads are closing, nullptr = free; with more threads some are left out.
std::atomic<const void*> closing[8];

// The calling thread's part of these counts: it does not wait for itself. A destructor of the library that it closes
// may call CUDA.
struct OwnCounts {
  int walks, unloadings, keepers;
};
__thread OwnCounts own __attribute__((tls_model("initial-exec")));

constexpr std::uint32_t kPollUs = 100;
constexpr int kPollsOfWalk = 1000;    // for unloadings
constexpr int kPollsOfClose = 20000;  // for walks and keepers
constexpr int kPollsInChild = 100;    // at its first close

// Waits until no other thread closes a library, 100 ms at most: a dlclose() may wait for this thread. The caller is
// counted in `walks` or `keepers`, so that no other dlclose() begins. Returns false when one still goes on.
bool wait_for_unloadings() {
  for (int i = 0; i < kPollsOfWalk; ++i) {
    if (unloadings.load() <= own.unloadings) return true;
    const std::uint32_t begun = unloadings_begun.load();
    if (waited_in_vain.load() == begun) return false;
    sleep_microseconds(kPollUs);
  }
  waited_in_vain.store(unloadings_begun.load());
  return false;
}

// The program's own dynamic section leads to the loader's list (DT_DEBUG), with any libc.
struct r_debug* debug_of_program(const ElfW(Phdr) * headers, int count) {
  std::uint64_t bias = 0;
  for (int i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) bias = reinterpret_cast<std::uint64_t>(headers) - headers[i].p_vaddr;
  }
  for (int i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(bias + headers[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_DEBUG) return reinterpret_cast<struct r_debug*>(entry->d_un.d_ptr);
    }
  }
  return nullptr;
}

// Copies memory that may be unmapped, by a system call. If that call is forbidden, reads it directly.
bool copy_safely(void* to, std::uint64_t from, std::uint64_t bytes) {
  const std::int64_t got = os.read_own_memory(to, from, bytes);
  if (got == static_cast<std::int64_t>(bytes)) return true;
  if (got >= 0 || got == -EFAULT) return false;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return true;
}

// Copies for a visit of a module that may be unloaded at any moment.
struct Copies {
  ElfW(Phdr) headers[64];
  char name[kLongestName];
};

// In private memory: it is too large for the stack of a thread.
class OwnCopies {
 public:
  explicit OwnCopies(bool wanted) {
    int error = 0;
    if (wanted)
      copies_ = static_cast<Copies*>(
          os.map(nullptr, sizeof(Copies), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error));
  }
  ~OwnCopies() {
    if (copies_ != nullptr) os.unmap(copies_, sizeof(Copies));
  }
  OwnCopies(const OwnCopies&) = delete;
  OwnCopies& operator=(const OwnCopies&) = delete;
  Copies* get() const { return copies_; }

 private:
  Copies* copies_ = nullptr;
};

// The program headers of an ELF header that is mapped at `start`, nullptr when there is none. With `copy` they are read
// into it by system calls. `certain`: it is known that memory is mapped there.
const ElfW(Phdr) * headers_at(std::uint64_t start, bool certain, Copies* copy, int* count) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  ElfW(Ehdr) header_copy;
  if (copy != nullptr || !certain) {
    if (start == 0 || !copy_safely(&header_copy, start, sizeof(header_copy))) return nullptr;
    header = &header_copy;
  }
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr)) ||
      header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > 4096)
    return nullptr;
  *count = header->e_phnum;
  const std::uint64_t headers = start + header->e_phoff;
  if (copy == nullptr) return reinterpret_cast<const ElfW(Phdr)*>(headers);
  const std::uint64_t bytes = header->e_phnum * sizeof(ElfW(Phdr));
  return bytes <= sizeof(copy->headers) && copy_safely(copy->headers, headers, bytes) ? copy->headers : nullptr;
}

bool is_glibc(const struct link_map& map) {
  const char* slash = map.l_name != nullptr ? std::strrchr(map.l_name, '/') : nullptr;
  return slash != nullptr && std::strcmp(slash, "/libc.so.6") == 0;
}

// Describes the module of a list node. Returns false when it is unloaded, or not yet complete. `copy`: use system calls
// for all reads of a module that a thread may be unloading.
bool describe(const struct link_map& map, const struct link_map* node, Copies* copy, struct dl_phdr_info* module) {
  *module = {};
  module->dlpi_addr = map.l_addr;
  module->dlpi_name = map.l_name;
  if (map.l_ld == nullptr) return false;
  int count = 0;
  const ElfW(Phdr)* headers = nullptr;
  FoundObject object;
  if (loader.find_object != nullptr) {
    // A module that the loader finds by its address is completely mapped, and is not being unloaded.
    if (loader.find_object(map.l_ld, &object) != 0 || object.link_map != node) return false;
    headers = headers_at(reinterpret_cast<std::uint64_t>(object.map_start), true, copy, &count);
  } else {
    // The first bytes of most libraries are at their load address. For libc, which is read in every process, this is
    // certain.
    headers = headers_at(map.l_addr, copy == nullptr && is_glibc(map), copy, &count);
  }
  if (headers == nullptr && map.l_prev == nullptr) {
    headers = loader.program_headers;
    count = loader.program_header_count;
  }
  module->dlpi_phdr = headers;
  module->dlpi_phnum = static_cast<ElfW(Half)>(count);
  return headers != nullptr;
}

// Copies a node. `plainly`: with direct reads, while no module is being unloaded; begin_unloading() waits for such a
// walk.
bool read_node(const struct link_map* node, bool plainly, struct link_map* copy) {
  if (!plainly) return copy_safely(copy, reinterpret_cast<std::uint64_t>(node), sizeof(*copy));
  *copy = *node;
  return true;
}

// A copy of the name for a visit, because an unload would free the name.
const char* read_name(const char* name, Copies* copy) {
  if (copy == nullptr || name == nullptr) return name != nullptr ? name : "";
  std::int64_t bytes = os.read_own_memory(copy->name, reinterpret_cast<std::uint64_t>(name), kLongestName - 1);
  copy->name[bytes > 0 ? bytes : 0] = '\0';
  return copy->name;
}

struct Walk {
  ModuleVisitor visit;
  void* data;
  bool keeps_name = false;  // the loader's own name is wanted
};

class WalkLock {
 public:
  WalkLock() : lock_(lock_of_walks.load(std::memory_order_acquire)) {
    if (lock_ != nullptr) done_ = lock_->take(&taken_);
  }
  ~WalkLock() {
    if (taken_ != nullptr) lock_->release(taken_);
  }
  WalkLock(const WalkLock&) = delete;
  WalkLock& operator=(const WalkLock&) = delete;
  // Whether no thread unloads a module as long as this object exists, so that plain reads are safe. Waits for
  // unloadings that began before; they cannot go on, and need no wait, while this thread has the lock.
  bool plainly() const { return taken_ != nullptr || (done_ && wait_for_unloadings()); }

 private:
  const LockOfWalks* lock_;
  void* taken_ = nullptr;
  bool done_ = true;
};

// Its memory may go away in the middle of a visit, whose reads are plain.
bool is_being_closed(const struct link_map* node) {
  for (const std::atomic<const void*>& handle : closing) {
    if (handle.load() == node) return true;  // glibc's handles are the nodes
  }
  return false;
}

CULPRIT_LOADING int walk_list(const struct link_map* first, const Walk& walk) {
  const WalkLock lock;
  const bool plainly = lock.plainly();
  const struct link_map* before = nullptr;
  const OwnCopies copies(!plainly);
  if (!plainly && copies.get() == nullptr) return 0;
  int result = 0;
  for (int i = 0; first != nullptr && i < kMostModules && result == 0; ++i) {
    struct link_map map;
    struct dl_phdr_info module;
    if (!read_node(first, plainly, &map)) break;
    if (i > 0 && map.l_prev != before) break;  // this node was removed from the list meanwhile
    if ((plainly || !is_being_closed(first)) && describe(map, first, copies.get(), &module)) {
      module.dlpi_name = read_name(map.l_name, walk.keeps_name ? nullptr : copies.get());
      result = walk.visit(&module, sizeof(module), walk.data);
    }
    before = first;
    first = map.l_next;
  }
  return result;
}

void leave(std::atomic<int>* count) {
  int present = count->load();
  while (present > 0 && !count->compare_exchange_weak(present, present - 1)) {
  }
}

class Walking {
 public:
  Walking() {
    ++own.walks;
    walks.fetch_add(1);
  }
  ~Walking() {
    leave(&walks);
    --own.walks;
  }
  Walking(const Walking&) = delete;
  Walking& operator=(const Walking&) = delete;
};

// _dl_find_object(), which glibc has from 2.35 on; nullptr if there is none.
CULPRIT_LOADING FindObject look_for_find_object(const struct link_map* node) {
  for (int i = 0; node != nullptr && i < kMostModules; ++i, node = node->l_next) {
    struct dl_phdr_info info;
    ElfModule module;
    if (is_glibc(*node) && describe(*node, node, nullptr, &info) && describe_module(info, &module))
      return reinterpret_cast<FindObject>(find_symbol(module, "_dl_find_object"));
  }
  return nullptr;
}

// Finds the loader's data once. Concurrent searches store equal values.
CULPRIT_LOADING bool know_loader() {
  if (loader_known.load(std::memory_order_acquire) != 0) return loader.debug != nullptr;
  struct r_debug* debug = &_r_debug;
  if (debug != nullptr && debug->r_map != nullptr) loader.find_object = look_for_find_object(debug->r_map);
  // Not where the kernel has left pages between the program's segments unmapped: each is then found by itself.
  struct dl_phdr_info program;
  const bool finds_program = loader.find_object != nullptr && describe(*debug->r_map, debug->r_map, nullptr, &program);
  if (!finds_program) {
    // This is such a program, an older glibc, or another libc.
    const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(auxiliary_from_proc(AT_PHDR));
    int count = static_cast<int>(auxiliary_from_proc(AT_PHNUM));
    loader.program_headers = headers;
    loader.program_header_count = count;
    if (debug == nullptr) debug = headers != nullptr ? debug_of_program(headers, count) : nullptr;
    if (debug == nullptr || debug->r_map == nullptr) return false;
  }
  loader.debug = debug;
  counting_pid.store(getpid());
  loader_known.store(1, std::memory_order_release);
  return true;
}

}  // namespace

CULPRIT_LOADING int visit_modules(ModuleVisitor visit, void* data) {
  Walking walking;
  return know_loader() ? walk_list(loader.debug->r_map, {visit, data}) : 0;
}

bool visit_nodes(bool (*visit)(const struct link_map& node, void* data), void* data) {
  Walking walking;
  if (!know_loader()) return false;
  const struct link_map* node = loader.debug->r_map;
  for (int i = 0; node != nullptr && i < kMostModules; ++i, node = node->l_next) {
    if (visit(*node, data)) return true;
  }
  return false;
}

const struct r_debug* loader_lists() { return know_loader() ? loader.debug : nullptr; }

namespace {

// The module that an address lies in, where the list has to be walked for it.
struct AddressSearch {
  std::uint64_t address;
  struct dl_phdr_info* found;
  ModuleMark* mark;
};
int visit_for_address(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<AddressSearch*>(data);
  std::uint64_t begin = 0, end = 0;
  if (!module_extent(*info, &begin, &end) || search->address < begin || search->address >= end) return 0;
  if (search->found != nullptr) *search->found = *info;
  if (search->mark != nullptr) *search->mark = {begin, end, info->dlpi_addr, 0};
  return 1;
}

bool walk_to(AddressSearch search) {
  Walking walking;
  return walk_list(loader.debug->r_map, {visit_for_address, &search, true}) != 0;
}

}  // namespace

bool find_module(std::uint64_t address, struct dl_phdr_info* module) {
  if (!know_loader()) return false;
  if (loader.find_object == nullptr) return walk_to({address, module, nullptr});
  FoundObject object;
  return loader.find_object(reinterpret_cast<void*>(address), &object) == 0 &&
         describe(*object.link_map, object.link_map, nullptr, module);
}

bool find_module_mark(std::uint64_t address, ModuleMark* mark) {
  if (!know_loader()) return false;
  if (loader.find_object == nullptr) return walk_to({address, nullptr, mark});
  FoundObject object;
  if (loader.find_object(reinterpret_cast<void*>(address), &object) != 0) return false;
  *mark = {reinterpret_cast<std::uint64_t>(object.map_start), reinterpret_cast<std::uint64_t>(object.map_end),
           reinterpret_cast<std::uint64_t>(object.link_map), reinterpret_cast<std::uint64_t>(object.eh_frame)};
  return true;
}

bool module_extent(const struct dl_phdr_info& module, std::uint64_t* begin, std::uint64_t* end) {
  *begin = ~0ULL;
  *end = 0;
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = module.dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    std::uint64_t first = module.dlpi_addr + header.p_vaddr;
    if (first < *begin) *begin = first;
    if (first + header.p_memsz > *end) *end = first + header.p_memsz;
  }
  return *end != 0;
}

bool modules_were_added(ModuleListEnd* end) {
  Walking walking;
  if (!know_loader()) return false;
  const WalkLock lock;
  const bool plainly = lock.plainly();
  ModuleListEnd now = {};
  struct link_map map;
  const struct link_map* node = loader.debug->r_map;
  for (int i = 0; node != nullptr && i < kMostModules && read_node(node, plainly, &map); ++i) {
    now = {reinterpret_cast<std::uint64_t>(node), map.l_addr};
    node = map.l_next;
  }
  const bool same = now.node == end->node && now.bias == end->bias;
  *end = now;
  return !same;
}

namespace {

// Waits until other threads have left `count`, for `*polls` at most. Then it forgets them: they ended in the middle, or
// are those of a fork parent.
void wait_until_left(std::atomic<int>* count, int of_this_thread, int* polls) {
  while (count->load() > of_this_thread) {
    if (--*polls <= 0) {
      count->store(of_this_thread);
      break;
    }
    sleep_microseconds(kPollUs);
  }
}

void note_closing(const void* from, const void* to) {
  for (std::atomic<const void*>& handle : closing) {
    const void* expected = from;
    if (handle.compare_exchange_strong(expected, to)) break;
  }
}

}  // namespace

void set_lock_of_walks(const LockOfWalks* lock) { lock_of_walks.store(lock); }

std::uint32_t unloadings_seen() { return unloadings_begun.load(); }

void begin_unloading(const void* handle) {
  const int pid = getpid();
  int polls = counting_pid.exchange(pid) == pid ? kPollsOfClose : kPollsInChild;
  while (true) {
    wait_until_left(&walks, own.walks, &polls);
    wait_until_left(&keepers, own.keepers, &polls);
    unloadings.fetch_add(1);
    if ((walks.load() <= own.walks && keepers.load() <= own.keepers) || --polls <= 0) break;
    unloadings.fetch_sub(1);  // a walk began meanwhile
  }
  ++own.unloadings;
  note_closing(nullptr, handle);
  unloadings_begun.fetch_add(1);
}

void end_unloading(const void* handle) {
  note_closing(handle, nullptr);
  --own.unloadings;
  unloadings.fetch_sub(1);
}

KeepsModules::KeepsModules(bool wanted) {
  if (!wanted) return;
  ++own.keepers;
  keepers.fetch_add(1);
  done_ = wait_for_unloadings();
  if (!done_) go();
}

KeepsModules::~KeepsModules() {
  if (done_) go();
}

void KeepsModules::go() {
  leave(&keepers);
  --own.keepers;
}

}  // namespace culprit
