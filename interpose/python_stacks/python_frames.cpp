#include "interpose/python_stacks/python_frames.h"

#include <pthread.h>

#include <cstring>

#include "interpose/base/hash.h"
#include "interpose/loader/loader_count.h"
#include "interpose/stacks/stack_memo.h"
#include "interpose/stacks/unwind_rule.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::PythonFrameRecord;
using format::PythonState;
using format::Ref;

namespace {

// Reads a pointer or number from memory that may not exist.
template <typename T>
bool try_read(std::uint64_t object, std::size_t offset, T* value) {
  return python_plausible(object) && os.read_own_memory(value, object + offset, sizeof(*value)) == sizeof(*value);
}

bool has_type(std::uint64_t object, std::uint64_t type) {
  std::uint64_t found = 0;
  return try_read(object, kPythonTypeOffset, &found) && found == type;
}

std::uint32_t line_of(const PythonLayout& layout, std::uint64_t code, std::uint64_t instruction) {
  auto table = python_field<std::uint64_t>(code, layout.code.line_table);
  return python_line(layout.code.lines, reinterpret_cast<const unsigned char*>(table + kPythonBytesOffset),
                     static_cast<std::size_t>(python_field<std::int64_t>(table, kPythonSizeOffset)),
                     python_field<std::int32_t>(code, layout.code.first_line),
                     static_cast<std::int64_t>(instruction - code - layout.code.instructions));
}

// The version, as PY_VERSION_HEX, as far as exported names show it; 0 = older than 3.9.
std::uint32_t version_of(const ElfModule& module) {
  std::uint64_t version = find_symbol(module, "Py_Version");  // from 3.11 on
  if (version != 0) return static_cast<std::uint32_t>(python_field<unsigned long>(version, 0));
  if (find_symbol(module, "PyGC_Enable") != 0) return 0x030a0000;
  if (find_symbol(module, "PyFrame_GetBack") != 0) return 0x03090000;
  return 0;
}

// The address of the interpreter's state, whose version is noted; 0: the module has none.
std::uint64_t note_runtime(const ElfModule& module, DumpWriter& dump) {
  const std::uint64_t runtime = find_symbol(module, "_PyRuntime");
  if (runtime != 0) dump.header()->python_version = version_of(module);
  return runtime;
}

}  // namespace

bool PythonFrames::take_interpreter(const ElfModule& module, DumpWriter& dump) {
  std::uint64_t runtime = note_runtime(module, dump);
  if (runtime == 0) return false;
  found_ = true;
  format::Header* header = dump.header();
  bool known = python_layout(header->python_version, runtime, &layout_);
  auto find = [&](auto* function, const char* name) {
    std::uint64_t address = find_symbol(module, name);
    *function = reinterpret_cast<std::decay_t<decltype(*function)>>(address);
    return address != 0;
  };
  symbols_.code_type = find_symbol(module, "PyCode_Type");
  symbols_.text_type = find_symbol(module, "PyUnicode_Type");
  symbols_.bytes_type = find_symbol(module, "PyBytes_Type");
  symbols_.evaluation_loop = find_symbol(module, "_PyEval_EvalFrameDefault");
  bool complete = find(&symbols_.this_thread_state, "PyGILState_GetThisThreadState") &&
                  (find(&symbols_.current_thread_state, "PyThreadState_GetUnchecked") ||  // from 3.13 on
                   find(&symbols_.current_thread_state, "_PyThreadState_UncheckedGet")) &&
                  (find(&symbols_.finalizing, "Py_IsFinalizing") || find(&symbols_.finalizing, "_Py_IsFinalizing")) &&
                  find(&symbols_.globals, "PyEval_GetGlobals") && find(&symbols_.line, "PyCode_Addr2Line") &&
                  symbols_.code_type != 0 && symbols_.text_type != 0 && symbols_.bytes_type != 0 &&
                  symbols_.evaluation_loop != 0;
  // Reference counts that threads share: exported by builds without a GIL alone, from 3.13 on.
  if (find_symbol(module, "_Py_DecRefShared") != 0) {
    switch_off(dump, PythonState::kFreeThreaded);
  } else if (!known || !complete) {
    switch_off(dump, PythonState::kUnknownVersion);
  } else {
    header->python_state = PythonState::kNotChecked;
    hash_ = python_hash(header->python_version, layout_);
    readable_.store(true, std::memory_order_release);
  }
  return true;
}

void PythonFrames::note_version(DumpWriter& dump) {
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) { return note_runtime(module, dump) != 0; });
}

void PythonFrames::look(DumpWriter& dump) {
  if (found_.load(std::memory_order_relaxed) || searching_.exchange(true, std::memory_order_acquire)) return;
  if (!found_ && more_modules_were_added(&list_end_))
    any_module([&](const ElfModule& module, const struct dl_phdr_info&) { return take_interpreter(module, dump); });
  searching_.store(false, std::memory_order_release);
}

void PythonFrames::switch_off(DumpWriter& dump, PythonState state) {
  readable_.store(false, std::memory_order_release);
  dump.header()->python_state = state;
}

// The thread's innermost frame, 0 when it has none.
inline std::uint64_t PythonFrames::innermost(std::uint64_t thread) const {
  if (layout_.thread.current_frame != 0) return python_field<std::uint64_t>(thread, layout_.thread.current_frame);
  auto cframe = python_field<std::uint64_t>(thread, layout_.thread.cframe);
  return python_plausible(cframe) ? python_field<std::uint64_t>(cframe, layout_.cframe.current_frame) : 0;
}

int PythonFrames::count_frames(int most) const {
  const auto thread = reinterpret_cast<std::uint64_t>(symbols_.this_thread_state());
  if (!python_plausible(thread)) return most;
  const std::size_t previous = layout_.frame_object.unit != 0 ? layout_.frame_object.previous : layout_.frame.previous;
  int count = 0;
  for (std::uint64_t frame = innermost(thread); frame != 0 && count < most; ++count)
    frame = python_plausible(frame) ? python_field<std::uint64_t>(frame, previous) : 0;
  return count;
}

// read_chain() for 3.9 and 3.10.
bool PythonFrames::read_objects(std::uint64_t thread, int depth, Chain* chain) const {
  const PythonLayout& layout = layout_;
  std::uint64_t cframe = layout.thread.cframe != 0 ? python_field<std::uint64_t>(thread, layout.thread.cframe) : 0;
  std::uint64_t frame = innermost(thread);
  chain->count = 0;
  chain->truncated = false;
  int frames = 0;
  for (; frame != 0; ++frames) {
    if (frames == depth || chain->count + 2 > kMostItems) {
      chain->truncated = true;
      break;
    }
    if (!python_plausible(frame)) return false;
    auto code = python_field<std::uint64_t>(frame, layout.frame_object.code);
    if (!python_plausible(code)) return false;
    if (frames == 0) chain->globals = python_field<std::uint64_t>(frame, layout.frame_object.globals);
    std::uint64_t instruction =
        code + layout.code.instructions +
        static_cast<std::uint64_t>(python_field<std::int32_t>(frame, layout.frame_object.instruction)) *
            layout.frame_object.unit;
    chain->items[chain->count++] = {code, instruction};
    chain->items[chain->count++] = {0, cframe};
    cframe = python_plausible(cframe) ? python_field<std::uint64_t>(cframe, layout.cframe.previous) : 0;
    frame = python_field<std::uint64_t>(frame, layout.frame_object.previous);
  }
  return frames != 0;
}

// Returns false when the thread is outside Python code, or the frames are implausible.
bool PythonFrames::read_chain(std::uint64_t thread, int depth, Chain* chain) const {
  const PythonLayout& layout = layout_;
  if (layout.frame_object.unit != 0) return read_objects(thread, depth, chain);
  std::uint64_t cframe = 0;
  if (layout.thread.cframe != 0) cframe = python_field<std::uint64_t>(thread, layout.thread.cframe);
  std::uint64_t frame = innermost(thread);
  chain->count = 0;
  chain->truncated = false;
  int frames = 0;
  auto add = [&](std::uint64_t code, std::uint64_t place) { chain->items[chain->count++] = {code, place}; };
  while (frame != 0) {
    if (frames == depth || chain->count + 2 > kMostItems) {
      chain->truncated = true;
      break;
    }
    if (!python_plausible(frame)) return false;
    auto owner = python_field<std::uint8_t>(frame, layout.frame.owner);
    if (layout.frame.is_entry == 0 && owner >= kOwnedByCStack) {
      if (owner == kOwnedByCStack) add(0, frame);
      frame = python_field<std::uint64_t>(frame, layout.frame.previous);
      continue;
    }
    std::uint64_t code = python_field<std::uint64_t>(frame, layout.frame.code) & ~std::uint64_t{layout.frame.tags};
    auto instruction = python_field<std::uint64_t>(frame, layout.frame.instruction);
    if (!python_plausible(code)) return false;
    if (is_traceable(layout, code, instruction, owner)) {
      if (frames++ == 0) chain->globals = python_field<std::uint64_t>(frame, layout.frame.globals);
      add(code, instruction);
    }
    if (layout.frame.is_entry != 0 && python_field<std::uint8_t>(frame, layout.frame.is_entry) != 0) {
      add(0, cframe);
      cframe = python_field<std::uint64_t>(cframe, layout.cframe.previous);
      if (!python_plausible(cframe)) break;
    }
    frame = python_field<std::uint64_t>(frame, layout.frame.previous);
  }
  return frames != 0;
}

// A frame's code object and the byte offset of its instruction, negative before the first instruction. Returns false
// when there is none.
bool PythonFrames::read_place(std::uint64_t frame, std::uint64_t* code, std::int64_t* offset) const {
  const PythonLayout& layout = layout_;
  std::int64_t bytes = 0;
  if (layout.frame_object.unit != 0) {
    std::uint64_t bytecode = 0;
    std::int32_t units = 0;
    if (!try_read(frame, layout.frame_object.code, code) || !has_type(*code, symbols_.code_type) ||
        !try_read(*code, layout.code.bytecode, &bytecode) || !has_type(bytecode, symbols_.bytes_type) ||
        !try_read(bytecode, kPythonSizeOffset, &bytes) || !try_read(frame, layout.frame_object.instruction, &units)) {
      return false;
    }
    *offset = std::int64_t{units} * layout.frame_object.unit;
  } else {
    std::uint64_t instruction = 0;
    if (!try_read(frame, layout.frame.code, code)) return false;
    *code &= ~std::uint64_t{layout.frame.tags};
    if (!has_type(*code, symbols_.code_type) || !try_read(*code, kPythonSizeOffset, &bytes) ||
        !try_read(frame, layout.frame.instruction, &instruction)) {
      return false;
    }
    bytes *= 2;
    *offset = static_cast<std::int64_t>(instruction - *code - layout.code.instructions);
  }
  return *offset >= -2 && *offset < bytes;
}

// Runs once: checks that fields are where the layout table says, before following any doubtful pointer.
bool PythonFrames::check_structure(DumpWriter& dump, std::uint64_t thread) {
  const PythonLayout& layout = layout_;
  std::uint64_t thread_id = 0;
  std::uint64_t cframe = 0;
  std::uint64_t frame = 0;
  std::uint64_t code = 0;
  std::uint8_t owner = 0;
  bool found = layout.thread.current_frame != 0 ? try_read(thread, layout.thread.current_frame, &frame)
                                                : try_read(thread, layout.thread.cframe, &cframe) &&
                                                      try_read(cframe, layout.cframe.current_frame, &frame);
  if (!found || !try_read(thread, layout.thread.thread_id, &thread_id) || thread_id != pthread_self()) {
    switch_off(dump, PythonState::kDiffers);
    return false;
  }
  if (frame == 0) return false;  // not in Python code now: check again later
  for (int i = 0; i < 2 && layout.frame_object.unit == 0 && layout.frame.is_entry == 0; ++i) {
    if (!try_read(frame, layout.frame.owner, &owner) || owner < kOwnedByCStack) break;
    if (!try_read(frame, layout.frame.previous, &frame) || frame == 0) return false;
  }
  std::uint64_t file = 0;
  std::uint64_t name = 0;
  std::uint64_t table = 0;
  std::int64_t offset = 0;
  bool right = read_place(frame, &code, &offset) && try_read(code, layout.code.file, &file) &&
               has_type(file, symbols_.text_type) && try_read(code, layout.code.name, &name) &&
               has_type(name, symbols_.text_type) && try_read(code, layout.code.line_table, &table) &&
               has_type(table, symbols_.bytes_type);
  if (right && offset >= 0) {
    // This uses the code object alone; it needs no GIL, because the frame keeps the object alive.
    int told = symbols_.line(reinterpret_cast<void*>(code), static_cast<int>(offset));
    right = (told < 0 ? 0U : static_cast<std::uint32_t>(told)) ==
            line_of(layout, code, code + layout.code.instructions + static_cast<std::uint64_t>(offset));
  }
  if (!right) {
    switch_off(dump, PythonState::kDiffers);
    return false;
  }
  structure_checked_.store(true, std::memory_order_release);
  dump.header()->python_state = PythonState::kRead;
  return true;
}

// Runs once, when this thread has the GIL: checks the innermost frame against the interpreter's public interface.
// PyEval_GetGlobals returns a borrowed reference and allocates nothing; PyEval_GetFrame would create an object, which
// may start a garbage collection.
bool PythonFrames::check_globals(DumpWriter& dump, std::uint64_t thread, const Chain& chain) {
  if (!has_gil(thread)) return true;
  if (reinterpret_cast<std::uint64_t>(symbols_.globals()) != chain.globals) {
    switch_off(dump, PythonState::kDiffers);
    return false;
  }
  globals_checked_.store(true, std::memory_order_release);
  return true;
}

Ref PythonFrames::find(const Use& use, Ref native, Missing* missing) {
  // During finalization the interpreter frees the states of other threads.
  if (native == 0 || symbols_.finalizing() != 0) return native;
  auto thread = reinterpret_cast<std::uint64_t>(symbols_.this_thread_state());
  if (!python_plausible(thread)) return native;
  if (CULPRIT_UNLIKELY(!structure_checked_.load(std::memory_order_acquire)) &&
      !on_own_stack([&] { return check_structure(use.dump, thread); }))
    return native;
  std::uint64_t hash = hash_(layout_, innermost(thread), use.depth);
  if (hash == 0) return native;
  std::uint64_t key = hash ^ quick_hash(native);
  PythonMemo::Entry* entry = nullptr;
  if (CULPRIT_LIKELY(use.memo != nullptr)) {
    entry = &use.memo->entries[key >> 32 & (PythonMemo::kEntries - 1)];
    bool known = entry->key == key && entry->native == native && entry->stack != 0;
    if (CULPRIT_LIKELY(known) && (globals_checked_.load(std::memory_order_acquire) || !has_gil(thread)))
      return entry->stack;
  }
  *missing = {thread, key, entry};
  return 0;
}

Ref PythonFrames::text_of(std::uint64_t object, std::uint64_t* hash, DumpWriter& dump) {
  char text[4096];
  std::size_t bytes = python_text(layout_, object, text, sizeof(text));
  *hash = hash_bytes(text, bytes, 0);
  SpinGuard guard(lock_);
  HashIndex::Entry* known = texts_.find(*hash);
  if (known != nullptr) {
    text_space_.mark(known->value);
    return known->value;
  }
  constexpr std::size_t kHead = sizeof(format::StringRecord);
  const auto units = static_cast<std::uint32_t>((kHead + bytes + format::kRefUnit - 1) / format::kRefUnit);
  Ref ref = text_space_.take(format::ChunkType::kStrings, units, PackedSpace::Want::kNormal, dump);
  if (ref == 0) return 0;
  auto* place = dump.at<char>(ref);
  const format::StringRecord head = {static_cast<std::uint32_t>(bytes), {}};
  std::memcpy(place, &head, kHead);
  std::memcpy(place + kHead, text, bytes);
  texts_.insert(*hash, ref, 0);
  return ref;
}

// 0 when there is no room.
std::uint64_t PythonFrames::frame_of(const Item& item, DumpWriter& dump) {
  std::uint64_t words[3] = {};
  PythonFrameRecord record = {};
  record.file = text_of(python_field<std::uint64_t>(item.code, layout_.code.file), &words[0], dump);
  record.function = text_of(python_field<std::uint64_t>(item.code, layout_.code.name), &words[1], dump);
  record.line = line_of(layout_, item.code, item.instruction);
  record.first_line = python_field<std::uint32_t>(item.code, layout_.code.first_line);
  words[2] = std::uint64_t{record.line} << 32 | record.first_line;
  record.identity = hash_words(words, 3, 0);
  record.born = dump.header()->stack_sweeps;
  SpinGuard guard(lock_);
  HashIndex::Entry* known = frames_.find(record.identity);
  Ref ref = known != nullptr ? known->value : 0;
  if (ref != 0) {
    frame_space_.mark(ref);
  } else {
    constexpr std::uint32_t kUnits = sizeof(PythonFrameRecord) / format::kRefUnit;
    ref = frame_space_.take(format::ChunkType::kPythonFrames, kUnits, PackedSpace::Want::kNormal, dump);
    if (ref == 0) return 0;
    *dump.at<PythonFrameRecord>(ref) = record;
    frames_.insert(record.identity, ref, 0);
  }
  return format::kPythonModule << format::kFrameModuleShift | ref;
}

bool PythonFrames::is_evaluation_loop(std::uint64_t return_address) const {
  culprit_function function;
  return culprit_function_at(return_address - 1, &function) == 0 && function.begin == symbols_.evaluation_loop;
}

Ref PythonFrames::merge(const Use& use, Ref native, const Missing& missing) {
  const Ref stack = read_and_merge(use, native, missing.thread);
  if (stack != 0 && missing.entry != nullptr) {
    *missing.entry = {missing.key, native, stack};
    use.memo->used = true;
  }
  return stack;
}

// 0 when there is no room, or nothing to merge.
Ref PythonFrames::read_and_merge(const Use& use, Ref native, std::uint64_t thread) {
  Chain chain;
  if (!read_chain(thread, use.depth, &chain)) return 0;
  if (!globals_checked_.load(std::memory_order_acquire) && !check_globals(use.dump, thread, chain)) return 0;
  RawStack stack;
  StackChecks checks;
  capture_stack(use.depth, nullptr, &stack, &checks);
  const auto* record = use.dump.at<format::StackRecord>(native);
  const auto* frames = reinterpret_cast<const std::uint64_t*>(record + 1);
  if (record->frame_count != static_cast<std::uint32_t>(stack.count)) return 0;
  std::uint64_t both[kMaxStackDepth + kMostItems];
  int count = 0;
  int next = 0;
  // The end of a native frame on the C stack is the begin of its caller's. It is unknown for the outermost frame.
  auto end_of = [&](int i) -> std::uint64_t {
    if (i + 1 < stack.count) return checks.pointers[i + 1];
    return stack.truncated ? checks.pointers[i] : ~0ULL;
  };
  for (int i = 0; i < chain.count;) {
    int last = i;
    while (last < chain.count && chain.items[last].code != 0) ++last;
    bool placed = last < chain.count;  // else the chain was cut inside this loop: no native frame is placed here
    std::uint64_t place = placed ? chain.items[last].instruction : 0;
    auto is_inside = [&] { return place != 0 ? end_of(next) <= place : !is_evaluation_loop(stack.frames[next]); };
    while (placed && next < stack.count && is_inside()) both[count++] = frames[next++];
    for (; i < last; ++i) {
      std::uint64_t frame = frame_of(chain.items[i], use.dump);
      if (frame == 0) return 0;
      both[count++] = frame;
    }
    i = last + 1;
    // The loop's own native frame, so that the frames of the caller's loop come after it.
    if (placed && next < stack.count) both[count++] = frames[next++];
  }
  while (next < stack.count) both[count++] = frames[next++];
  std::uint32_t flags = record->flags;
  if (chain.truncated) flags |= format::kStackTruncated;
  return use.stacks.intern_frames(both, count, flags, use.dump);
}

}  // namespace culprit
