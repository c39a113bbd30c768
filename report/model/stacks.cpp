#include "report/model/stacks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>

#include "report/base/parallel.h"
#include "report/base/words.h"
#include "report/cuda/cuda_names.h"
#include "report/cuda/library_names.h"
#include "report/dump/dump_reader.h"
#include "report/dump/heap_steps.h"
#include "report/model/frame_rules.h"

namespace culprit::report {

using namespace format;

namespace {

// How many frames all stacks may have for display together: so many, and so many for each that was recorded. Inlined
// calls make several of one; a hostile program file has hundreds at each address.
constexpr std::int64_t kExpandedOfAnyDump = 1 << 20;
constexpr std::int64_t kExpandedForEachFrame = 12;

// A Python interpreter's own code is not the user's to compile.
bool is_interpreter(const Module& module) { return module.name.compare(0, 6, "python") == 0; }

// A chunk may have a million pointers, one for each element: so many of them are asked for.
constexpr std::size_t kAskedOfChunk = 4096;
constexpr std::size_t kAskedInHeap = 65536;
constexpr std::size_t kAskedForAssigned = 4096;
constexpr std::uint64_t kPointerBytes = 8;

std::vector<HeapPlace> first_of_each(std::vector<HeapPlace> heap) {
  std::sort(heap.begin(), heap.end(), [](const HeapPlace& left, const HeapPlace& right) {
    return std::tie(left.step, left.word) < std::tie(right.step, right.word);
  });
  std::vector<HeapPlace> asked;
  std::size_t of_chunk = 0;
  for (const HeapPlace& place : heap) {
    if (asked.size() == kAskedInHeap) break;
    if (asked.empty() || asked.back().step != place.step) of_chunk = 0;
    if (of_chunk++ < kAskedOfChunk) asked.push_back(place);
  }
  return asked;
}

bool is_python_frame(std::uint64_t address) {
  return ((address >> kFrameModuleShift) & kFrameModuleMask) == kPythonModule;
}

}  // namespace

StackResolver::StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks)
    : dump_(dump),
      lookup_(std::move(lookup)),
      full_stacks_(full_stacks),
      frames_left_(dump.most_frames()),
      shown_left_(most_shown_bytes(dump.size())),
      expanded_left_(kExpandedOfAnyDump + kExpandedForEachFrame * dump.most_frames()) {}

const ResolvedStack& StackResolver::stack(Ref ref) const {
  const auto found = stacks_.find(ref);
  if (found == stacks_.end()) return none_;
  if (found->second.shown_bytes > shown_left_) {
    ++not_shown_;
    return none_;
  }
  shown_left_ -= found->second.shown_bytes;
  return found->second.stack;
}

const Variable* StackResolver::variable(std::uint64_t place) const {
  const auto at = std::lower_bound(variable_at_.begin(), variable_at_.end(), place,
                                   [](const auto& entry, std::uint64_t value) { return entry.first < value; });
  return at != variable_at_.end() && at->first == place ? at->second : nullptr;
}

const AssignedPlace* StackResolver::assigned(std::uint64_t place) const {
  const auto at = assigned_at_.find(place);
  return at == assigned_at_.end() ? nullptr : &at->second;
}

StackResolver::HeapHolder StackResolver::heap_holder(const HeapPlace& place) const {
  // Of very many pointers in one chunk only the first ones were asked for: the others have the variable of the last.
  auto behind = heap_holder_at_.upper_bound({place.step, place.word});
  if (behind == heap_holder_at_.begin()) return {};
  const auto at = std::prev(behind);
  if (at->first.first != place.step) return {};
  if (at->first.second != place.word) return {at->second.variable, nullptr, nullptr};
  return at->second;
}

const Frame* StackResolver::frame_from_outermost(Ref ref, std::uint32_t depth) const {
  StackView view;
  if (depth == 0 || !dump_.stack(ref, &view) || depth > view.frame_count) return nullptr;
  if ((view.flags & kStackMerged) != 0) return nullptr;  // the outermost frames are missing
  for (std::uint32_t i = view.frame_count; i > 0; --i) {
    if (is_python_frame(view.frames[i - 1]) || --depth != 0) continue;
    const auto at = expansions_.find(view.frames[i - 1]);
    return at == expansions_.end() ? nullptr : at->second.back();
  }
  return nullptr;
}

void StackResolver::resolve(const std::vector<Ref>& stacks, const std::vector<Address>& places,
                            std::vector<HeapPlace> heap, bool assigned) {
  struct Wanted {
    StackView view;
    Resolved* resolved;
  };
  std::vector<Wanted> wanted;
  std::vector<Address> addresses;
  for (Ref ref : stacks) {
    StackView view;
    if (stacks_.count(ref) != 0 || !dump_.stack(ref, &view)) continue;
    // Stacks that overlap make a small file large: the others stay without frames.
    if (view.frame_count > frames_left_) {
      ++overlapping_;
      continue;
    }
    frames_left_ -= view.frame_count;
    wanted.push_back({view, &stacks_[ref]});
    for (std::uint32_t i = 0; i < view.frame_count; ++i) {
      if (expansions_.try_emplace(view.frames[i]).second) addresses.push_back(view.frames[i]);
    }
  }
  std::vector<Address> new_places(places);
  for (std::vector<Address>* list : {&addresses, &new_places}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  look_up(addresses, new_places, first_of_each(std::move(heap)), assigned);
  parallel_for(wanted.size(), [&](std::size_t i) {
    Resolved& resolved = *wanted[i].resolved;
    resolved.stack = assemble(wanted[i].view);
    resolved.shown_bytes = shown_bytes(resolved.stack);
  });
}

// An address of the dump, as a question to the file of its module: the answer has number `index` among those of the
// file.
struct StackResolver::Place {
  Address address;
  std::optional<std::size_t> file;  // nullopt: in no known module
  std::size_t index;
  std::uint64_t offset;
};

// A way through the heap, likewise.
struct StackResolver::HeapQuestion {
  HeapPlace place;
  std::size_t file;
  std::size_t path;      // its number among the file's paths
  std::size_t variable;  // likewise among the data
  unsigned steps;
  bool uncertain;
};

// The questions to the files of modules. A library that was unloaded and loaded again has two module records, but its
// file is examined once.
class StackResolver::Questions {
 public:
  explicit Questions(const Dump& dump) : dump_(dump) {}

  Place ask_for_code(Address address) {
    // A return address; the call is just before it.
    std::uint64_t offset = address & kFrameOffsetMask;
    if ((address & kFrameExact) == 0 && offset != 0) --offset;
    const std::optional<std::size_t> file = file_of(address);
    if (!file) return {address, file, 0, offset};
    std::vector<std::uint64_t>& addresses = files[*file].addresses;
    addresses.push_back(offset);
    return {address, file, addresses.size() - 1, offset};
  }

  std::optional<Place> ask_for_data(Address address) {
    const std::optional<std::size_t> file = file_of(address);
    if (!file) return std::nullopt;
    std::vector<std::uint64_t>& data = files[*file].data;
    data.push_back(address & kFrameOffsetMask);
    return Place{address, file, data.size() - 1, data.back()};
  }

  // The number of the question among the file's paths.
  std::size_t ask_for_type(const Place& place) {
    std::vector<PointerPath>& paths = files[*place.file].paths;
    PointerPath path;
    path.data = place.offset;
    paths.push_back(std::move(path));
    return paths.size() - 1;
  }

  std::optional<HeapQuestion> ask_for_path(const HeapPlace& place) {
    const std::vector<HeapStepRecord> records = steps_to(dump_, place.step);
    const std::optional<std::size_t> file = records.empty() ? std::nullopt : file_of(records.front().at);
    if (!file) return std::nullopt;
    PointerPath path;
    path.data = records.front().at & kFrameOffsetMask;
    path.offset = place.word * sizeof(std::uint64_t);
    bool uncertain = false;
    for (const HeapStepRecord& record : records) {
      const std::uint64_t at = path.steps.empty() ? 0 : record.at;
      const std::size_t words = std::min<std::size_t>(record.head_words, kHeadWords);
      path.steps.push_back({at,
                            record.behind,
                            record.begin,
                            record.bytes,
                            record.times,
                            record.inner,
                            {record.head, record.head + words}});
      uncertain = uncertain || (record.flags & kHeapStepUncertain) != 0;
    }
    ModuleSymbols& module = files[*file];
    module.data.push_back(path.data);
    module.paths.push_back(std::move(path));
    return HeapQuestion{
        place,    *file, module.paths.size() - 1, module.data.size() - 1, static_cast<unsigned>(records.size()),
        uncertain};
  }

  std::vector<ModuleSymbols> files;
  std::vector<bool> executable;  // of each file

 private:
  using FileKey = std::pair<std::string, std::vector<std::uint8_t>>;  // path and build ID

  std::optional<std::size_t> file_of(Address address) {
    const auto number = static_cast<std::uint32_t>((address >> kFrameModuleShift) & kFrameModuleMask);
    const auto [known, is_new] = file_of_module_.emplace(number, std::nullopt);
    ModuleRecord record;
    if (is_new && number != 0 && dump_.module(number - 1, &record)) {
      const std::size_t id_bytes = std::min<std::size_t>(record.build_id_bytes, sizeof(record.build_id));
      FileKey key(std::string(dump_.string(record.path)),
                  std::vector<std::uint8_t>(record.build_id, record.build_id + id_bytes));
      const auto [at, added] = known_files_.emplace(key, files.size());
      if (added) {
        files.emplace_back();
        files.back().path = key.first;
        files.back().build_id = key.second;
        executable.push_back((record.flags & kModuleExecutable) != 0);
      }
      known->second = at->second;
    }
    return known->second;
  }

  const Dump& dump_;
  std::map<FileKey, std::size_t> known_files_;
  std::unordered_map<std::uint32_t, std::optional<std::size_t>> file_of_module_;
};

void StackResolver::look_up(const std::vector<Address>& addresses, const std::vector<Address>& places,
                            const std::vector<HeapPlace>& heap, bool assigned) {
  Questions questions(dump_);
  std::vector<Place> code;
  for (Address address : addresses) {
    if (is_python_frame(address)) {
      add_python_frame(address);
    } else {
      code.push_back(questions.ask_for_code(address));
    }
  }
  std::vector<Place> data;
  for (Address address : places) {
    if (const std::optional<Place> place = questions.ask_for_data(address)) data.push_back(*place);
  }
  std::vector<std::size_t> types;
  for (std::size_t i = 0; assigned && i < data.size() && i < kAskedForAssigned; ++i)
    types.push_back(questions.ask_for_type(data[i]));
  std::vector<HeapQuestion> paths;
  for (const HeapPlace& place : heap) {
    if (std::optional<HeapQuestion> question = questions.ask_for_path(place)) paths.push_back(*question);
  }
  lookup_(questions.files);
  const std::vector<const Module*> modules = add_modules(questions);
  add_frames(code, modules, &questions);
  add_variables(data, modules, questions);
  add_assigned(data, types, questions);
  add_heap_holders(paths, modules, questions);
}

std::vector<const Module*> StackResolver::add_modules(const Questions& questions) {
  std::vector<const Module*> modules;
  for (std::size_t i = 0; i < questions.files.size(); ++i) {
    const ModuleSymbols& file = questions.files[i];
    Module module;
    module.path = file.path;
    module.name = base_name(module.path);
    module.build_id = hex_bytes(file.build_id.data(), file.build_id.size());
    module.executable = questions.executable[i];
    module.has_debug_info = file.has_debug_info;
    module.own_unwinder = file.own_unwinder;
    module.state = file.state;
    modules_.push_back(std::move(module));
    modules.push_back(&modules_.back());
  }
  return modules;
}

void StackResolver::add_frames(const std::vector<Place>& code, const std::vector<const Module*>& modules,
                               Questions* questions) {
  for (const Place& place : code) {
    Expansion& expansion = expansions_[place.address];
    Frame frame;
    frame.offset = place.offset;
    if (place.file) {
      frame.module = modules[*place.file];
      auto& answers = questions->files[*place.file].locations;
      if (place.index < answers.size()) {
        for (CodeLocation& location : answers[place.index]) {
          Frame& one = frames_.emplace_back(frame);
          one.function = std::move(location.function);
          one.file = std::move(location.file);
          one.line = location.line;
          one.inlined = location.inlined;
          one.approximate = location.approximate;
          one.symbol_offset = location.symbol_offset;
          one.symbol = std::move(location.symbol);
          expansion.push_back(&one);
        }
      }
    }
    if (expansion.empty()) expansion.push_back(&frames_.emplace_back(frame));
    for (std::size_t i = frames_.size() - expansion.size(); i < frames_.size(); ++i) numbers_.number(&frames_[i]);
  }
}

void StackResolver::add_variables(const std::vector<Place>& data, const std::vector<const Module*>& modules,
                                  const Questions& questions) {
  std::map<std::pair<std::size_t, std::uint32_t>, const Variable*> known;
  for (const Place& place : data) {
    const ModuleSymbols& answer = questions.files[*place.file];
    std::uint32_t number = ModuleSymbols::kNoVariable;
    if (place.index < answer.variable_of.size()) number = answer.variable_of[place.index];
    if (number >= answer.variables.size()) number = ModuleSymbols::kNoVariable;
    const Variable*& variable = known[{*place.file, number}];
    if (variable == nullptr) {
      variables_.push_back({modules[*place.file], "", place.offset});
      if (number != ModuleSymbols::kNoVariable) {
        variables_.back().name = answer.variables[number].name;
        variables_.back().begin = answer.variables[number].begin;
      }
      variable = &variables_.back();
    }
    variable_at_.emplace_back(place.address, variable);
  }
  std::sort(variable_at_.begin(), variable_at_.end());
}

// Without types a variable of the size of a pointer is one.
void StackResolver::add_assigned(const std::vector<Place>& data, const std::vector<std::size_t>& paths,
                                 const Questions& questions) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const ModuleSymbols& answer = questions.files[*data[i].file];
    if (paths[i] >= answer.path_names.size() || data[i].index >= answer.variable_of.size()) continue;
    const PointerPathName& name = answer.path_names[paths[i]];
    const std::uint32_t number = answer.variable_of[data[i].index];
    if (number >= answer.variables.size() || name.one_of_several) continue;
    const DataSymbol& variable = answer.variables[number];
    if (name.typed || (data[i].offset == variable.begin && variable.bytes == kPointerBytes))
      assigned_at_[data[i].address] = {name.exact, false, false};
  }
}

// One object for all ways of one variable that have the same general name.
void StackResolver::add_heap_holders(const std::vector<HeapQuestion>& heap, const std::vector<const Module*>& modules,
                                     const Questions& questions) {
  std::map<std::tuple<std::size_t, std::uint64_t, std::string, bool>, const Variable*> known;
  for (const HeapQuestion& question : heap) {
    const ModuleSymbols& answer = questions.files[question.file];
    PointerPathName name;
    if (question.path < answer.path_names.size()) name = answer.path_names[question.path];
    // The driver's own copies of handles lie in the heap, too, but no type of the program leads to them.
    if (name.stale || (question.uncertain && !name.typed)) continue;
    std::uint32_t number = ModuleSymbols::kNoVariable;
    if (question.variable < answer.variable_of.size()) number = answer.variable_of[question.variable];
    Variable found = {modules[question.file], "", answer.paths[question.path].data};
    if (number < answer.variables.size()) {
      found.name = answer.variables[number].name;
      found.begin = answer.variables[number].begin;
    }
    const Variable*& variable = known[{question.file, found.begin, name.general, name.typed}];
    if (variable == nullptr) {
      found.steps = question.steps;
      found.path = name.general;
      found.typed = name.typed;
      variable = &variables_.emplace_back(std::move(found));
    }
    HeapHolder holder = {variable, nullptr, nullptr};
    if (name.typed && !name.one_of_several)
      holder.assigned = &assigned_in_heap_.emplace_back(AssignedPlace{name.exact, true, name.keyed});
    if (!name.exact.empty()) holder.path = &paths_.emplace_back(std::move(name.exact));
    heap_holder_at_.emplace(std::make_pair(question.place.step, question.place.word), holder);
  }
}

void StackResolver::add_python_frame(Address address) {
  Frame frame;
  frame.python = true;
  PythonFrameRecord record;
  if (dump_.python_frame(static_cast<Ref>(address & kFrameOffsetMask), &record)) {
    frame.function = dump_.string(record.function);
    frame.file = dump_.string(record.file);
    frame.line = record.line;
  }
  numbers_.number(&frame);
  frames_.push_back(frame);
  expansions_[address].push_back(&frames_.back());
}

ResolvedStack StackResolver::assemble(const StackView& view) const {
  ResolvedStack result;
  result.merged = (view.flags & kStackMerged) != 0;
  result.truncated = (view.flags & kStackTruncated) != 0;
  std::vector<const Frame*> all;
  for (std::uint32_t i = 0; i < view.frame_count; ++i) {
    const Expansion& expansion = expansions_.at(view.frames[i]);
    const auto count = static_cast<std::int64_t>(expansion.size());
    const bool fits = count == 1 || expanded_left_.fetch_sub(count, std::memory_order_relaxed) > count;
    all.insert(all.end(), fits ? expansion.begin() : std::prev(expansion.end()), expansion.end());
  }

  std::size_t begin = 0;
  while (begin < all.size() && (is_own(*all[begin]) || announces_region(*all[begin]))) ++begin;

  // The runtime's frames come next, all of one module: libcudart.so, or the module that it was linked into. They end at
  // the public function that the user called.
  std::size_t runtime_end = begin;
  const Module* runtime = begin < all.size() ? all[begin]->module : nullptr;
  const bool shared_runtime = begin < all.size() && in_module(*all[begin], kRuntimeLibrary);
  for (std::size_t i = begin; i < all.size(); ++i) {
    const Frame& frame = *all[i];
    const bool named = names_runtime_api(frame);
    // After the first public function, only further public functions belong to the runtime (the typed wrapper that
    // called it). Before it, a public function in another module is not the runtime's.
    const bool found = runtime_end > begin;
    const bool belongs = frame.module == runtime ? named || shared_runtime || !found : named && found;
    if (!belongs) break;
    if (named) result.runtime_api = source_api_name(frame.function);
    if (named || shared_runtime || is_runtime_helper(frame)) runtime_end = i + 1;
  }
  result.through_runtime = runtime_end > begin;
  begin = runtime_end;

  std::size_t end = all.size();
  // The _start of a stripped program has no name; it is recognised by libc's start-up function that it calls.
  if (end >= begin + 2 && all[end - 1]->file.empty() && is_libc(*all[end - 2]) && is_startup(*all[end - 2])) --end;
  while (end > begin && is_startup(*all[end - 1])) --end;

  if (begin < end) result.caller = all[begin];
  result.has_python = std::any_of(all.begin(), all.end(), [](const Frame* frame) { return frame->python; });
  if (full_stacks_) {
    result.hidden_inside = static_cast<std::uint32_t>(begin);
    result.hidden_outside = static_cast<std::uint32_t>(all.size() - std::max(begin, end));
    result.frames = std::move(all);
  } else {
    // With Python's own frames present, the interpreter's native frames are left out.
    for (std::size_t i = begin; i < end; ++i) {
      if (!result.has_python || !is_python(*all[i])) result.frames.push_back(all[i]);
    }
  }
  return result;
}

std::vector<std::string> StackResolver::notes() const {
  std::vector<std::string> notes;
  if (overlapping_ != 0)
    notes.push_back("the dump is damaged: " + plural(overlapping_, "stack overlaps", "stacks overlap") +
                    " with others and is shown without frames");
  if (not_shown_ != 0)
    notes.push_back(plural(not_shown_, "stack is", "stacks are") +
                    " left out, because this report would be many times larger than the dump");
  if (dump_.left_out_texts() != 0)
    notes.push_back("the dump is damaged: its texts overlap, and " +
                    plural(dump_.left_out_texts(), "name is", "names are") + " left out");
  std::set<std::string> told;
  for (const Module& module : modules_) {
    if (module.path.empty() || module.path[0] != '/' || !told.insert(module.path).second) continue;
    switch (module.state) {
      case ModuleState::kChanged:
        notes.push_back(module.path +
                        " is not the file that ran (its build ID differs): its frames stand as "
                        "module+offset; give the folder of the original with --sysroot");
        break;
      case ModuleState::kNoFile:
        notes.push_back(module.path +
                        " is not there any more: its frames stand as module+offset; give the folder that "
                        "holds it with --sysroot");
        break;
      case ModuleState::kUnreadable:
        notes.push_back(module.path + " cannot be read: its frames stand as module+offset");
        break;
      case ModuleState::kFound:
        if (module.executable && !module.has_debug_info && !is_interpreter(module))
          notes.push_back(module.path +
                          " has no debug information: compile it with -g, and do not strip it, to see source lines");
        break;
    }
  }
  return notes;
}

}  // namespace culprit::report
