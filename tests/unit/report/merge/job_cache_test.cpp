// Reports that are made with what earlier dumps of the job have resolved are those that are made without it.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "report/judge/job_cache.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/render/json/render_json.h"
#include "report/render/text/render_text.h"
#include "report/select/render_options.h"
#include "report/symbols/shared_symbols.h"
#include "tests/catch.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::report;
using namespace culprit::format;
using namespace culprit::test;

namespace {

// The symbols of all programs and libraries of a job: an offset of a module has the same function in each rank.
class JobCode {
 public:
  // "module!function", with a source line when it ends in '@', with `inlined` calls when it ends in '*'.
  std::uint64_t offset(const std::string& text) {
    const auto [at, added] = offsets_.try_emplace(text, 0x1000 * (offsets_.size() + 1));
    if (!added) return at->second;
    const std::size_t bang = text.find('!');
    const std::string module = text.substr(0, bang);
    const bool inlined = text.back() == '*';
    const bool has_line = text.back() == '@' || inlined;
    const std::string function = text.substr(bang + 1, text.size() - bang - 1 - (has_line ? 1 : 0));
    for (unsigned i = 0; inlined && i < inlined_calls; ++i) {
      CodeLocation location;
      location.function = function + "_inner" + std::to_string(i);
      location.file = "/src/inner.h";
      location.line = i + 1;
      location.inlined = true;
      symbols.add(module, at->second, location);
    }
    symbols.add(module, at->second, function, has_line ? "/src/app.cu" : "", has_line ? 10 : 0);
    return at->second;
  }

  FakeSymbols symbols;
  unsigned inlined_calls = 2;

 private:
  std::map<std::string, std::uint64_t> offsets_;
};

// The dump of a rank, which has its own order of modules, Python frames and stacks.
class CodedRank {
 public:
  CodedRank(JobCode* code, unsigned number, const std::string& program) : code_(*code), random_(number) {
    dump.header().pid = 1000 + number;
    dump.header().rank = number + 1;
    dump.header().job_size = 8;
    std::vector<std::string> paths = {program, "/lib/libcudart.so.13", "/lib/libcublas.so.13", "/lib/gone.so"};
    for (unsigned i = 0; i < number % 3; ++i) paths.push_back("/lib/libother" + std::to_string(i) + ".so");
    std::shuffle(paths.begin(), paths.end(), random_);
    for (const std::string& path : paths)
      modules_[path] = dump.add_module(path, {}, path == program ? std::uint32_t{kModuleExecutable} : 0);
    for (unsigned i = 0; i < random_() % 4; ++i) dump.add_python_frame("other.py", "other" + std::to_string(i), i);
  }

  // "python:function" is a Python frame, "?" an address outside of all modules.
  Ref stack(const std::vector<std::string>& frames, std::uint32_t flags = 0) {
    std::vector<std::uint64_t> addresses;
    for (const std::string& text : frames) {
      if (text == "?") {
        addresses.push_back(0x77);
      } else if (text.rfind("python:", 0) == 0) {
        addresses.push_back(DumpBuilder::python_frame(dump.add_python_frame("train.py", text.substr(7), 12)));
      } else {
        addresses.push_back(DumpBuilder::frame(modules_.at(text.substr(0, text.find('!'))), code_.offset(text)));
      }
    }
    return dump.add_stack(addresses, flags);
  }

  CodedRank& leak(Ref stack, std::uint64_t bytes, Kind kind = Kind::kDevice) {
    dump.add_allocation(live_allocation(stack, bytes, kind));
    return *this;
  }
  // Leaked by an exception.
  CodedRank& abandon(Ref stack, Ref thrower, std::uint64_t bytes) {
    ThrowRecord thrown = {};
    thrown.state = 1;
    thrown.type = dump.add_string("St13runtime_error");
    thrown.stack = thrower;
    thrown.count = 1;
    EvidenceRecord evidence = {};
    evidence.state = 1;
    evidence.thrown = dump.add_throw(thrown);
    evidence.thrown_owner = 1;
    AllocationRecord record = live_allocation(stack, bytes);
    record.evidence = dump.add_evidence(evidence);
    dump.add_allocation(record);
    return *this;
  }

  DumpBuilder dump;

 private:
  JobCode& code_;
  std::mt19937_64 random_;
  std::map<std::string, std::uint32_t> modules_;
};

// Two programs, and leaks that all, some or one of the ranks have.
std::vector<std::vector<char>> dumps_of(JobCode* code) {
  std::vector<std::vector<char>> dumps;
  for (unsigned number = 0; number < 8; ++number) {
    const std::string program = number % 4 == 3 ? "/bin/other" : "/bin/app";
    CodedRank rank(code, number, program);
    // Of the first ranks the program seems to have no debug information.
    const std::string line = number < 2 ? "" : "@";
    std::vector<std::function<void()>> leaks = {
        [&] {
          rank.leak(rank.stack({"/lib/libcudart.so.13!cudaMalloc", program + "!make" + line, program + "!main"}), 100);
        },
        [&] {
          rank.leak(rank.stack({program + "!deep*", program + "!main"}), 200 + number);
        },
        [&] { rank.leak(rank.stack({program + "!deep*"}, kStackMerged), 300); },
        [&] { rank.leak(rank.stack({program + "!deep*"}, kStackTruncated), 300); },
        [&] {
          rank.leak(rank.stack({"/lib/libcublas.so.13!workspace", program + "!main"}), 400);
        },
        [&] {
          rank.leak(rank.stack({"/lib/gone.so!lost", "?", program + "!main"}), 500);
        },
        [&] {
          rank.leak(rank.stack({program + "!call", "python:step", "python:<module>", program + "!main"}), 600);
        },
        [&] {
          rank.leak(rank.stack({program + "!stream", program + "!main"}), 0, Kind::kStream);
        },
        [&] {
          rank.abandon(rank.stack({program + "!risky@", program + "!owner", program + "!main"}),
                       rank.stack({program + "!thrower@", program + "!main"}), 700);
        },
    };
    if (number == 5) leaks.push_back([&] { rank.leak(rank.stack({program + "!only_here*", program + "!main"}), 800); });
    std::shuffle(leaks.begin(), leaks.end(), std::mt19937_64(number));
    for (const auto& leak : leaks) leak();
    dumps.push_back(rank.dump.bytes());
  }
  return dumps;
}

struct ShownReports {
  std::vector<std::string> single;
  std::string merged;
};

// `most`: JobCache::most; nullopt: without a cache.
ShownReports reports_of(const JobCode& code, const std::vector<std::vector<char>>& dumps,
                        std::optional<std::size_t> most) {
  SharedSymbols symbols(code.symbols.lookup());
  JobCache cache;
  ReportMerger merger;
  ShownReports shown;
  for (const std::vector<char>& bytes : dumps) {
    if (most) cache.most = *most;
    LoadOptions options;
    options.lookup = [&](std::vector<ModuleSymbols>& modules) { symbols.look_up(modules); };
    options.cache = most ? &cache : nullptr;
    Report report = load_report(Dump::from_bytes(bytes.data(), bytes.size(), "culprit.app.4242.dump"), options);
    std::ostringstream text;
    render_json({report}, text);
    RenderOptions render;
    render.resources = true;
    render_text({report}, render, text);
    shown.single.push_back(text.str());
    merger.add(std::move(report), most ? cache.stacks.get() : nullptr);
    if (most) cache.limit();
  }
  shown.merged = merged_part(merger.finish(false));
  return shown;
}

void check_equal(const JobCode& code, const std::vector<std::vector<char>>& dumps) {
  const ShownReports without = reports_of(code, dumps, std::nullopt);
  for (const std::size_t most : {std::size_t{1} << 30, std::size_t{1}}) {
    INFO("the cache has up to " << most << " bytes");
    const ShownReports with = reports_of(code, dumps, most);
    for (std::size_t i = 0; i < dumps.size(); ++i) {
      INFO("dump " << i);
      CHECK(with.single[i] == without.single[i]);
    }
    CHECK((with.merged == without.merged));
  }
}

}  // namespace

TEST_CASE("reports of a job are the same with the stacks of earlier dumps", "[report][merge]") {
  JobCode code;
  code.symbols.set_state("/lib/gone.so", ModuleState::kNoFile);
  std::vector<std::vector<char>> dumps = dumps_of(&code);
  check_equal(code, dumps);
  std::reverse(dumps.begin(), dumps.end());
  check_equal(code, dumps);
}

TEST_CASE("each dump of a job may show as many inlined calls as one that is read alone", "[report][merge][scale]") {
  JobCode code;
  code.inlined_calls = 400;
  std::vector<std::vector<char>> dumps;
  for (unsigned number = 0; number < 3; ++number) {
    CodedRank rank(&code, number, "/bin/app");
    // The last ones have more than a million calls, 20,000 for each leak.
    for (unsigned i = 0; i < (number == 0 ? 8 : 51 + number); ++i) {
      std::vector<std::string> frames(50, "/bin/app!repeated*");
      frames[0] = "/bin/app!place" + std::to_string((i + number) % 100);
      rank.leak(rank.stack(frames), 100 + i);
    }
    dumps.push_back(rank.dump.bytes());
  }
  check_equal(code, dumps);
}

TEST_CASE("a stack that several dumps have is resolved once", "[report][merge]") {
  JobCode code;
  const std::vector<std::vector<char>> dumps = dumps_of(&code);
  std::size_t asked = 0;
  const SymbolLookup fake = code.symbols.lookup();
  SharedSymbols symbols([&](std::vector<ModuleSymbols>& modules) { fake(modules); });
  JobCache cache;
  LoadOptions options;
  options.cache = &cache;
  options.lookup = [&](std::vector<ModuleSymbols>& modules) {
    for (const ModuleSymbols& module : modules) asked += module.addresses.size();
    symbols.look_up(modules);
  };
  const Dump dump = Dump::from_bytes(dumps[0].data(), dumps[0].size(), "first");
  const std::string id = load_report(dump, options).leaks.front().id;
  CHECK(asked > 5);
  asked = 0;
  const std::size_t bytes = cache.stacks->bytes();
  CHECK(load_report(dump, options).leaks.front().id == id);
  CHECK(asked == 0);
  CHECK(cache.stacks->bytes() == bytes);
}
