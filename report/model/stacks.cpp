#include "report/model/stacks.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>

#include "report/base/parallel.h"
#include "report/base/words.h"
#include "report/dump/dump_reader.h"
#include "report/dump/heap_steps.h"
#include "report/model/stack_assembly.h"

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
constexpr std::size_t kMostNamed = 4096;
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

std::uint32_t module_number(std::uint64_t address) {
  return static_cast<std::uint32_t>((address >> kFrameModuleShift) & kFrameModuleMask);
}

std::uint64_t with_module(std::uint64_t address, std::uint32_t number) {
  return (address & ~(kFrameModuleMask << kFrameModuleShift)) | std::uint64_t{number} << kFrameModuleShift;
}

// Of the frames at one place.
std::int64_t inlined_of(const StackCache::Expansion& expansion) {
  return expansion.size() == 1 ? 0 : static_cast<std::int64_t>(expansion.size());
}

constexpr std::uint32_t kNoNumber = 0;  // of no known module, as in a dump

}  // namespace

StackResolver::StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks,
                             std::shared_ptr<StackCache> shared)
    : dump_(dump),
      lookup_(std::move(lookup)),
      full_stacks_(full_stacks),
      cache_(std::move(shared)),
      shared_(cache_ != nullptr),
      frames_left_(dump.most_frames()),
      shown_left_(most_shown_bytes(dump.size())),
      inlined_left_(kExpandedOfAnyDump + kExpandedForEachFrame * static_cast<std::int64_t>(dump.most_frames())) {
  if (!shared_) use_own_cache();
}

void StackResolver::use_own_cache() {
  cache_ = std::make_shared<StackCache>();
  shared_ = false;
  number_of_module_.clear();
  python_places_.clear();
}

const ResolvedStack& StackResolver::stack(Ref ref) const {
  const auto found = stacks_.find(ref);
  if (found == stacks_.end()) return none_;
  const Resolved& resolved = *found->second;
  if (resolved.shown_bytes > shown_left_) {
    ++not_shown_;
    return none_;
  }
  shown_left_ -= resolved.shown_bytes;
  return resolved.stack;
}

StackResolver::Holder StackResolver::variable(std::uint64_t place) const {
  const auto at = variable_at_.find(place);
  return at == variable_at_.end() ? Holder{} : at->second;
}

const StackResolver::Local* StackResolver::local(const LocalPlace& place) const {
  const auto at = local_at_.find(place);
  return at == local_at_.end() ? nullptr : &at->second;
}

StackResolver::Holder StackResolver::heap_holder(const HeapPlace& place) const {
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
  if (stacks_.count(ref) == 0 || !dump_.stack(ref, &view)) return nullptr;
  if ((view.flags & kStackMerged) != 0) return nullptr;  // the outermost frames are missing
  const std::optional<std::uint64_t> frame = view.native_frame(depth);
  const StackCache::Expansion* expansion = frame ? cache_->find(place_of(*frame)) : nullptr;
  return expansion == nullptr ? nullptr : expansion->back();
}

struct StackResolver::Wanted {
  Ref ref;
  StackView view;
  const Resolved* known = nullptr;  // in the shared cache
  StackCache::Key key;              // of one that the shared cache does not have
  std::size_t hash = 0;
  Resolved* made = nullptr;  // to be filled in
};

// An address in the data of a dump's module, as a question to the file of the module: the answer has number `index`
// among those of the file.
struct StackResolver::Data {
  Address address;
  std::size_t file;
  std::size_t index;
  std::uint64_t offset;
  std::optional<std::size_t> path;  // its number among the file's paths, where its type is asked for
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

// A place in a function's frame, likewise.
struct StackResolver::LocalQuestion {
  LocalPlace place;
  std::size_t file;
  std::size_t path;
};

// The questions to the files of modules. A library that was unloaded and loaded again has two module records, but its
// file is examined once.
class StackResolver::Questions {
 public:
  explicit Questions(const Dump& dump) : dump_(dump) {}

  // Of the dump's module; nullopt: not known.
  std::optional<std::size_t> file_of(std::uint32_t module) {
    const auto [known, is_new] = file_of_module_.emplace(module, std::nullopt);
    ModuleRecord record;
    if (is_new && module != 0 && dump_.module(module - 1, &record)) {
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

  void ask_for_code(std::size_t file, Place place) { files[file].addresses.push_back(offset_of(place)); }

  std::optional<Data> ask_for_data(Address address) {
    const std::optional<std::size_t> file = file_of(module_number(address));
    if (!file) return std::nullopt;
    std::vector<std::uint64_t>& data = files[*file].data;
    data.push_back(address & kFrameOffsetMask);
    return Data{address, *file, data.size() - 1, data.back(), std::nullopt};
  }

  // The number of the question among the file's paths.
  std::size_t ask_for_type(const Data& place) {
    std::vector<PointerPath>& paths = files[place.file].paths;
    PointerPath path;
    path.data = place.offset;
    paths.push_back(std::move(path));
    return paths.size() - 1;
  }

  static std::uint64_t code_of(const HeapStepRecord& record) {
    std::uint64_t code = 0;
    for (std::size_t i = sizeof(record.code); i-- != 0;) code = code << 8 | record.code[i];
    return code;
  }

  std::optional<HeapQuestion> ask_for_path(const HeapPlace& place) {
    const std::vector<HeapStepRecord> records = steps_to(dump_, place.step);
    const std::optional<std::size_t> file = records.empty() ? std::nullopt : file_of(module_number(records.front().at));
    if (!file) return std::nullopt;
    PointerPath path;
    path.data = records.front().at & kFrameOffsetMask;
    ModuleRecord module_record;
    if (dump_.module(module_number(records.front().at) - 1, &module_record)) path.bias = module_record.load_bias;
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
                            (record.flags & kHeapStepWindow) != 0,
                            code_of(record),
                            {record.head, record.head + words},
                            {},
                            0});
      if ((record.flags & kHeapStepText) != 0) {
        path.steps.back().text = dump_.string(record.text);
        path.steps.back().text_word = record.text_word;
      }
      uncertain = uncertain || (record.flags & kHeapStepUncertain) != 0;
    }
    ModuleSymbols& module = files[*file];
    module.data.push_back(path.data);
    module.paths.push_back(std::move(path));
    return HeapQuestion{
        place,    *file, module.paths.size() - 1, module.data.size() - 1, static_cast<unsigned>(records.size()),
        uncertain};
  }

  std::optional<LocalQuestion> ask_for_local(const LocalPlace& place) {
    const std::optional<std::size_t> file = file_of(module_number(place.code));
    if (!file || module_number(place.code) != module_number(place.call)) return std::nullopt;
    PointerPath path;
    path.frame = FramePlace{offset_of(place.code), offset_of(place.call), place.offset};
    std::vector<PointerPath>& paths = files[*file].paths;
    paths.push_back(std::move(path));
    return LocalQuestion{place, *file, paths.size() - 1};
  }

  // A return address; the call is just before it.
  static std::uint64_t offset_of(Place place) {
    const std::uint64_t offset = place & kFrameOffsetMask;
    return (place & kFrameExact) == 0 && offset != 0 ? offset - 1 : offset;
  }

  std::vector<ModuleSymbols> files;
  std::vector<bool> executable;                                   // of each file
  std::unordered_map<std::uint32_t, std::size_t> file_of_number;  // by the cache's number

 private:
  using FileKey = std::pair<std::string, std::vector<std::uint8_t>>;  // path and build ID

  const Dump& dump_;
  std::map<FileKey, std::size_t> known_files_;
  std::unordered_map<std::uint32_t, std::optional<std::size_t>> file_of_module_;
};

void StackResolver::resolve(const std::vector<Ref>& stacks, const std::vector<Address>& places,
                            std::vector<HeapPlace> heap, const std::vector<LocalPlace>& locals) {
  std::vector<Wanted> wanted = wanted_of(stacks);
  Questions questions(dump_);
  if (!number_modules(wanted, &questions)) {
    use_own_cache();
    number_modules(wanted, &questions);
  }
  const std::vector<Place> missing = find_known(&wanted);
  std::vector<Address> new_places(places);
  std::sort(new_places.begin(), new_places.end());
  new_places.erase(std::unique(new_places.begin(), new_places.end()), new_places.end());
  look_up(missing, new_places, first_of_each(std::move(heap)), locals, &questions);
  fill_in(&wanted);
}

std::vector<StackResolver::Wanted> StackResolver::wanted_of(const std::vector<Ref>& stacks) {
  std::vector<Wanted> wanted;
  for (const Ref ref : stacks) {
    Wanted one;
    one.ref = ref;
    if (stacks_.count(ref) != 0 || !dump_.stack(ref, &one.view)) continue;
    // Stacks that overlap make a small file large: the others stay without frames.
    if (one.view.frame_count > frames_left_) {
      ++overlapping_;
      continue;
    }
    frames_left_ -= one.view.frame_count;
    stacks_.emplace(ref, nullptr);
    wanted.push_back(std::move(one));
  }
  return wanted;
}

// Numbers the modules of all frames, in the order of their first addresses. False when the cache has no number left.
bool StackResolver::number_modules(const std::vector<Wanted>& wanted, Questions* questions) {
  constexpr Address kNoAddress = ~Address{0};
  std::vector<Address> first;  // by the dump's number
  for (const Wanted& one : wanted) {
    for (std::uint32_t i = 0; i < one.view.frame_count; ++i) {
      const Address address = one.view.frames[i];
      const std::uint32_t module = module_number(address);
      if (module == kPythonModule) {
        add_python_frame(address);
        continue;
      }
      if (module >= first.size()) first.resize(module + 1, kNoAddress);
      first[module] = std::min(first[module], address);
    }
  }
  if (number_of_module_.size() < first.size()) number_of_module_.resize(first.size(), kNoNumber);
  first.erase(std::remove(first.begin(), first.end(), kNoAddress), first.end());
  std::sort(first.begin(), first.end());
  for (const Address address : first) {
    const std::optional<std::size_t> file = questions->file_of(module_number(address));
    if (!file) continue;
    const std::uint32_t number = cache_->number_of(questions->files[*file], questions->executable[*file]);
    if (number >= kPythonModule) return false;
    number_of_module_[module_number(address)] = number;
    questions->file_of_number[number] = *file;
  }
  return true;
}

void StackResolver::add_python_frame(Address address) {
  const auto [at, added] = python_places_.try_emplace(address);
  if (!added) return;
  PythonFrameRecord record;
  if (dump_.python_frame(static_cast<Ref>(address & kFrameOffsetMask), &record)) {
    const std::string_view function = dump_.string(record.function);
    at->second = cache_->python_place(function, dump_.string(record.file), record.line);
  } else {
    at->second = cache_->python_place({}, {}, 0);
  }
}

// Of an address in a stack that was resolved.
StackResolver::Place StackResolver::place_of(Address address) const {
  const std::uint32_t module = module_number(address);
  return module == kPythonModule ? python_places_.at(address) : with_module(address, number_of_module_[module]);
}

// Finds the stacks that the cache has. Returns the places of frames that it does not have, each once.
std::vector<StackResolver::Place> StackResolver::find_known(std::vector<Wanted>* wanted) const {
  std::unordered_set<Place> missing;
  StackCache::Key key;
  for (Wanted& one : *wanted) {
    key.places.clear();
    key.flags = one.view.flags & (kStackMerged | kStackTruncated);
    for (std::uint32_t i = 0; i < one.view.frame_count; ++i) key.places.push_back(place_of(one.view.frames[i]));
    if (shared_) {
      one.hash = key.hash();
      one.known = cache_->find(key, one.hash);
      if (one.known != nullptr) continue;
      one.key = key;
    }
    for (const Place place : key.places) {
      if (cache_->find(place) == nullptr) missing.insert(place);
    }
  }
  std::vector<Place> sorted(missing.begin(), missing.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Whether the inlined calls of all these stacks can be shown.
bool StackResolver::take_inlined(const std::vector<Wanted>& wanted) {
  std::int64_t count = 0;
  for (const Wanted& one : wanted) {
    if (one.known != nullptr) count += one.known->inlined;
    for (const Place place : one.key.places) count += inlined_of(*cache_->find(place));
  }
  if (count != 0 && count >= inlined_left_) return false;
  inlined_left_ -= count;
  return true;
}

// All frames have been looked up.
void StackResolver::fill_in(std::vector<Wanted>* wanted) {
  // Where inlined calls are left out, the order of the stacks decides which: all of them are made anew, and none kept.
  const bool whole = shared_ && take_inlined(*wanted);
  for (Wanted& one : *wanted) {
    one.made = whole && one.known != nullptr ? nullptr : cache_->new_stack();
    stacks_[one.ref] = one.made != nullptr ? one.made : one.known;
  }
  parallel_for(wanted->size(), [&](std::size_t i) {
    const Wanted& one = (*wanted)[i];
    if (one.made == nullptr) return;
    std::vector<const Frame*> all;
    for (std::uint32_t j = 0; j < one.view.frame_count; ++j) {
      const StackCache::Expansion& expansion = *cache_->find(place_of(one.view.frames[j]));
      const std::int64_t count = inlined_of(expansion);
      const bool fits = whole || count == 0 || inlined_left_.fetch_sub(count, std::memory_order_relaxed) > count;
      one.made->inlined += count;
      all.insert(all.end(), fits ? expansion.begin() : std::prev(expansion.end()), expansion.end());
    }
    ResolvedStack& stack = one.made->stack;
    stack = assemble_stack(std::move(all), full_stacks_);
    stack.merged = (one.view.flags & kStackMerged) != 0;
    stack.truncated = (one.view.flags & kStackTruncated) != 0;
    one.made->shown_bytes = shown_bytes(stack);
  });
  for (Wanted& one : *wanted) {
    if (whole && one.made != nullptr) cache_->keep(one.made, std::move(one.key), one.hash);
  }
}

void StackResolver::look_up(const std::vector<Place>& code, const std::vector<Address>& places,
                            const std::vector<HeapPlace>& heap, const std::vector<LocalPlace>& locals,
                            Questions* questions) {
  for (const Place place : code) {
    const auto file = questions->file_of_number.find(module_number(place));
    if (file != questions->file_of_number.end()) questions->ask_for_code(file->second, place);
  }
  std::vector<Data> data;
  for (Address address : places) {
    std::optional<Data> place = questions->ask_for_data(address);
    if (!place) continue;
    if (data.size() < kMostNamed) place->path = questions->ask_for_type(*place);
    data.push_back(*place);
  }
  std::vector<HeapQuestion> paths;
  for (const HeapPlace& place : heap) {
    if (std::optional<HeapQuestion> question = questions->ask_for_path(place)) paths.push_back(*question);
  }
  std::vector<LocalQuestion> local_paths;
  for (const LocalPlace& place : locals) {
    if (local_paths.size() == kMostNamed) break;
    if (const std::optional<LocalQuestion> question = questions->ask_for_local(place)) local_paths.push_back(*question);
  }
  lookup_(questions->files);
  const std::vector<const Module*> modules = add_modules(*questions);
  add_frames(code, questions);
  add_variables(data, modules, *questions);
  add_heap_holders(paths, modules, *questions);
  add_locals(local_paths, modules, *questions);
}

std::vector<const Module*> StackResolver::add_modules(const Questions& questions) {
  std::vector<const Module*> modules;
  for (std::size_t i = 0; i < questions.files.size(); ++i) {
    const std::uint32_t number = cache_->number_of(questions.files[i], questions.executable[i]);
    cache_->set_facts(number, questions.files[i]);
    modules.push_back(cache_->module(number));
  }
  modules_.insert(modules_.end(), modules.begin(), modules.end());
  return modules;
}

// `places`: in the order of the questions.
void StackResolver::add_frames(const std::vector<Place>& places, Questions* questions) {
  std::vector<std::size_t> next(questions->files.size());
  for (const Place place : places) {
    Frame frame;
    frame.offset = Questions::offset_of(place);
    std::vector<CodeLocation> none;
    std::vector<CodeLocation>* locations = &none;
    const auto file = questions->file_of_number.find(module_number(place));
    if (file != questions->file_of_number.end()) {
      frame.module = cache_->module(module_number(place));
      auto& answers = questions->files[file->second].locations;
      const std::size_t index = next[file->second]++;
      if (index < answers.size()) locations = &answers[index];
    }
    cache_->add(place, frame, locations);
  }
}

void StackResolver::add_variables(const std::vector<Data>& data, const std::vector<const Module*>& modules,
                                  const Questions& questions) {
  std::map<std::tuple<std::size_t, std::uint32_t, std::string, bool>, const Variable*> known;
  for (const Data& place : data) {
    const ModuleSymbols& answer = questions.files[place.file];
    std::uint32_t number = ModuleSymbols::kNoVariable;
    if (place.index < answer.variable_of.size()) number = answer.variable_of[place.index];
    const DataSymbol* symbol = number < answer.variables.size() ? &answer.variables[number] : nullptr;
    PointerPathName name;
    if (symbol != nullptr && place.path && *place.path < answer.path_names.size())
      name = answer.path_names[*place.path];
    // Of very many pointers in one array: as the one before it.
    const Holder* before = place.path || variable_at_.empty() ? nullptr : &std::prev(variable_at_.end())->second;
    if (before != nullptr && symbol != nullptr && before->variable->begin == symbol->begin &&
        before->variable->module == modules[place.file]) {
      variable_at_[place.address].variable = before->variable;
      continue;
    }
    const Variable*& variable =
        known[{place.file, symbol != nullptr ? number : ModuleSymbols::kNoVariable, name.general, name.typed}];
    if (variable == nullptr) {
      Variable found = {modules[place.file], "", place.offset};
      if (symbol != nullptr) {
        found.name = symbol->name;
        found.begin = symbol->begin;
        found.path = name.general;
        found.typed = name.typed;
      }
      variable = &variables_.emplace_back(std::move(found));
    }
    Holder& holder = variable_at_[place.address];
    holder.variable = variable;
    if (!name.exact.empty()) holder.path = &paths_.emplace_back(name.exact);
    // Without types a variable of the size of a pointer is one.
    const bool pointer = symbol != nullptr && place.offset == symbol->begin && symbol->bytes == kPointerBytes;
    if ((name.typed || pointer) && !name.one_of_several)
      holder.assigned = &assigned_.emplace_back(AssignedPlace{name.exact, false, false});
  }
}

void StackResolver::add_locals(const std::vector<LocalQuestion>& locals, const std::vector<const Module*>& modules,
                               const Questions& questions) {
  for (const LocalQuestion& question : locals) {
    const ModuleSymbols& answer = questions.files[question.file];
    if (question.path >= answer.path_names.size()) continue;
    const PointerPathName& name = answer.path_names[question.path];
    if (!name.typed || name.one_of_several || name.function.empty()) continue;
    local_at_[question.place] = {modules[question.file], name.function, name.exact, name.in_block};
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
    Holder holder = {variable, nullptr, nullptr};
    if (name.typed && !name.one_of_several)
      holder.assigned = &assigned_.emplace_back(AssignedPlace{name.exact, true, name.keyed});
    if (!name.exact.empty()) holder.path = &paths_.emplace_back(std::move(name.exact));
    heap_holder_at_.emplace(std::make_pair(question.place.step, question.place.word), holder);
  }
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
  for (const Module* one : modules_) {
    const Module& module = *one;
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
