#include "report/symbols/symbol_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/base/environment.h"
#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/symbols/debug_downloads.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Raise the number when the same file would be answered otherwise, for example by other names.
constexpr char kSchema[] = "culprit.symbols/1";
constexpr int kRule = 2;
constexpr std::uint64_t kLargestFile = 64 << 20;
// libdebuginfod asks a server again after this time whether it has a file.
constexpr std::uint64_t kServersAskedAgainAfter = 600;
constexpr std::uint64_t kInlined = 1, kApproximate = 2;

// All that the cache knows of one version of a file.
struct Known {
  SymbolOrigin origin;
  bool has_debug_info = false;
  bool own_unwinder = false;
  std::string servers;        // that were asked for debug information
  std::uint64_t asked_s = 0;  // when, since 1970
  std::unordered_map<std::uint64_t, std::vector<CodeLocation>> locations;
  std::unordered_map<std::uint64_t, std::optional<DataSymbol>> variables;
};

std::uint64_t now_s() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

std::string servers() { return has_debug_servers() ? value_or("DEBUGINFOD_URLS", "") : ""; }

bool same_version(const FileMark& left, const FileMark& right) {
  return left.bytes == right.bytes && left.changed_ns == right.changed_ns;
}

// --- To and from JSON

Json json_of(const FileMark& mark) {
  return {{"path", mark.path}, {"bytes", mark.bytes}, {"changed_ns", mark.changed_ns}};
}

FileMark mark_from(const Json& json) {
  if (!json.is_object()) return {};
  return {text_of(json, "path"), number_of(json, "bytes"), number_of(json, "changed_ns")};
}

// Texts by number: most locations share their file, and many their function.
class Texts {
 public:
  std::uint64_t number(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, list_.size());
    if (added) list_.push_back(text);
    return at->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
  Json list_ = Json::array();
};

Json json_of(const Known& known) {
  Texts texts;
  Json json = {{"schema", kSchema},
               {"rule", kRule},
               {"build_id", known.origin.build_id},
               {"file", json_of(known.origin.file)},
               {"debug_file", known.origin.debug_file ? json_of(*known.origin.debug_file) : Json()},
               {"debug_info", known.has_debug_info},
               {"own_unwinder", known.own_unwinder},
               {"servers", known.servers},
               {"asked_s", known.asked_s}};
  Json& places = json["places"] = Json::array();
  for (const auto& [address, locations] : known.locations) {
    Json place = {address};
    for (const CodeLocation& one : locations) {
      place.push_back({texts.number(one.function), texts.number(one.file), one.line,
                       (one.inlined ? kInlined : 0) | (one.approximate ? kApproximate : 0), one.symbol_offset,
                       texts.number(one.symbol)});
    }
    places.push_back(std::move(place));
  }
  Json& variables = json["variables"] = Json::array();
  for (const auto& [address, variable] : known.variables) {
    Json one = {address};
    if (variable) {
      one.push_back(texts.number(variable->name));
      one.push_back(variable->bytes);
      one.push_back(variable->begin);
    }
    variables.push_back(std::move(one));
  }
  json["texts"] = texts.take();
  return json;
}

std::uint64_t number_at(const Json& list, std::size_t index) { return list.at(index).get<std::uint64_t>(); }

// Throws nlohmann's exceptions where the content is damaged.
Known known_from(const Json& json) {
  Known known;
  const Json& texts = json.at("texts");
  const auto text_at = [&](const Json& list, std::size_t index) {
    return texts.at(number_at(list, index)).get<std::string>();
  };
  known.origin.build_id = text_of(json, "build_id");
  known.origin.file = mark_from(json.at("file"));
  if (json.at("debug_file").is_object()) known.origin.debug_file = mark_from(json.at("debug_file"));
  known.has_debug_info = json.at("debug_info").get<bool>();
  known.own_unwinder = json.at("own_unwinder").get<bool>();
  known.servers = text_of(json, "servers");
  known.asked_s = number_of(json, "asked_s");
  for (const Json& place : json.at("places")) {
    std::vector<CodeLocation>& locations = known.locations[number_at(place, 0)];
    for (std::size_t i = 1; i < place.size(); ++i) {
      const Json& one = place[i];
      CodeLocation location;
      location.function = text_at(one, 0);
      location.file = text_at(one, 1);
      location.line = one.at(2).get<unsigned>();
      location.inlined = (number_at(one, 3) & kInlined) != 0;
      location.approximate = (number_at(one, 3) & kApproximate) != 0;
      location.symbol_offset = number_at(one, 4);
      location.symbol = text_at(one, 5);
      locations.push_back(std::move(location));
    }
  }
  for (const Json& one : json.at("variables")) {
    std::optional<DataSymbol>& variable = known.variables[number_at(one, 0)];
    if (one.size() > 1) variable = DataSymbol{text_at(one, 1), number_at(one, 3), number_at(one, 2)};
  }
  return known;
}

// Of another version of culprit, or damaged: none.
std::optional<Known> read_known(const std::string& path, const std::string& build_id) {
  try {
    const InputFile input = open_input(path);
    if (!input.file.is_open() || input.bytes > kLargestFile) return std::nullopt;
    const Json json = parse_json(read_input(input, path));
    if (!json.is_object() || text_of(json, "schema") != kSchema || number_of(json, "rule") != kRule ||
        text_of(json, "build_id") != build_id)
      return std::nullopt;
    return known_from(json);
  } catch (const FileError&) {
  } catch (const Json::exception&) {
    log::trace("the cache of symbols " + path + " is damaged");
  }
  return std::nullopt;
}

// --- Whether what is known is what a look-up would find now

bool is_unchanged(const Known& known, const std::function<bool()>& may_have_debug_file) {
  const std::string now = servers();
  if (known.origin.debug_file) {
    const std::optional<FileMark> file = mark_of(known.origin.debug_file->path);
    return file && same_version(*file, *known.origin.debug_file) && (!now.empty() || may_have_debug_file());
  }
  if (known.has_debug_info) return true;  // the file's own
  if (!now.empty() && (now != known.servers || now_s() - known.asked_s > kServersAskedAgainAfter)) return false;
  return !may_have_debug_file();
}

bool knows_all(const Known& known, const ModuleSymbols& module) {
  // Without debug information a path has no name.
  return (module.paths.empty() || !known.has_debug_info) &&
         std::all_of(module.addresses.begin(), module.addresses.end(),
                     [&](std::uint64_t address) { return known.locations.count(address) != 0; }) &&
         std::all_of(module.data.begin(), module.data.end(),
                     [&](std::uint64_t address) { return known.variables.count(address) != 0; });
}

void fill_in(Known* known, ModuleSymbols* module) {
  module->state = ModuleState::kFound;
  module->has_debug_info = known->has_debug_info;
  module->own_unwinder = known->own_unwinder;
  for (std::size_t i = 0; i < module->addresses.size(); ++i)
    module->locations[i] = known->locations[module->addresses[i]];
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;  // of variables, by their begin
  for (std::size_t i = 0; i < module->data.size(); ++i) {
    const std::optional<DataSymbol>& variable = known->variables[module->data[i]];
    if (!variable) continue;
    const auto [at, added] = numbers.try_emplace(variable->begin, static_cast<std::uint32_t>(module->variables.size()));
    if (added) module->variables.push_back(*variable);
    module->variable_of[i] = at->second;
  }
}

bool belongs_to_us(const fs::path& folder) {
  fs::path there = folder;
  struct stat info = {};
  while (::stat(there.c_str(), &info) != 0) {
    if (!there.has_relative_path()) return false;
    there = there.parent_path();
  }
  return info.st_uid == ::geteuid() && S_ISDIR(info.st_mode);
}

}  // namespace

std::optional<FileMark> mark_of(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileMark{path, static_cast<std::uint64_t>(info.st_size),
                  static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
                      static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
}

bool SymbolCache::answer(const std::string& build_id, const FileMark& file,
                         const std::function<bool()>& may_have_debug_file, ModuleSymbols* module) const {
  if (folder_.empty() || build_id.empty()) return false;
  const std::string path = path_of(build_id);
  std::optional<Known> known = read_known(path, build_id);
  if (!known || !same_version(known->origin.file, file) || !knows_all(*known, *module) ||
      !is_unchanged(*known, may_have_debug_file))
    return false;
  fill_in(&*known, module);
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // shrink() keeps what was used last
  return true;
}

void SymbolCache::keep(const SymbolOrigin& origin, const ModuleSymbols& module) const {
  if (folder_.empty() || origin.build_id.empty() || module.state != ModuleState::kFound) return;
  const std::string path = path_of(origin.build_id);
  std::optional<Known> known = read_known(path, origin.build_id);
  const bool same_origin = known && same_version(known->origin.file, origin.file) &&
                           known->has_debug_info == module.has_debug_info &&
                           known->origin.debug_file.has_value() == origin.debug_file.has_value() &&
                           (!origin.debug_file || same_version(*known->origin.debug_file, *origin.debug_file));
  if (!same_origin) known.emplace();
  known->origin = origin;
  known->has_debug_info = module.has_debug_info;
  known->own_unwinder = module.own_unwinder;
  known->servers = servers();
  known->asked_s = now_s();
  for (std::size_t i = 0; i < module.addresses.size(); ++i) known->locations[module.addresses[i]] = module.locations[i];
  for (std::size_t i = 0; i < module.data.size(); ++i) {
    std::optional<DataSymbol>& variable = known->variables[module.data[i]];
    variable.reset();
    if (module.variable_of[i] != ModuleSymbols::kNoVariable) variable = module.variables[module.variable_of[i]];
  }
  try {
    const std::string text = json_of(*known).dump();
    if (text.size() > kLargestFile) return;
    fs::create_directories(folder_);
    OutputFile file(path);
    file.stream() << text;
    file.commit();
  } catch (const Json::exception&) {  // a name that is no UTF-8
  } catch (const std::exception& error) {
    log::trace("symbols are not kept for the next report: " + std::string(error.what()));
  }
}

void SymbolCache::shrink(std::uint64_t most) const {
  struct File {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<File> files;
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    File file = {at->last_write_time(gone), 0, at->path()};
    if (!gone) file.bytes = at->file_size(gone);
    if (gone) continue;
    bytes += file.bytes;
    files.push_back(std::move(file));
  }
  if (bytes <= most) return;
  std::sort(files.begin(), files.end(), [](const File& left, const File& right) { return left.used < right.used; });
  for (const File& file : files) {
    if (bytes <= most / 4 * 3) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    bytes -= file.bytes;
  }
}

std::string symbol_cache_folder() {
  std::string folder = value_or("CULPRIT_CACHE", "");
  if (folder == "off") return {};
  if (folder.empty()) {
    const std::string caches = value_or("XDG_CACHE_HOME", "");
    const std::string home = value_or("HOME", "");
    if (!caches.empty() && caches[0] == '/') {
      folder = caches + "/culprit/symbols";
    } else if (!home.empty()) {
      folder = home + "/.cache/culprit/symbols";
    }
  }
  if (folder.empty() || folder[0] != '/' || !belongs_to_us(folder)) return {};
  return folder;
}

}  // namespace culprit::report
