// The screen of culprit top: its pictures at several sizes, and its keys.
#include <memory>
#include <string>
#include <vector>

#include "report/base/text_width.h"
#include "report/screen/top_keys.h"
#include "report/screen/top_picture.h"
#include "tests/catch.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"

using namespace culprit::format;
using namespace culprit::report;
using culprit::test::has;
using culprit::test::live_allocation;
using culprit::test::Program;

namespace {

constexpr ScreenSize kUsual = {24, 80};

// The state with its keys and pictures.
struct TestedView {
  explicit TestedView(TopSettings settings) : state(std::move(settings)) {}
  TopRequest press(Key key, LiveModel* model) { return press_key(&state, key, model); }
  Picture draw(const LiveModel& model, ScreenSize size) { return draw_top(&state, model, size); }
  const LiveChoice& choice() const { return state.choice; }
  TopState state;
};

LiveProcess process_of_functions(int count, std::uint32_t pid = 4242, const std::string& name = "function") {
  Program program;
  DeviceRecord device = {};
  device.state = 1;
  device.first.total_bytes = 1 << 20;
  program.dump.add_device(device);
  program.dump.header().pid = pid;
  for (int i = 0; i < count; ++i) {
    AllocationRecord record = live_allocation(program.stack({name + std::to_string(i), "main"}),
                                              100000 - 1000 * static_cast<std::uint64_t>(i));
    record.device = 0;
    program.dump.add_allocation(record);
  }
  JudgeOptions judge;
  judge.strict = true;
  return live_process_of(std::make_shared<Report>(program.report(judge)), GpuUsers());
}

LiveModel model_of(std::vector<LiveProcess> processes, int looks = 1) {
  LiveModel model;
  for (int look = 0; look < looks; ++look) {
    LiveLook one;
    one.seconds = look;
    one.processes = processes;
    model.add(std::move(one));
  }
  return model;
}

std::string words_of(const Picture& picture) {
  std::string text;
  for (const PictureLine& line : picture.lines) text += text_of(line) + "\n";
  return text;
}

// The text of the chosen line; "": there is none.
std::string chosen_in(const Picture& picture) {
  for (const PictureLine& line : picture.lines) {
    for (const Span& span : line) {
      if (span.style == Style::kSelected) return span.text + " ";
    }
  }
  return "";
}

void press_all(TestedView* view, LiveModel* model, const std::string& keys) {
  for (const char key : keys) view->press(static_cast<Key>(key), model);
}

}  // namespace

TEST_CASE("a picture fills screens of every size", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(50), process_of_functions(1, 7)}, 4);
  for (const char* keys : {"", "m", "p", "?", "\n", "/fun", "gm", "a"}) {
    TestedView view{TopSettings()};
    view.draw(model, kUsual);
    press_all(&view, &model, keys);
    for (const int rows : {1, 2, 3, 5, 10, 24, 60}) {
      for (const int columns : {1, 2, 10, 40, 80, 120, 300}) {
        INFO(keys << " " << rows << " " << columns);
        const Picture picture = view.draw(model, {rows, columns});
        REQUIRE(picture.lines.size() == static_cast<std::size_t>(rows));
        for (const PictureLine& line : picture.lines)
          REQUIRE(columns_of(text_of(line)) == static_cast<std::size_t>(columns));
        CHECK(picture.cursor < columns);
      }
    }
  }
}

TEST_CASE("a screen of 80 columns has the figures, one of 40 the most needed", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(2)}, 4);
  TestedView view{TopSettings()};
  const std::string wide = words_of(view.draw(model, kUsual));
  CHECK(has(wide, " [4242] · has ended"));
  CHECK(has(wide, "GPU 0   194 KiB live"));
  CHECK(has(wide, "194 KiB of 1.00 MiB known"));
  CHECK(has(wide, "   LIVE▾     START  MIB/MIN   COUNT  OLDEST  WHERE"));
  CHECK(has(wide, "97.7 KiB         0        0      1x"));
  CHECK(has(wide, "app.cu:10  function0"));
  const std::string narrow = words_of(view.draw(model, {10, 40}));
  CHECK(has(narrow, "    LIVE▾  MIB/MIN  WHERE"));
  CHECK_FALSE(has(narrow, "COUNT"));
  view.press('m', &model);
  CHECK(has(words_of(view.draw(model, kUsual)), "SINCE M"));
}

TEST_CASE("keys choose a row, which stays chosen when rows move", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(50)});
  TestedView view{TopSettings()};
  CHECK(has(chosen_in(view.draw(model, kUsual)), "function0"));
  view.press(kKeyDown, &model);
  view.press('j', &model);
  CHECK(has(chosen_in(view.draw(model, kUsual)), "function2 "));
  view.press('r', &model);
  CHECK(has(chosen_in(view.draw(model, kUsual)), "function2 "));
  view.press(kKeyHome, &model);
  CHECK(has(chosen_in(view.draw(model, kUsual)), "function49"));
  view.press(kKeyEnd, &model);
  CHECK(has(chosen_in(view.draw(model, kUsual)), "function0 "));
  view.press(kKeyPageUp, &model);
  view.press(kKeyUp, &model);
  CHECK_FALSE(has(chosen_in(view.draw(model, kUsual)), "function0 "));
  CHECK_FALSE(chosen_in(view.draw(model, {10, 40})).empty());
}

TEST_CASE("enter opens the stack, and escape closes it", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(3)});
  TestedView view{TopSettings()};
  view.draw(model, kUsual);
  view.press(kKeyDown, &model);
  view.press(kKeyEnter, &model);
  const std::string opened = words_of(view.draw(model, kUsual));
  CHECK(has(opened, "app.cu:10  function1"));
  CHECK(has(opened, "main"));
  CHECK(has(opened, "live 96.7 KiB in 1 allocation"));
  CHECK(has(opened, "/src/app.cu is not here"));
  view.press(kKeyDown, &model);
  view.press(kKeyEscape, &model);
  CHECK(has(words_of(view.draw(model, kUsual)), "WHERE"));
  // A row that is gone.
  view.press(kKeyEnter, &model);
  view.draw(model, kUsual);
  LiveModel emptied = model_of({process_of_functions(1)}, 2);
  CHECK(has(words_of(view.draw(emptied, kUsual)), "nothing of it is held any more"));
}

TEST_CASE("typed words filter the rows", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(20)});
  TestedView view{TopSettings()};
  press_all(&view, &model, "/function1q");
  CHECK(view.draw(model, kUsual).cursor == 11);
  CHECK(has(words_of(view.draw(model, kUsual)), "no row has \"function1q\""));
  view.press(kKeyBackspace, &model);
  view.press(kKeyEnter, &model);
  const std::string text = words_of(view.draw(model, kUsual));
  CHECK(has(text, "/function1"));
  CHECK(has(text, "function19"));
  CHECK_FALSE(has(text, "function2 "));
  view.press(kKeyEscape, &model);
  CHECK(has(words_of(view.draw(model, kUsual)), "function2 "));
  // Letters of other scripts are erased as a whole.
  view.press('/', &model);
  view.press(0xe4, &model);
  view.press(0x1f600, &model);
  CHECK(view.choice().filter == "ä😀");
  view.press(kKeyBackspace, &model);
  view.press(kKeyBackspace, &model);
  view.press(kKeyBackspace, &model);
  CHECK(view.choice().filter.empty());
  view.press(0x9b, &model);  // a control character
  CHECK(view.choice().filter == "?");
}

TEST_CASE("keys change order, group and process", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(3), process_of_functions(2, 7, "other")});
  TestedView view{TopSettings()};
  CHECK(has(words_of(view.draw(model, kUsual)), "2 processes"));
  CHECK(has(words_of(view.draw(model, kUsual)), "PID"));
  press_all(&view, &model, "g");
  CHECK(view.choice().by == "line");
  press_all(&view, &model, "GG");
  CHECK(view.choice().by == "mark");
  press_all(&view, &model, "oo");
  CHECK(view.choice().sort == LiveSort::kRate);  // without a mark there is no change since it
  press_all(&view, &model, "mO");
  CHECK(view.choice().sort == LiveSort::kSinceMark);
  press_all(&view, &model, "G\t");
  CHECK(view.choice().only == model.look().processes.at(0).key);
  press_all(&view, &model, "\t");
  CHECK(view.choice().only == model.look().processes.at(1).key);
  press_all(&view, &model, "\t");
  CHECK(view.choice().only.empty());
  CHECK(view.press('s', &model).process == model.look().processes.at(0).key);
  CHECK(view.press('q', &model).what == TopRequest::What::kQuit);
}

TEST_CASE("a process without culprit is offered to be attached", "[report][screen]") {
  LiveProcess bare;
  bare.pid = 77;
  bare.key = "77 ";
  bare.name = "python3";
  bare.state = LiveState::kNotRecorded;
  bare.note = "process 77 does not run under culprit";
  LiveModel model = model_of({bare});
  TestedView view{TopSettings()};
  CHECK(has(words_of(view.draw(model, kUsual)), "a attaches to process 77"));
  CHECK(view.press('a', &model).what == TopRequest::What::kNothing);
  CHECK(has(words_of(view.draw(model, kUsual)), "attach to process 77? y: yes"));
  CHECK(view.press('n', &model).what == TopRequest::What::kNothing);
  view.press('a', &model);
  const TopRequest request = view.press('y', &model);
  CHECK(request.what == TopRequest::What::kAttach);
  CHECK(request.pid == 77);
  // In the list of processes likewise.
  press_all(&view, &model, "p");
  CHECK(has(words_of(view.draw(model, kUsual)), "not recorded: a attaches"));
  view.press(kKeyEnter, &model);
  CHECK(view.press('y', &model).pid == 77);
}

TEST_CASE("what was not recorded is said on the smallest screen", "[report][screen]") {
  LiveProcess process = process_of_functions(0);
  process.not_known = {"3 events were not recorded"};
  LiveModel model = model_of({process});
  TestedView view{TopSettings()};
  for (const ScreenSize size : {kUsual, ScreenSize{10, 60}}) {
    const std::string text = words_of(view.draw(model, size));
    CHECK(has(text, "NOT KNOWN: 3 events were not recorded"));
    CHECK(has(text, "(nothing that was recorded is held)"));
  }
  LiveModel none = model_of({});
  CHECK(has(words_of(TestedView{TopSettings()}.draw(none, kUsual)), "no process records here"));
  CHECK(has(words_of(TestedView{TopSettings()}.draw(LiveModel(), kUsual)), "reading ..."));
}

TEST_CASE("a screen has at most the rows that were asked for", "[report][screen]") {
  LiveModel model = model_of({process_of_functions(30)});
  TopSettings settings;
  settings.most_rows = 2;
  TestedView view(settings);
  const std::string text = words_of(view.draw(model, kUsual));
  CHECK(has(text, "function1 "));
  CHECK_FALSE(has(text, "function2 "));
}
